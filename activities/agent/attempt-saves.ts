/** The recorded saves of one attempt of an agent: their numbers, their sizes, and what the next save may copy. */
import { setTimeout as sleep } from 'node:timers/promises';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { EndCheck } from '../../agents/stream.ts';
import type { ActivityDeps } from '../deps.ts';
import { type ChangesContext, measureIgnored, saveKeys } from '../workspace/changes.ts';
import {
  type CopyContext,
  folderOf,
  collectBytes,
  type ProgressContext,
  PROGRESS_LIMITS,
  type Put,
  type AgentSave,
} from './copy.ts';
import { findLastNumber } from './last-numbered.ts';

export class AttemptSaves {
  readonly #context: ProgressContext;
  readonly #nextKey: () => string;
  /** The number of recorded saves; null until they are counted. */
  #count: number | null = null;
  #takenBytes = 0;
  #tellsChanges: boolean;

  constructor(context: ProgressContext) {
    this.#context = context;
    this.#nextKey = saveKeys(context.request.execKey);
    this.#tellsChanges = context.base !== null;
  }

  get takenBytes(): number {
    return this.#takenBytes;
  }

  readonly leftBytes = (): number => PROGRESS_LIMITS.attemptBytes - this.#takenBytes;

  /** Counts the recorded saves. From then on, the bytes that earlier workers saved in this attempt count too. */
  async countEarlier(): Promise<number> {
    if (this.#count !== null) return this.#count;
    const { deps, request } = this.#context;
    const earlier = await findEarlierSaves(deps, request.runId, request.execKey);
    this.#takenBytes += earlier.bytes;
    return (this.#count = earlier.count);
  }

  /**
   * Returns the settings of the next save.
   * @param readLeftMs  the time that the copy of the changes may take
   */
  async prepare(signal: AbortSignal, readLeftMs = () => PROGRESS_LIMITS.frozenMs as number): Promise<CopyContext> {
    return { put: this.#put, leftBytes: this.leftBytes, changes: await this.#changesFor(signal, readLeftMs) };
  }

  /**
   * Waits until the session contains the end of the call. Without it, a resumed agent would treat the call as aborted
   * and repeat it, on files that the first call already changed. The wait is limited, because parallel calls may stay
   * open for long.
   */
  async awaitKnown(isIn: EndCheck, signal: AbortSignal): Promise<void> {
    const { sandbox, sessionFolder } = this.#context;
    const begunAt = performance.now();
    const hasTime = (): boolean => performance.now() - begunAt < PROGRESS_LIMITS.pollingMs;
    for (let look = 0; look < PROGRESS_LIMITS.polls && hasTime(); look += 1) {
      if (look > 0) await sleep(PROGRESS_LIMITS.pollIntervalMs, undefined, { signal });
      if (isIn(await collectBytes(folderOf(sandbox, sessionFolder, this.leftBytes(), signal)))) return;
    }
  }

  async append(sessionId: string, saved: AgentSave): Promise<void> {
    const { deps, request, redactor, sandbox } = this.#context;
    const number = (await this.countEarlier()) + 1;
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
            sessionId: redactor.text(sessionId),
            folders: saved.folders,
            frozenMs: saved.frozenMs,
            ...(saved.turns === undefined ? {} : { turns: saved.turns }),
          },
        },
      ],
      { execKey: request.execKey, fence: sandbox.facts.fence },
    );
    // Set the count only after the log accepted the save. A rejected save must not leave a gap, because readers stop at
    // the first gap.
    this.#count = number;
  }

  /** The bytes of a failed save count too, because the store contains them. */
  readonly #put: Put = async (bytes) => {
    const ref = await this.#context.deps.artifacts.put(bytes, 'application/x-tar');
    this.#takenBytes += ref.sizeBytes;
    return ref;
  };

  /** Returns the settings for copying only the changes of a git workspace; null if the whole workspace is copied. */
  async #changesFor(signal: AbortSignal, readLeftMs: () => number): Promise<ChangesContext | null> {
    const { sandbox, base, redactor, request } = this.#context;
    const nextKey = this.#nextKey;
    if (base === null || !this.#tellsChanges) return null;
    const ignored = await measureIgnored(sandbox, nextKey, request.stage, signal);
    this.#tellsChanges = ignored !== null;
    if (ignored === null) return null;
    const limits = {
      limitMs: readLeftMs(),
      mostBytes: Math.min(PROGRESS_LIMITS.folderBytes, this.leftBytes()),
    };
    return { sandbox, stage: request.stage, nextKey, base, ignored, redactor, ...limits };
  }
}

/** Returns the number of saves of the attempt. Saves are numbered from 1, without gaps. */
export async function countSaves(
  { events }: Pick<ActivityDeps, 'events'>,
  runId: string,
  execKey: string,
): Promise<number> {
  return await findLastNumber(
    async (number) => (await events.find(runId, EVENT_ID.progress(execKey, number))) !== null,
  );
}

/** Returns the saves of workers that drove this attempt earlier; their bytes count too. */
async function findEarlierSaves(
  deps: Pick<ActivityDeps, 'events'>,
  runId: string,
  execKey: string,
): Promise<{ readonly count: number; readonly bytes: number }> {
  const count = await countSaves(deps, runId, execKey);
  let bytes = 0;
  for (let number = 1; number <= count; number += 1) {
    const event = await deps.events.find(runId, EVENT_ID.progress(execKey, number));
    if (event?.body.type !== 'stage-progress') continue;
    for (const { ref } of event.body.folders) bytes += ref.sizeBytes;
  }
  return { count, bytes };
}
