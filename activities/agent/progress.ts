/**
 * Saves the state of an agent while it works, so that a stage whose VM is lost continues in another VM. A save is a
 * consistent copy of the session and the files; the agent's command is frozen during the copy. After a failure the
 * agent is saved once more, so that a retry with `continue` loses no work.
 */
import { limitSignal } from '../../files/limited-signal.ts';
import type { EndCheck } from '../../agents/stream.ts';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import { endsVm } from '../../domain/errors/error-code.ts';
import { isService } from '../../domain/plan/work.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { StageRequest } from '../calls/requests.ts';
import type { AttemptLife } from '../heartbeat.ts';
import type { Exec } from '../ports/sandbox.ts';
import { AttemptSaves } from './attempt-saves.ts';
import { copyEnded, copyOut, isInside, type ProgressContext, PROGRESS_LIMITS, workFolders } from './copy.ts';
import type { ToolEnd } from './stream.ts';

export interface AgentProgress {
  /** Called at the end of a tool call. Saves if a save is due; throws only the signal's reason. */
  offer(exec: Exec, end: ToolEnd, signal: AbortSignal): Promise<void>;
  /** Returns true if a tool call has ended. */
  hasWorked(): boolean;
  /**
   * Makes the last save of the attempt, after the commands have ended without success and while the VM still lives.
   * Throws only the signal's reason, or the error that the VM is lost.
   */
  saveEnd(sessionId: string, limitMs: number, signal: AbortSignal): Promise<void>;
}

/**
 * Returns null if the stage's VM contains more than the agent's own files, because another VM would not be the same.
 */
export function createProgress(context: ProgressContext): AgentProgress | null {
  return isResumable(context.request, context.sessionFolder) ? new SavedProgress(context) : null;
}

class SavedProgress implements AgentProgress {
  readonly #context: ProgressContext;
  readonly #saves: AttemptSaves;
  readonly #startedAtMs: number;
  #dueAtMs: number;
  /** The number of consecutive failed saves. */
  #failures = 0;
  #hasWorked = false;

  constructor(context: ProgressContext) {
    this.#context = context;
    this.#saves = new AttemptSaves(context);
    this.#startedAtMs = context.deps.now();
    this.#dueAtMs = this.#startedAtMs;
  }

  hasWorked(): boolean {
    return this.#hasWorked;
  }

