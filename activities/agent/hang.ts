/**
 * Handles an agent whose process does not end after its final result: Voidbox ends the process, and the result counts.
 * The notice is in the log before the signal, so that a worker that takes over knows that Voidbox ended the command.
 */
import { isService } from '../../domain/plan/work.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { TERM_GRACE_MS } from './budget.ts';
import { commandKey } from './command.ts';
import type { AgentTurn } from './turns.ts';
import type { Listen } from '../attempt/follow-command.ts';
import type { AttemptVm } from '../attempt/stage-attempt.ts';
import type { Exec, ExecExit } from '../ports/sandbox.ts';

/** Time that an agent's process has to end after its final result. */
export const HANG_LIMIT_MS = 10_000;
/** An agent is ended this long before its stage's time limit, because the limit would discard its result. */
const BEFORE_DEADLINE_MS = 1_000;

/** Records whether the stream of a command contains the agent's final result. */
export class AnswerWatch {
  #hasAnswered = false;
  #waiting: (() => void)[] = [];

  get hasAnswered(): boolean {
    return this.#hasAnswered;
  }

  /** @param hasAnswered false again if the agent begins another turn */
  set(hasAnswered: boolean): void {
    if (hasAnswered === this.#hasAnswered) return;
    this.#hasAnswered = hasAnswered;
    for (const wake of this.#waiting.splice(0)) wake();
  }

  /** Resolves at the next change. */
  async change(): Promise<void> {
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }
}

interface HangContext {
  /** The number of the command in its attempt, from 1. */
  readonly command: number;
  readonly exec: Exec;
  /** The end of the stage's time, in milliseconds since the epoch. */
  readonly deadlineMs: number;
  readonly watch: AnswerWatch;
}

/** Returns a listener that reads nothing: it waits for the command's end, and ends a command that hangs. */
export function endIfHanging(vm: AttemptVm, { command, exec, deadlineMs, watch }: HangContext): Listen {
  return async ({ signal }) => {
    const ended = exec.wait(signal).then(() => 'ended' as const);
    ended.catch(() => undefined);
    // A service serves until its run is cancelled, also after a final result of its agent.
    if (isService(vm.request.stage.work)) return void (await ended);
    for (;;) {
      const changed = watch.change().then(() => 'changed' as const);
      const limitMs = Math.max(0, Math.min(HANG_LIMIT_MS, deadlineMs - BEFORE_DEADLINE_MS - vm.deps.now()));
      const first = watch.hasAnswered
        ? await raceWithin(limitMs, ended, changed)
        : await Promise.race([ended, changed]);
      if (first === 'ended') return;
      if (first === 'changed') continue;
      await recordHang(vm, command, limitMs);
      const dispose = endHung(exec);
      try {
        await ended;
      } finally {
        dispose();
      }
      return;
    }
  };
}

/** Ends the command with signals that set no cause, because the agent's result counts. */
function endHung(exec: Exec): () => void {
  const send = (name: 'SIGTERM' | 'SIGKILL'): void => void exec.signal(name).catch(() => undefined);
  send('SIGTERM');
  const timer = setTimeout(() => send('SIGKILL'), TERM_GRACE_MS);
  return () => clearTimeout(timer);
}

async function raceWithin<T>(limitMs: number, ...others: readonly Promise<T>[]): Promise<T | 'late'> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<'late'>((resolve) => (timer = setTimeout(() => resolve('late'), limitMs)));
  try {
    return await Promise.race([...others, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** @throws `fence/stale` if another worker has taken the attempt over; that worker then ends the command */
async function recordHang({ deps, request, sandbox }: AttemptVm, command: number, waitedMs: number): Promise<void> {
  const { runId, execKey, stage } = request;
  const message = `the agent of stage ${stage.id} did not end within ${Math.round(waitedMs / 1000)} s of its final result, so Voidbox ended its process; the result counts`;
  const id = EVENT_ID.hung(commandKey(execKey, command));
  const body = { type: 'notice', level: 'warning', message } as const;
  await deps.events.append(runId, [{ id, atMs: deps.now(), body }], { execKey, fence: sandbox.facts.fence });
}

/** Returns true if Voidbox ended the command after its final result, also if an earlier worker did. */
export async function findHung(
  { deps, request }: Pick<AttemptVm, 'deps' | 'request'>,
  command: number,
  { reason, exitCode }: ExecExit,
): Promise<boolean> {
  if (reason === 'exited' && exitCode === 0) return false;
  return (await deps.events.find(request.runId, EVENT_ID.hung(commandKey(request.execKey, command)))) !== null;
}

/** Replaces the signal that ended a hanging command by the agent's final result. */
export function withoutHang(
  base: StageResult,
  { hasHung, exit, outcome }: Pick<AgentTurn, 'hasHung' | 'exit' | 'outcome'>,
): StageResult {
  const isEndedBySignal = exit.cause === null && (exit.reason === 'exited' || exit.reason === 'killed');
  if (!hasHung || !outcome.hasEnded || !isEndedBySignal || base.outcome !== 'failed') return base;
  return { ...base, outcome: 'succeeded', failure: null };
}
