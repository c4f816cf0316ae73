/**
 * Saves what an agent has come to while it works: its session and the files that it works on, of one moment, so that a stage whose
 * VM is lost goes on in another one. Its command stands still while they are read.
 */
import { Buffer } from 'node:buffer';
import { setTimeout as sleep } from 'node:timers/promises';
import { isCodedError } from '../domain/errors/coded-error.ts';
import { endsVm } from '../domain/errors/error-code.ts';
import type { DataRef } from '../domain/plan/plan.ts';
import { isService } from '../domain/plan/work.ts';
import { EVENT_ID } from '../domain/run/event-id.ts';
import type { SavedFolder } from '../domain/run/event.ts';
import type { Redactor } from '../domain/security/redactor.ts';
import { sanitizeLine } from '../domain/security/sanitize.ts';
import { readTar } from '../tar/read.ts';
import { type TarItem, writeTar } from '../tar/write.ts';
import type { KnowsOfEnd } from '../agents/stream.ts';
import type { ToolEnd } from './agent-stream.ts';
import type { ActivityDeps } from './deps.ts';
import { lastNumbered } from './last-numbered.ts';
import type { Exec, Sandbox } from './ports/sandbox.ts';
import type { StageRequest } from './requests.ts';
import {
  type ChangesContext,
  copyChanges,
  type Ignored,
  measureIgnored,
  placeOf,
  saveKeys,
  storeChanges,
} from './workspace-changes.ts';

const MIB = 1024 * 1024;

export const PROGRESS_LIMITS = {
  /** From one save to the next. */
  intervalMs: 30_000,
  /** A command stands still no longer. */
  frozenMs: 10_000,
  /** Of each folder that is saved, as a tar; of one with a git workspace what is changed. */
  folderBytes: 64 * MIB,
  /** Of an attempt, in all: each save is kept as long as the run. */
  attemptBytes: 512 * MIB,
  /** That fail one after the other; there are no more then. */
  failures: 3,
  /** How often and for how long the session is looked at for the end of a call, and the time between. */
  looks: 10,
  lookingMs: 2_000,
  lookMs: 200,
} as const;

export interface ProgressContext {
  readonly deps: Pick<ActivityDeps, 'events' | 'artifacts' | 'now' | 'disk'>;
  readonly request: StageRequest;
  readonly sandbox: Sandbox;
  readonly redactor: Redactor;
  /** What its command line keeps of sessions: redacted, as the transcript is. */
  readonly sessionFolder: string;
  /** The commit that its git workspace starts from; null: it has none. */
  readonly base: string | null;
}

export interface AgentProgress {
  /** At the end of a call of a tool. Saves if it is time for it; never throws but the signal's reason. */
  offer(exec: Exec, end: ToolEnd, signal: AbortSignal): Promise<void>;
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
  const untilKnown = async (isIn: KnowsOfEnd, signal: AbortSignal): Promise<void> => {
    const begunAt = performance.now();
    const hasTime = (): boolean => performance.now() - begunAt < PROGRESS_LIMITS.lookingMs;
    for (let look = 0; look < PROGRESS_LIMITS.looks && hasTime(); look += 1) {
      if (look > 0) await sleep(PROGRESS_LIMITS.lookMs, undefined, { signal });
      if (isIn(await gathered(folderOf(context.sandbox, context.sessionFolder, leftBytes(), signal)))) return;
    }
  };

  const save = async (
    exec: Exec,
    { sessionId, isIn }: ToolEnd & { readonly sessionId: string },
    signal: AbortSignal,
  ): Promise<void> => {
    const begunAtMs = deps.now();
    if (count === null) {
      const earlier = await earlierSaves(deps, request.runId, request.execKey);
      count = earlier.count;
      takenBytes += earlier.bytes;
    }
    const takenBefore = takenBytes;
    if (isIn !== null) await untilKnown(isIn, signal);
    const copying = { put, leftBytes, changes: await changesFor(signal) };
    const saved = await copyOut(context, exec, copying, signal);
    if (saved === null) return;
    const number = count + 1;
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
          },
        },
      ],
      { execKey: request.execKey, fence: context.sandbox.facts.fence },
    );
    // Of one that the log did not take, the next save has the number: behind a gap nobody looks.
    count = number;
    const bytes = takenBytes - takenBefore;
    // What may still be taken is spread over the time that is left, and most of the time is the agent's own.
    const timeLeftMs = Math.max(0, startedAtMs + request.stage.timeoutMs - deps.now());
    const bytesLeft = Math.max(1, leftBytes());
    const spreadMs = Math.min(timeLeftMs, (bytes / bytesLeft) * timeLeftMs);
    dueAtMs = deps.now() + Math.max(PROGRESS_LIMITS.intervalMs, 10 * (deps.now() - begunAtMs), spreadMs);
  };

  return {
    async offer(exec, { sessionId, isIn }, signal) {
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
        await sayNotSaved(context, error instanceof Error ? error.message : String(error));
      }
    },
  };
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

/** Its working folder, and its repository where that lies elsewhere. */
export function workFolders({ workspace }: StageRequest['stage']): readonly string[] {
  const own = '/workspace';
  return workspace === undefined || isInside(workspace.guestPath, own) ? [own] : [own, workspace.guestPath];
}