  async offer(exec: Exec, { sessionId, isIn }: ToolEnd, signal: AbortSignal): Promise<void> {
    const { deps } = this.#context;
    this.#hasWorked = true;
    if (sessionId === null || this.#failures >= PROGRESS_LIMITS.failures || deps.now() < this.#dueAtMs) return;
    // A save does not wait for room, and uses no room that output waits for.
    if (!deps.disk.hasRoomForOutput()) return;
    this.#dueAtMs = deps.now() + PROGRESS_LIMITS.intervalMs;
    try {
      await this.#save(exec, sessionId, isIn, signal);
      this.#failures = 0;
    } catch (error) {
      signal.throwIfAborted();
      // The reader of the stream gets the error of a lost VM too.
      if (isEndOfAttempt(error)) return;
      this.#failures += 1;
      await reportNotSaved(this.#context, 'not-saved', describeError(error));
    }
  }

  async saveEnd(sessionId: string, limitMs: number, signal: AbortSignal): Promise<void> {
    const limited = limitSignal(signal, limitMs);
    const endsAt = performance.now() + limitMs;
    // Nothing is frozen, so the copy may take all of the time.
    const readLeftMs = (): number => Math.max(1, Math.round(endsAt - performance.now()));
    try {
      if (!this.#context.deps.disk.hasRoomForOutput()) throw new Error('the disk of the state folder is full');
      await this.#saves.countEarlier();
      const saved = await copyEnded(this.#context, sessionId, await this.#saves.prepare(limited, readLeftMs), limited);
      signal.throwIfAborted();
      await this.#saves.append(sessionId, saved);
    } catch (error) {
      signal.throwIfAborted();
      if (isEndOfAttempt(error)) throw error;
      const why = limited.aborted ? `its files could not be read within ${limitMs / 1_000} s` : describeError(error);
      await reportNotSaved(this.#context, 'end-not-saved', why);
    }
  }

  async #save(exec: Exec, sessionId: string, isIn: EndCheck | null, signal: AbortSignal): Promise<void> {
    const begunAtMs = this.#context.deps.now();
    await this.#saves.countEarlier();
    const takenBefore = this.#saves.takenBytes;
    if (isIn !== null) await this.#saves.awaitKnown(isIn, signal);
    const saved = await copyOut(this.#context, exec, await this.#saves.prepare(signal), signal);
    if (saved === null) return;
    await this.#saves.append(sessionId, saved);
    this.#scheduleNext(begunAtMs, this.#saves.takenBytes - takenBefore);
  }

  /** Spreads the remaining saves over the remaining time, so that the agent keeps most of its time. */
  #scheduleNext(begunAtMs: number, takenBytes: number): void {
    const { deps, request } = this.#context;
    const timeLeftMs = Math.max(0, this.#startedAtMs + request.stage.timeoutMs - deps.now());
    const bytesLeft = Math.max(1, this.#saves.leftBytes());
    const spreadMs = Math.min(timeLeftMs, (takenBytes / bytesLeft) * timeLeftMs);
    this.#dueAtMs = deps.now() + Math.max(PROGRESS_LIMITS.intervalMs, 10 * (deps.now() - begunAtMs), spreadMs);
  }
}

/** Returns true if the VM is lost or another worker has taken over, so that no further save is possible. */
function isEndOfAttempt(error: unknown): boolean {
  return isCodedError(error) && (endsVm(error.code) || error.code === 'fence/stale');
}

function describeError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Saves an attempt that did not succeed, if its agent's session contains calls. */
export async function saveAtEnd(
  {
    progress,
    life,
  }: { readonly progress: AgentProgress | null; readonly life: Pick<AttemptLife, 'detached' | 'phase'> },
  { outcome, agent, usage }: StageResult,
): Promise<void> {
  const sessionId = agent?.sessionId ?? null;
  if (progress === null || sessionId === null || (outcome !== 'failed' && outcome !== 'cancelled')) return;
  if ((usage['turns'] ?? 0) === 0 && !progress.hasWorked()) return;
  life.phase('saving what its agent has done');
  const limitMs = outcome === 'cancelled' ? PROGRESS_LIMITS.cancelledMs : PROGRESS_LIMITS.endMs;
  await progress.saveEnd(sessionId, limitMs, life.detached);
}

/**
 * Returns true if the agent has its own VM and can change only files in saved folders. A service always starts from its
 * beginning.
 */
export function isResumable({ lease, scope, stage }: StageRequest, sessionFolder: string): boolean {
  const folders = [...workFolders(stage), sessionFolder];
  return (
    !isService(stage.work) &&
    lease === null &&
    scope.sandbox.mounts.every(
      ({ mode, guestPath }) => mode !== 'rw' && !folders.some((folder) => isInside(guestPath, folder)),
    )
  );
}

const NOT_SAVED = {
  'not-saved': 'if its VM is lost, it continues from an earlier save, or starts again',
  'end-not-saved': '`voidbox retry --continue` has an earlier save, or none',
} as const;

/** Reports at most one failed save while the agent works, and one at its end. */
async function reportNotSaved(
  { deps, request, redactor }: ProgressContext,
  when: keyof typeof NOT_SAVED,
  reason: string,
): Promise<void> {
  const { runId, execKey, stage } = request;
  const message = sanitizeLine(
    redactor.text(`what the agent of stage ${stage.id} has done is not saved: ${reason}; ${NOT_SAVED[when]}`),
  );
  const body = { type: 'notice', level: 'info', message } as const;
  await deps.events
    .append(runId, [{ id: EVENT_ID.attempt(execKey, when), atMs: deps.now(), body }])
    .catch(() => undefined);
}
