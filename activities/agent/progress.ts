/**
 * Saves the state of an agent while it works: a consistent copy of its session and its files, so that a stage whose VM is lost
 * continues in another one. Its command is frozen while they are read. An agent that fails is saved once more at its end, so that
 * a retry with `continue` has its last seconds.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import { endsVm } from '../../domain/errors/error-code.ts';
import { isService } from '../../domain/plan/work.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { EndCheck } from '../../agents/stream.ts';
import {
  copyEnded,
  copyOut,
  folderOf,
  gathered,
  isInside,
  type ProgressContext,
  PROGRESS_LIMITS,
  type Put,
  type Saved,
  workFolders,
} from './copy.ts';
import type { ToolEnd } from './stream.ts';
import type { ActivityDeps } from '../deps.ts';
import type { AttemptLife } from '../heartbeat.ts';
import { lastNumbered } from './last-numbered.ts';
import type { Exec } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';
import { type ChangesContext, type Ignored, measureIgnored, saveKeys } from '../workspace/changes.ts';

export interface AgentProgress {
  /** At the end of a call of a tool. Saves if it is time for it; never throws but the signal's reason. */
  offer(exec: Exec, end: ToolEnd, signal: AbortSignal): Promise<void>;
  /** Whether a call of a tool has ended. */
  hasWorked(): boolean;
  /**
   * Once its commands have ended without success, in the VM that still lives: the last save of the attempt. Throws only the signal's
   * reason, and that the VM is lost.
   */
  saveEnd(sessionId: string, limitMs: number, signal: AbortSignal): Promise<void>;
}

