/**
 * Copies the session and the files of an agent out of its VM: while its command is frozen, or after its commands have
 * ended.
 */
import { Buffer } from 'node:buffer';
import type { AgentCli } from '../../domain/agent/agent-cli.ts';
import type { DataRef } from '../../domain/plan/plan.ts';
import type { SavedFolder } from '../../domain/run/event.ts';
import type { Redactor } from '../../domain/security/redactor.ts';
import { readTar } from '../../tar/read.ts';
import { type TarItem, writeTar } from '../../tar/write.ts';
import type { ActivityDeps } from '../deps.ts';
import type { Exec, Sandbox } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';
import { countTurns } from './saved-session.ts';
import { type ChangesContext, copyChanges, placeOf, storeChanges } from '../workspace/changes.ts';

const MIB = 1024 * 1024;

export const PROGRESS_LIMITS = {
  /** The time from one save to the next. */
  intervalMs: 30_000,
  /** The longest freeze of a command. */
  frozenMs: 10_000,
  /**
   * The limit of the save at the end of a failed attempt. The limit after a cancellation is shorter, because a person
   * waits.
   */
  endMs: 60_000,
  cancelledMs: 20_000,
  /** The limit of one saved folder, as a tar. In a git workspace only changes count. */
  folderBytes: 64 * MIB,
  /** The limit of all saves of an attempt together, because each save is kept as long as the run. */
  attemptBytes: 512 * MIB,
  /** The number of consecutive failures after which no further save is tried. */
  failures: 3,
  /**
   * The number and the total duration of the polls for the end of a call in the session, and the pause between two
   * polls.
   */
  polls: 10,
  pollingMs: 2_000,
  pollIntervalMs: 200,
} as const;

export interface ProgressContext {
  readonly deps: Pick<ActivityDeps, 'events' | 'artifacts' | 'now' | 'disk'>;
  readonly request: StageRequest;
  readonly sandbox: Sandbox;
  readonly redactor: Redactor;
  readonly cli: AgentCli;
  /** The folder in which the command line stores its sessions. Its saves are redacted, as the transcript is. */
  readonly sessionFolder: string;
  /** The commit that the git workspace starts from; null: the stage has no git workspace. */
  readonly base: string | null;
}

/** Returns the agent's working folder, and its repository if that is elsewhere. */
export function workFolders({ workspace }: StageRequest['stage']): readonly string[] {
  const own = '/workspace';
  return workspace === undefined || isInside(workspace.guestPath, own) ? [own] : [own, workspace.guestPath];
}

