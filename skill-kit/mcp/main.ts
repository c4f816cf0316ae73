/** The `mcp` command of a skill. The protocol's library is loaded only when it runs. */
import type { ReferenceDefinition, ReferenceLoader, SkillDefinition } from '../../domain/step-machine/definition.ts';
import { sanitize } from '../../domain/security/sanitize.ts';
import { offerToWorker } from '../worker-handoff.ts';
import { grantDeclared, processRedaction, withholdEnvironment } from '../drive/skill-environment.ts';
import { createReferenceLoader, skillDirOf } from '../prompt/reference-loader.ts';
import { MCP_HELP, type McpOptions, parseMcpOptions } from './options.ts';
import type { SessionStore } from './session-store.ts';
import type { ToolSet } from './tool-set.ts';

/**
 * Serves a skill until its client has gone (stdio), or until SIGINT or SIGTERM. A mistake in the flags or in the definition is
 * a line on stderr and exit code 1.
 * @param baseDir  the folder that holds `references/`; default: the script's own, or the one above it
 * @param argv  flags, after `mcp`; default: those of this process
 */
export async function mcpMain(definition: SkillDefinition, baseDir?: string, argv?: readonly string[]): Promise<void> {
  if (offerToWorker(definition)) return;
  await run(argv, baseDir, async (options, refs) => {
    grantDeclared(definition);
    const { skillTools } = await import('./skill-tools.ts');
    const { handshake } = options;
    return skillTools(definition, { store: await storeOf(definition, options, refs), refs, handshake });
  });
}

async function storeOf(
  definition: SkillDefinition,
  { durable, idleMs, maxSessions }: McpOptions,
  refs: ReferenceLoader,
): Promise<SessionStore> {
  if (!durable) {
    const { MemorySessions } = await import('./memory-sessions.ts');
    return new MemorySessions(definition, { maxSessions, idleMs, refs, warn });
  }
  const [{ openDurable }, { DurableStore }] = await Promise.all([
    import('../durable/find-voidbox.ts'),
    import('./durable-sessions.ts'),
  ]);
  return new DurableStore(await openDurable(definition, process.argv[1] ?? null, warn), { maxSessions });
}

/** As mcpMain; skills with sub-skills and topics are served by the same tools. */
export async function mcpCompositeMain(
  definition: SkillDefinition,
  baseDir?: string,
  argv?: readonly string[],
): Promise<void> {
  await mcpMain(definition, baseDir, argv);
}

/** As mcpMain, for a reference: `topics` and `topic`. */
export async function mcpReferenceMain(
  definition: ReferenceDefinition,
  baseDir?: string,
  argv?: readonly string[],
): Promise<void> {
  if (offerToWorker(definition)) return;
  await run(argv, baseDir, async (_options, refs) => {
    const { referenceTools } = await import('./reference-tools.ts');
    return referenceTools(definition, refs);
  });
}

type MakeTools = (options: McpOptions, refs: ReferenceLoader) => Promise<ToolSet>;

async function run(
  argv: readonly string[] = flagsOfProcess(),
  baseDir = skillDirOf(process.argv[1] ?? '.'),
  makeTools: MakeTools,
): Promise<void> {
  withholdEnvironment();
  try {
    const options = parseMcpOptions(argv);
    if (options === null) return void process.stderr.write(MCP_HELP);
    await serve(options, await makeTools(options, createReferenceLoader(baseDir)));
  } catch (cause) {
    process.stderr.write(
      sanitize(processRedaction().text(`error: ${cause instanceof Error ? cause.message : String(cause)}\n`)),
    );
    process.exit(1);
  }
}

function flagsOfProcess(): readonly string[] {
  const [first, ...rest] = process.argv.slice(2);
  return first === 'mcp' ? rest : process.argv.slice(2);
}

async function serve({ http, idleMs, maxMessageBytes }: McpOptions, tools: ToolSet): Promise<void> {
  const limits = maxMessageBytes === undefined ? {} : { maxMessageBytes };
  const stop = new AbortController();
  const stopped = new Promise<void>((resolve) =>
    stop.signal.addEventListener('abort', () => resolve(), { once: true }),
  );
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stop.abort());
  surviveStrayErrors();
  if (http === null) {
    const { serveStdio } = await import('./stdio.ts');
    await serveStdio(tools, { ...limits, signal: stop.signal, warn });
  } else {
    const { serveHttp } = await import('./http.ts');
    const { close, url } = await serveHttp(tools, { ...http, ...limits, idleMs, warn });
    process.stderr.write(`listening on ${url}\n`);
    await stopped;
    await close();
  }
  // An action that ignores its signal, or a timer of the skill, would keep a process without a client alive.
  process.exit(0);
}

/** Code of the skill that fails outside of any call must not take the sessions of others with it. */
function surviveStrayErrors(): void {
  const warnOfError = (cause: unknown): void =>
    warn(`an error outside of any call: ${cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)}`);
  process.on('uncaughtException', warnOfError);
  process.on('unhandledRejection', warnOfError);
  // The reader of standard error has gone. Without this, reporting an error would cause the next one, for ever.
  process.stderr.on('error', () => undefined);
}

function warn(message: string): void {
  // It may quote what a client sent.
  process.stderr.write(`[skill-kit] ${sanitize(processRedaction().text(message))}\n`);
}