function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`) || folder.startsWith(`${path}/`);
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

type Put = (bytes: AsyncIterable<Uint8Array>) => Promise<DataRef>;

interface Copying {
  readonly put: Put;
  /** What of the attempt's bytes is left at the moment. */
  readonly leftBytes: () => number;
  readonly changes: ChangesContext | null;
}

interface Saved {
  readonly folders: readonly SavedFolder[];
  readonly frozenMs: number;
}

/** Null: the command has ended. @throws Error with what keeps it from being saved */
async function copyOut(
  context: ProgressContext,
  exec: Exec,
  copying: Copying,
  signal: AbortSignal,
): Promise<Saved | null> {
  const copied: Copied = { files: [], session: null, changes: null, frozenMs: null };
  try {
    const isWhole = await exec.whileFrozen(
      PROGRESS_LIMITS.frozenMs,
      () => copyFrozen(context, copying, copied, signal),
      signal,
    );
    if (copied.frozenMs === null) return null;
    const folders: SavedFolder[] = [];
    for (const { guestPath, ref } of copied.files) folders.push({ guestPath, ref: await ref });
    if (!isWhole || copied.session === null)
      throw new Error(`its files could not be read within ${PROGRESS_LIMITS.frozenMs / 1_000} s`);
    const { changes } = copying;
    if (changes !== null && copied.changes !== null)
      folders.push(await storeChanges(changes, copied.changes, copying.put, signal));
    folders.push({
      guestPath: context.sessionFolder,
      ref: await copying.put(redactedTar(copied.session, context.redactor)),
    });
    return { folders, frozenMs: copied.frozenMs };
  } finally {
    // Its VM forgets the command then, and what that put out, whatever came of it.
    await copied.changes?.acknowledge().catch(() => undefined);
  }
}

/** What there is of a save while it is made. */
interface Copied {
  readonly files: { readonly guestPath: string; readonly ref: Promise<DataRef> }[];
  session: Buffer | null;
  /** The command whose output the changes are. */
  changes: Exec | null;
  /** Null: it has not begun. */
  frozenMs: number | null;
}

async function copyFrozen(
  { request, sandbox, sessionFolder }: ProgressContext,
  { put, leftBytes, changes }: Copying,
  copied: Copied,
  signal: AbortSignal,
): Promise<void> {
  copied.frozenMs = 0;
  const begunAt = performance.now();
  copied.session = await gathered(folderOf(sandbox, sessionFolder, leftBytes(), signal));
  const left = (): number => leftBytes() - copied.session!.length;
  const changed = changes === null ? null : placeOf(request.stage.workspace!.guestPath).top;
  for (const guestPath of workFolders(request.stage).filter((folder) => folder !== changed)) {
    const read = untilRead(folderOf(sandbox, guestPath, left(), signal));
    const ref = put(read.bytes);
    ref.catch(() => undefined);
    copied.files.push({ guestPath, ref });
    // Storing it may take longer than reading it.
    await Promise.race([read.ended, ref]);
  }
  if (changes !== null)
    copied.changes = await copyChanges({ ...changes, mostBytes: Math.min(changes.mostBytes, left()) }, signal);
  copied.frozenMs = Math.round(performance.now() - begunAt);
}

/** @throws Error where it is not there, or too large */
async function* folderOf(
  sandbox: Sandbox,
  guestPath: string,
  attemptBytes: number,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, void> {
  const tar = await sandbox.getFolder(guestPath, signal);
  if (tar === null) throw new Error(`there is no folder ${guestPath}`);
  const most = Math.min(PROGRESS_LIMITS.folderBytes, attemptBytes);
  let left = most;
  for await (const chunk of tar) {
    left -= chunk.length;
    if (left < 0) throw new Error(`${guestPath} has more than the ${Math.floor(most / MIB)} MiB that may be saved`);
    yield chunk;
  }
}

async function gathered(bytes: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const chunk of bytes) parts.push(chunk);
  return Buffer.concat(parts);
}

function untilRead(source: AsyncIterable<Uint8Array>): {
  readonly bytes: AsyncIterable<Uint8Array>;
  readonly ended: Promise<void>;
} {
  let settle: () => void = () => undefined;
  const ended = new Promise<void>((resolve) => (settle = resolve));
  async function* bytes(): AsyncGenerator<Uint8Array, void, void> {
    yield* source;
    settle();
  }
  return { bytes: bytes(), ended };
}

/** Its files without secrets; what is neither file nor folder is no part of a session. */
async function* redactedTar(tar: Buffer, redactor: Redactor): AsyncGenerator<Uint8Array, void, void> {
  const items: TarItem[] = [];
  for await (const { kind, path, mode, body } of readTar(once(tar), tar.length)) {
    if (kind === 'dir') items.push({ kind, path: path.replace(/\/$/, ''), mode });
    if (kind === 'file') items.push({ kind, path, mode, body: redacted(body, redactor) });
  }
  yield* writeTar(items);
}

function redacted(body: Uint8Array, redactor: Redactor): Uint8Array {
  const stream = redactor.stream();
  return Buffer.concat([...stream.push(body), ...stream.flush()].map(({ bytes }) => bytes));
}

async function* once(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}

/** Once for an attempt. */
async function sayNotSaved({ deps, request, redactor }: ProgressContext, reason: string): Promise<void> {
  const { runId, execKey, stage } = request;
  const message = sanitizeLine(
    redactor.text(
      `what the agent of stage ${stage.id} has done is not saved: ${reason}; if its VM is lost, it goes on from an earlier save, or starts again`,
    ),
  );
  const body = { type: 'notice', level: 'info', message } as const;
  await deps.events
    .append(runId, [{ id: EVENT_ID.attempt(execKey, 'not-saved'), atMs: deps.now(), body }])
    .catch(() => undefined);
}
