/**
 * Enforces the budget of an agent while its command runs. It reads the usage from the session file, and ends the
 * command when the usage exceeds the budget.
 */
import { createLineReader } from '../../agents/lines.ts';
import { AGENT_HOME } from '../../agents/provider.ts';
import { createSessionReader, sessionFollower, sessionPrinter } from '../../agents/session-files.ts';
import { type AgentUsage, NO_USAGE, STREAM_LIMITS } from '../../agents/stream.ts';
import type { AgentCli } from '../../domain/agent/agent-cli.ts';
import { findLargestUse } from '../../domain/agent/budget.ts';
import type { OverBudget } from '../../domain/agent/limits.ts';
import type { Exec, ExecRequest, Sandbox } from '../ports/sandbox.ts';
import { BudgetMeter } from './shared/meter.ts';
import { createMapping } from '../../domain/units/mapping.ts';

/** Time that an agent has between SIGTERM and SIGKILL. */
export const TERM_GRACE_MS = 2_000;
const READY = 'ready';

/**
 * The usage of one command, from its stream and its session file. Each of them may be behind the other, and neither
 * reports too much.
 */
export class CommandMeter extends BudgetMeter {
  #streamed = NO_USAGE;
  #followed = NO_USAGE;

  /** True if the stream has reported more than the file. */
  get isFileBehind(): boolean {
    const { inputTokens, outputTokens } = this.#streamed;
    return inputTokens + outputTokens > this.#followed.inputTokens + this.#followed.outputTokens;
  }

  /** @param hasAnswered true if this usage comes with the end of the agent's turn, so that no call follows */
  streamed(usage: AgentUsage, hasAnswered = false): AgentUsage {
    this.#streamed = findLargestUse(this.#streamed, usage);
    return this.count(usage, hasAnswered);
  }

  followed(usage: AgentUsage): AgentUsage {
    this.#followed = findLargestUse(this.#followed, usage);
    return this.count(usage);
  }
}

/**
 * Ends a command because of its usage. A command that has already ended keeps its result.
 * @returns a function that cancels the end if it has not begun
 */
export function endExec(exec: Exec, { code, words }: OverBudget): () => void {
  const timer = setTimeout(
    () => void exec.end({ kind: 'failure', code, words }, TERM_GRACE_MS).catch(() => undefined),
    0,
  );
  return () => clearTimeout(timer);
}

interface SessionFile {
  readonly sandbox: Sandbox;
  /** The exec key of the command that reads the file. */
  readonly key: string;
  readonly cli: AgentCli;
  readonly sessionId: string;
  /** Settings of the agent's own command. */
  readonly of: Pick<ExecRequest, 'env' | 'timeoutMs' | 'maxOutputBytes'>;
}

export interface FollowerOptions extends SessionFile {
  readonly from: 'start' | 'end';
}

const FOLLOWED_VARIABLES = ['HOME', 'CODEX_HOME', 'CLAUDE_CONFIG_DIR'];
/** The follower must outlive its agent. */
const AFTER_AGENT_MS = 120_000;

/** Returns null if the agent's name of its session is not a session id. */
export async function startFollower(options: FollowerOptions, signal: AbortSignal): Promise<Exec | null> {
  const { cli, sessionId, from, of } = options;
  const args = sessionFollower(cli, sessionId, from);
  return args === null ? null : await startReader(options, args, of.timeoutMs + AFTER_AGENT_MS, signal);
}

function startReader(
  { sandbox, key, of }: SessionFile,
  args: readonly string[],
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Exec> {
  const env = createMapping(Object.entries(of.env).filter(([name]) => FOLLOWED_VARIABLES.includes(name)));
  return sandbox.exec(
    {
      key,
      program: '/bin/sh',
      args,
      env: { HOME: AGENT_HOME, ...env },
      cwd: '/',
      stdin: null,
      timeoutMs,
      maxOutputBytes: of.maxOutputBytes,
    },
    signal,
  );
}

/** The time limit for reading the session file of an agent that has ended. */
const READ_LIMIT_MS = 5_000;

/**
 * Returns the usage in the session file, which it reads once after the agent has ended. Returns null if the agent's
 * name of its session is not a session id. A missing file counts nothing.
 */
export async function readSessionUse(
  file: SessionFile,
  signal: AbortSignal,
): Promise<{ readonly use: AgentUsage; readonly reader: Exec } | null> {
  const args = sessionPrinter(file.cli, file.sessionId);
  if (args === null) return null;
  const reader = await startReader(file, args, READ_LIMIT_MS, signal);
  let use = NO_USAGE;
  await readFollower(reader, file.cli, async (usage) => void (use = usage), signal);
  await reader.wait(signal);
  return { use, reader };
}

/** Resolves when the follower has reached the end of the file, or has ended. */
export async function waitUntilReady(follower: Exec, signal: AbortSignal): Promise<void> {
  for await (const _ of follower.output('stdout', 0, signal)) return;
}

/**
 * Above the event limit of a stream, only every thousandth line gets an event: the writer of the file can write any
 * number of lines.
 */
const TOLD_OF_MORE = 1_000;

/**
 * Resolves at the end of the follower's output.
 * @param tell called for each line that reports new usage, with the line's offset; `hasEvent` is true if the log gets
 * an event too
 */
export async function readFollower(
  follower: Exec,
  cli: AgentCli,
  tell: (usage: AgentUsage, offset: number, hasEvent: boolean) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const lines = createLineReader(STREAM_LIMITS.lineBytes);
  const reader = createSessionReader(cli);
  let said = 0;
  for await (const chunk of follower.output('stdout', 0, signal))
    for (const { text, offset } of lines.push(chunk)) {
      const usage = text === null || text === READY ? null : reader.line(text);
      if (usage === null) continue;
      said += 1;
      await tell(usage, offset, said <= STREAM_LIMITS.events || said % TOLD_OF_MORE === 0);
    }
}