export function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`) || folder.startsWith(`${path}/`);
}

export type Put = (bytes: AsyncIterable<Uint8Array>) => Promise<DataRef>;

export interface CopyContext {
  readonly put: Put;
  /** Returns how many of the attempt's bytes are left. */
  readonly leftBytes: () => number;
  readonly changes: ChangesContext | null;
}

export interface AgentSave {
  readonly folders: readonly SavedFolder[];
  readonly frozenMs: number;
  /** The number of model calls in the session; absent: they were not counted. */
  readonly turns?: number;
}

/** Returns null if the command has ended. @throws Error with the reason if it cannot be saved */
export async function copyOut(
  context: ProgressContext,
  exec: Exec,
  copying: CopyContext,
  signal: AbortSignal,
): Promise<AgentSave | null> {
  const copied: CopyResult = { files: [], session: null, changes: null, frozenMs: null };
  try {
    const isWhole = await exec.whileFrozen(
      PROGRESS_LIMITS.frozenMs,
      () => copyFrozen(context, copying, copied, signal),
      signal,
    );
    if (copied.frozenMs === null) return null;
    return await storeCopy(context, copying, copied, isWhole, signal);
  } finally {
    // The VM then forgets the command and its output, whether the save succeeded or not.
    await copied.changes?.acknowledge().catch(() => undefined);
  }
}

/**
 * Saves an agent whose commands have ended, so that no process of the agent changes its files.
 * @throws Error with the reason if it cannot be saved
 */
export async function copyEnded(
  context: ProgressContext,
  sessionId: string,
  copying: CopyContext,
  signal: AbortSignal,
): Promise<AgentSave> {
  const copied: CopyResult = { files: [], session: null, changes: null, frozenMs: null };
  try {
    await copyFrozen(context, copying, copied, signal);
    const saved = await storeCopy(context, copying, copied, true, signal);
    const turns = copied.session === null ? null : await countTurns(toStream(copied.session), sessionId, context.cli);
    return { ...saved, frozenMs: 0, ...(turns === null ? {} : { turns }) };
  } finally {
    await copied.changes?.acknowledge().catch(() => undefined);
  }
}

async function storeCopy(
  context: ProgressContext,
  copying: CopyContext,
  copied: CopyResult,
  isWhole: boolean,
  signal: AbortSignal,
): Promise<AgentSave> {
  const folders: SavedFolder[] = [];
  for (const { guestPath, ref } of copied.files) folders.push({ guestPath, ref: await ref });
  if (!isWhole || copied.session === null)
    throw new Error(`its files could not be read within ${PROGRESS_LIMITS.frozenMs / 1_000} s`);
  const { changes } = copying;
  if (changes !== null && copied.changes !== null)
    folders.push(await storeChanges(changes, copied.changes, copying.put, signal));
  folders.push({
    guestPath: context.sessionFolder,
    ref: await copying.put(redactTar(copied.session, context.redactor)),
  });
  return { folders, frozenMs: copied.frozenMs ?? 0 };
}

/** The state of a save in progress. */
interface CopyResult {
  readonly files: { readonly guestPath: string; readonly ref: Promise<DataRef> }[];
  session: Buffer | null;
  /** The command that prints the changes. */
  changes: Exec | null;
  /** Null until the freeze begins. */
  frozenMs: number | null;
}

async function copyFrozen(
  { request, sandbox, sessionFolder }: ProgressContext,
  { put, leftBytes, changes }: CopyContext,
  copied: CopyResult,
  signal: AbortSignal,
): Promise<void> {
  copied.frozenMs = 0;
  const begunAt = performance.now();
  copied.session = await collectBytes(folderOf(sandbox, sessionFolder, leftBytes(), signal));
  const left = (): number => leftBytes() - copied.session!.length;
  const changed = changes === null ? null : placeOf(request.stage.workspace!.guestPath).top;
  for (const guestPath of workFolders(request.stage).filter((folder) => folder !== changed)) {
    const read = trackEnd(folderOf(sandbox, guestPath, left(), signal));
    const ref = put(read.bytes);
    ref.catch(() => undefined);
    copied.files.push({ guestPath, ref });
    // Wait only for the read: storing may take longer, and must not extend the freeze.
    await Promise.race([read.ended, ref]);
  }
  if (changes !== null)
    copied.changes = await copyChanges({ ...changes, mostBytes: Math.min(changes.mostBytes, left()) }, signal);
  copied.frozenMs = Math.round(performance.now() - begunAt);
}

/** @throws Error if the folder does not exist or is too large */
export async function* folderOf(
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

export async function collectBytes(bytes: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const chunk of bytes) parts.push(chunk);
  return Buffer.concat(parts);
}

function trackEnd(source: AsyncIterable<Uint8Array>): {
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

/** Yields the files and folders of a session without secrets. A session contains no other entries. */
async function* redactTar(tar: Buffer, redactor: Redactor): AsyncGenerator<Uint8Array, void, void> {
  const items: TarItem[] = [];
  for await (const { kind, path, mode, body } of readTar(toStream(tar), tar.length)) {
    if (kind === 'dir') items.push({ kind, path: path.replace(/\/$/, ''), mode });
    if (kind === 'file') items.push({ kind, path, mode, body: redactBytes(body, redactor) });
  }
  yield* writeTar(items);
}

function redactBytes(body: Uint8Array, redactor: Redactor): Uint8Array {
  const stream = redactor.stream();
  return Buffer.concat([...stream.push(body), ...stream.flush()].map(({ bytes }) => bytes));
}

async function* toStream(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}