/** Null: this stage's VM has more than the agent's own files, so that another one would not be the same. */
export function createProgress(context: ProgressContext): AgentProgress | null {
  const { request, deps } = context;
  if (!isResumable(request, context.sessionFolder)) return null;
  const startedAtMs = deps.now();
  let count: number | null = null;
  let dueAtMs = startedAtMs;
  let takenBytes = 0;
  const leftBytes = (): number => PROGRESS_LIMITS.attemptBytes - takenBytes;
  // Also of a save that comes to nothing: the store has the bytes.
  const put: Put = async (bytes) => {
    const ref = await deps.artifacts.put(bytes, 'application/x-tar');
    takenBytes += ref.sizeBytes;
    return ref;
  };
  let failures = 0;
  let hasWorked = false;
  const nextKey = saveKeys(request.execKey);
  let tellsChanges = context.base !== null;

  /** What it is about to copy of a git workspace; null: all of it. */
  const changesFor = async (signal: AbortSignal): Promise<ChangesContext | null> => {
    if (context.base === null || !tellsChanges) return null;
    const { sandbox, base, redactor } = context;
    const ignored: Ignored | null = await measureIgnored(sandbox, nextKey, request.stage, signal);
    tellsChanges = ignored !== null;
    if (ignored === null) return null;
    const limits = { limitMs: PROGRESS_LIMITS.frozenMs, mostBytes: Math.min(PROGRESS_LIMITS.folderBytes, leftBytes()) };
    return { sandbox, stage: request.stage, nextKey, base, ignored, redactor, ...limits };
  };

  /**
   * Without the end of the call in its session, the agent would take the call for aborted and make it again, on files that have come
   * of it already. Calls side by side may all be open for long, so it is saved without the end then.
   */
  const untilKnown = async (isIn: EndCheck, signal: AbortSignal): Promise<void> => {
    const begunAt = performance.now();
    const hasTime = (): boolean => performance.now() - begunAt < PROGRESS_LIMITS.lookingMs;
    for (let look = 0; look < PROGRESS_LIMITS.looks && hasTime(); look += 1) {
      if (look > 0) await sleep(PROGRESS_LIMITS.lookMs, undefined, { signal });
      if (isIn(await gathered(folderOf(context.sandbox, context.sessionFolder, leftBytes(), signal)))) return;
    }
  };

  /** Returns the number of recorded saves; from then on the bytes that earlier workers saved in this attempt count. */
  const standing = async (): Promise<number> => {
    if (count !== null) return count;
    const earlier = await earlierSaves(deps, request.runId, request.execKey);
    takenBytes += earlier.bytes;
    return (count = earlier.count);
  };

  const append = async (sessionId: string, saved: Saved): Promise<void> => {
    const number = (await standing()) + 1;
    await deps.events.append(
      request.runId,
      [
        {
          id: EVENT_ID.progress(request.execKey, number),
          atMs: deps.now(),
          body: {
            type: 'stage-progress',
            stage: request.stage.id,
            execKey: request.execKey,
            sessionId: context.redactor.text(sessionId),
            folders: saved.folders,
            frozenMs: saved.frozenMs,
            ...(saved.turns === undefined ? {} : { turns: saved.turns }),
          },
        },
      ],
      { execKey: request.execKey, fence: context.sandbox.facts.fence },
    );
    // Of one that the log did not take, the next save has the number: behind a gap nobody looks.
    count = number;
  };

  const save = async (
    exec: Exec,
    { sessionId, isIn }: ToolEnd & { readonly sessionId: string },
    signal: AbortSignal,
  ): Promise<void> => {
    const begunAtMs = deps.now();
    await standing();
    const takenBefore = takenBytes;
    if (isIn !== null) await untilKnown(isIn, signal);
    const copying = { put, leftBytes, changes: await changesFor(signal) };
    const saved = await copyOut(context, exec, copying, signal);
    if (saved === null) return;
    await append(sessionId, saved);
    const bytes = takenBytes - takenBefore;
    // What may still be taken is spread over the time that is left, and most of the time is the agent's own.
    const timeLeftMs = Math.max(0, startedAtMs + request.stage.timeoutMs - deps.now());
    const bytesLeft = Math.max(1, leftBytes());
    const spreadMs = Math.min(timeLeftMs, (bytes / bytesLeft) * timeLeftMs);
    dueAtMs = deps.now() + Math.max(PROGRESS_LIMITS.intervalMs, 10 * (deps.now() - begunAtMs), spreadMs);
  };

  return {
    hasWorked: () => hasWorked,
    async offer(exec, { sessionId, isIn }, signal) {
      hasWorked = true;
      if (sessionId === null || failures >= PROGRESS_LIMITS.failures || deps.now() < dueAtMs) return;
      // A save does not wait for room, and takes none from what does.
      if (!deps.disk.hasRoomForOutput()) return;
      dueAtMs = deps.now() + PROGRESS_LIMITS.intervalMs;
      try {
        await save(exec, { sessionId, isIn }, signal);
        failures = 0;
      } catch (error) {
        signal.throwIfAborted();
        // Who reads the stream learns it too.
        if (isCodedError(error) && (endsVm(error.code) || error.code === 'fence/stale')) return;
        failures += 1;
        await sayNotSaved(context, 'not-saved', error instanceof Error ? error.message : String(error));
      }
    },
    async saveEnd(sessionId, limitMs, signal) {
      const limited = AbortSignal.any([signal, AbortSignal.timeout(limitMs)]);
      try {
        if (!deps.disk.hasRoomForOutput()) throw new Error('the disk of the state folder is full');
        await standing();
        const copying = { put, leftBytes, changes: await changesFor(limited) };
        const saved = await copyEnded(context, sessionId, copying, limited);
        signal.throwIfAborted();
        await append(sessionId, saved);
      } catch (error) {
        signal.throwIfAborted();
        if (isCodedError(error) && (endsVm(error.code) || error.code === 'fence/stale')) throw error;
        const why = limited.aborted
          ? `its files could not be read within ${limitMs / 1_000} s`
          : error instanceof Error
            ? error.message
            : String(error);
        await sayNotSaved(context, 'end-not-saved', why);
      }
    },
  };
}

/** Saves an attempt that did not succeed, if its agent has a session with calls in it. */
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

/** Whether the agent's VM is its own, and what it can change lies in folders that are saved. A service starts from its beginning. */
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

/** How many times the attempt was saved; saves are numbered from 1, without gaps. */
export async function lastSaved(
  { events }: Pick<ActivityDeps, 'events'>,
  runId: string,
  execKey: string,
): Promise<number> {
  return await lastNumbered(async (number) => (await events.find(runId, EVENT_ID.progress(execKey, number))) !== null);
}

/** Of workers that had the attempt before this one: what they took counts, too. */
async function earlierSaves(
  deps: Pick<ActivityDeps, 'events'>,
  runId: string,
  execKey: string,
): Promise<{ readonly count: number; readonly bytes: number }> {
  const count = await lastSaved(deps, runId, execKey);
  let bytes = 0;
  for (let number = 1; number <= count; number += 1) {
    const event = await deps.events.find(runId, EVENT_ID.progress(execKey, number));
    if (event?.body.type !== 'stage-progress') continue;
    for (const { ref } of event.body.folders) bytes += ref.sizeBytes;
  }
  return { count, bytes };
}

const NOT_SAVED = {
  'not-saved': 'if its VM is lost, it continues from an earlier save, or starts again',
  'end-not-saved': '`voidbox retry --continue` has an earlier save, or none',
} as const;

/** Once for an attempt, while its agent works, and once at its end. */
async function sayNotSaved(
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
