import { resolve } from 'node:path';
import { readDaemonHash } from '../../../app/access/daemon-token.ts';
import { ensureStack, type StackInfo } from '../../../client/embedded/stack.ts';
import { startTokenDatabase } from '../../../client/embedded/token-database.ts';
import { holdStack, openHeldStack } from '../../../client/service/hold-stack.ts';
import { openStateFolder } from '../../../client/vms/state-folder.ts';
import { readHostId } from '../../../client/vms/this-host.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import type { Environment } from '../../../setup/environment.ts';
import { requireOpenFiles } from '../../../setup/machine/require-open-files.ts';
import { resolveHostPieces } from '../../../setup/resolve.ts';
import { SetupError } from '../../../setup/setup-error.ts';
import { defineCommand } from '../../command.ts';
import type { CommandHelp } from '../../command-help.ts';
import type { CliContext } from '../../context.ts';
import { EXIT, type ExitCode } from '../../exit-code.ts';
import { renderServed } from '../../render/host/serve.ts';
import { keepNotifyOptions, parseNotifyOptions } from '../../start/notify-options.ts';
import {
  addServeOptions,
  parseServeOptions,
  requireTokens,
  type ServeOptions,
  type ServePlan,
} from '../../start/serve-options.ts';
import { keepSourceChange, parseSourceOptions } from '../../start/source-options.ts';
import { type ServeProcess, startServeProcess } from '../../start/serve-process.ts';

const HELP: CommandHelp = {
  common: ['--listen', '--token-file', '--public-url', '--json'],
  examples: [
    ['voidbox serve --listen unix:/run/user/1000/api.sock', 'a path of your own'],
    ['TEMPORAL_ADDRESS=HOST:7233 voidbox serve --listen 127.0.0.1:8080', 'runs of your own server'],
    ['voidbox serve', 'the socket where clients of Void-Box look'],
  ],
  notes: [
    [
      'Runs',
      'With TEMPORAL_*, the runs of your own Temporal server, whose worker has the same VOIDBOX_STATE_DIR on this host. Without, the runs of the embedded stack, which is started and held up.',
    ],
    [
      'Unix socket',
      'Its clients have your rights, and only you can connect (mode 0600). A socket that no process serves is replaced.',
    ],
    [
      'TCP',
      'Each client needs a token: of `voidbox token create`, or the text of --token-file. An address beyond the loopback needs TLS or --behind-proxy.',
    ],
    [
      "Daemon's token",
      'The text of --token-file, VOIDBOX_DAEMON_TOKEN_FILE or VOIDBOX_DAEMON_TOKEN has the scope `run` and the name `daemon`. It is read at the start.',
    ],
    [
      'Stop',
      'At Ctrl-C or SIGTERM, the addresses close, and open requests have 3 seconds. A second signal ends it at once. Runs continue.',
    ],
  ],
  exitCodes: [
    ['0', 'stopped by Ctrl-C or SIGTERM'],
    ['130', 'ended at once by a second signal'],
    ['2', 'the command line has a mistake, or the token or certificate cannot be used'],
    ['3', 'environment: the machine, the server or an address; or the service failed'],
  ],
};

interface Options extends ServeOptions {
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  help: HELP,
  configure: addServeOptions,
  async execute(_args, options, context) {
    const { env } = context;
    const { cwd } = context;
    const plan = parseServeOptions(options, { cwd, nowMs: context.now().getTime(), defaultSocket: env.daemon.socket });
    const sources = parseSourceOptions(options, cwd);
    const hosts = parseNotifyOptions(options);
    const daemonHash = await readDaemon(options, context);
    requireTokens(plan, daemonHash !== null, env);
    for (const warning of plan.warnings) await context.warn(sanitizeLine(warning));
    requireOpenFiles('The service');
    openStateFolder(env.stateDir);
    keepSourceChange(env.stateDir, sources);
    keepNotifyOptions(env.stateDir, hosts);
    const note = (line: string): void => void context.stderr.write(`==> ${line}\n`);
    const stack = env.temporalConfigured ? await checkOwnServer(context) : await startStack(plan, env, note);
    const log = (line: string): void => void context.stderr.write(`${line}\n`);
    const child = startServeProcess({ ...plan.place, daemonHash }, env, log);
    const holding = stack === null ? null : holdStack(openHeldStack(env, note), { note });
    try {
      return await serveUntilEnd(child, context, async () => {
        const news = await child.opened;
        if ('problem' in news) throw new SetupError(news.problem.message, news.problem.remedy);
        const { sockets, listeners } = news.listening;
        const lines = options.json
          ? [JSON.stringify({ stack, apiSockets: sockets, apiListeners: listeners })]
          : renderServed(news.listening, plan.place.publicUrl);
        await context.stdout.write(`${lines.join('\n')}\n`);
        note('Ctrl-C ends the service; runs continue');
      });
    } finally {
      holding?.dispose();
    }
  },
});

/** @throws AppError */
async function readDaemon({ tokenFile }: Options, { env, cwd }: CliContext): Promise<string | null> {
  if (tokenFile !== undefined)
    return await readDaemonHash({ kind: 'file', path: resolve(cwd, tokenFile) }, '--token-file');
  const { token } = env.daemon;
  if (token === null) return null;
  return await readDaemonHash(token, token.kind === 'file' ? 'VOIDBOX_DAEMON_TOKEN_FILE' : 'VOIDBOX_DAEMON_TOKEN');
}

/** @throws NoServerError */
async function checkOwnServer(context: CliContext): Promise<null> {
  const { env } = context;
  const { readConfiguredAddress } = await import('../../../client/temporal/temporal-address.ts');
  const { connectOwnServer } = await import('../../../client/temporal/server-problem.ts');
  const target = readConfiguredAddress(env);
  if (target !== null) await (await connectOwnServer(target, env)).close();
  if (readHostId(env.stateDir) === null)
    await context.warn(
      `no worker has used the state folder ${sanitizeLine(env.stateDir)} yet: its runs start when \`voidbox worker\` runs with it`,
    );
  return null;
}

/** @throws SetupError */
async function startStack({ place }: ServePlan, env: Environment, note: (line: string) => void): Promise<StackInfo> {
  await resolveHostPieces(env, { install: true, onProgress: note });
  const stack = await ensureStack(env, { onProgress: note });
  if (place.listen.length > 0 && env.database === null) await startTokenDatabase(env.stateDir);
  return stack;
}

/** @throws SetupError if the service cannot listen, or ends without a signal */
async function serveUntilEnd(child: ServeProcess, context: CliContext, report: () => Promise<void>): Promise<ExitCode> {
  let signals = 0;
  const onSignal = (): void => {
    signals += 1;
    if (signals === 1) child.stop();
    else child.kill();
  };
  const listening = context.onInterrupt(onSignal);
  for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal);
  try {
    await report();
    const how = await child.ended;
    if (signals > 1) return EXIT.interrupted;
    if (how === null) return EXIT.success;
    throw new SetupError(`the service failed: ${how}`, 'Start it again: voidbox serve');
  } catch (error) {
    if (signals === 0) throw error;
    await child.ended;
    return signals > 1 ? EXIT.interrupted : EXIT.success;
  } finally {
    child.kill();
    for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.off(signal, onSignal);
    listening.dispose();
  }
}
