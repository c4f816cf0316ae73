/**
 * The changes of an agent in its git workspace: copied out while the agent is frozen, and applied to a fresh checkout
 * in another VM. Git and tar of the guest read them, so they are not trusted; they only go back into a guest.
 */
import { Buffer } from 'node:buffer';
import { cut } from '../../agents/fields.ts';
import type { DataRef } from '../../domain/plan/plan.ts';
import { attemptCommand, saveCommand } from '../../domain/run/attempt.ts';
import type { SavedFolder } from '../../domain/run/event.ts';
import type { Redactor } from '../../domain/security/redactor.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { endMarker, paddingBytes, writeHeader } from '../../tar/entry.ts';
import { cleanPath, linkStaysInside } from '../../tar/inside.ts';
import { type StreamedEntry, streamTar } from '../../tar/stream.ts';
import type { Exec, ExecExit, Sandbox } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';
import { runInGuest, WORKSPACE_LIMITS, WorkspaceFailure, describeExit } from './stage-workspace.ts';
import { CHANGES_SCRIPT, CHANGES_UNFIT, MEASURE_IGNORED_SCRIPT, REMOVED_NAME, RESTORE_SCRIPT } from './scripts.ts';

const MIB = 1024 * 1024;

export const CHANGES_LIMITS = {
  /** The limit of ignored files in a save; the smallest files come first. */
  ignoredBytes: 16 * MIB,
  /** The most ignored files and folders in a save. */
  ignoredNames: 1_000,
  /** The most names of skipped files that a save records, and the length of a name. */
  toldNames: 20,
  toldNameChars: 200,
  /** The time limit for listing and measuring ignored files; the agent works during that time. */
  measureMs: 60_000,
  /** The output limit of that command. */
  measureBytes: MIB,
  /** The size limit of a list of removed files. */
  removedBytes: 8 * MIB,
} as const;

/**
 * The files of a workspace that git ignores: those that a save takes, and those that it skips. Names are bytes, one
 * character for each.
 */
export interface Ignored {
  readonly taken: readonly string[];
  readonly leftOut: readonly string[];
}

/**
 * Returns null if the image of the VM lacks the tar, du or git that this needs.
 * @throws Error with the reason if the ignored files cannot be listed
 */
export async function measureIgnored(
  sandbox: Sandbox,
  nextKey: () => string,
  { workspace }: StageRequest['stage'],
  signal: AbortSignal,
): Promise<Ignored | null> {
  const exec = await startFresh(sandbox, nextKey, signal, {
    args: ['-c', MEASURE_IGNORED_SCRIPT, 'sh', workspace!.guestPath],
    maxOutputBytes: CHANGES_LIMITS.measureBytes,
    timeoutMs: CHANGES_LIMITS.measureMs,
  });
  const exit = await exec.wait(signal);
  const failure = exit.reason === 'exited' && exit.exitCode !== 0 ? await describeExit(exec, exit, signal) : null;
  const told = exit.reason === 'exited' ? await textOf(exec.output('stdout', 0, signal)) : '';
  await exec.acknowledge();
  if (exit.exitCode === CHANGES_UNFIT || exit.exitCode === 127) return null;
  // A list that was cut off is useless.
  if (exit.reason !== 'exited') return { taken: [], leftOut: ['all files that git ignores'] };
  if (failure !== null) throw new Error(`the files that git ignores are not known: ${failure}`);
  return chooseIgnored(told);
}

/** @param told records `<KiB>\t<name>`, each followed by a NUL */
export function chooseIgnored(told: string): Ignored {
  const sized = told.split('\0').flatMap((record) => {
    const match = /^(\d+)\t([^]+)$/.exec(record);
    return match === null ? [] : [{ bytes: Number(match[1]) * 1024, name: match[2]! }];
  });
  const taken: string[] = [];
  const leftOut: string[] = [];
  let left: number = CHANGES_LIMITS.ignoredBytes;
  for (const { bytes, name } of sized.toSorted((a, b) => a.bytes - b.bytes)) {
    const fits = bytes <= left && taken.length < CHANGES_LIMITS.ignoredNames;
    if (fits) left -= bytes;
    (fits ? taken : leftOut).push(name);
  }
  return { taken, leftOut };
}

export interface ChangesContext {
  readonly sandbox: Sandbox;
  readonly stage: StageRequest['stage'];
  readonly nextKey: () => string;
  readonly base: string;
  readonly ignored: Ignored;
  readonly redactor: Redactor;
  /** The time limit and the size limit of a copy. */
  readonly limitMs: number;
  readonly mostBytes: number;
}

/**
 * Copies the changes while the agent is frozen: everything is in the command's output when the promise resolves.
 * @throws Error with the reason if the changes cannot be saved
 */
export async function copyChanges(context: ChangesContext, signal: AbortSignal): Promise<Exec> {
  const { sandbox, stage, nextKey, base, ignored, limitMs, mostBytes } = context;
  const { guestPath } = stage.workspace!;
  const { top, inner } = placeOf(guestPath);
  const taken = Buffer.from(ignored.taken.map((name) => `${name}\0`).join(''), 'latin1');
  const exec = await startFresh(sandbox, nextKey, signal, {
    args: ['-c', CHANGES_SCRIPT, 'sh', top, inner, base],
    maxOutputBytes: mostBytes,
    timeoutMs: limitMs,
    stdin: taken,
  });
  const exit = await exec.wait(signal);
  if (exit.reason === 'exited' && exit.exitCode === 0) return exec;
  const why = await problemOf(exec, exit, context, signal);
  await exec.acknowledge();
  throw new Error(why);
}

async function problemOf(
  exec: Exec,
  exit: ExecExit,
  { stage, limitMs, mostBytes }: ChangesContext,
  signal: AbortSignal,
): Promise<string> {
  const { guestPath } = stage.workspace!;
  if (exit.reason === 'output-limit')
    return `the changes in ${guestPath} have more than the ${Math.floor(mostBytes / MIB)} MiB that may be saved`;
  if (exit.reason === 'timeout') return `the changes in ${guestPath} could not be read within ${limitMs / 1_000} s`;
  return `the changes in ${guestPath} could not be read: ${await describeExit(exec, exit, signal)}`;
}

/** Stores the output of `copyChanges`. */
export async function storeChanges(
  { stage, ignored, redactor }: Pick<ChangesContext, 'stage' | 'ignored' | 'redactor'>,
  exec: Exec,
  put: (bytes: AsyncIterable<Uint8Array>) => Promise<DataRef>,
  signal: AbortSignal,
): Promise<SavedFolder> {
  const leftOut = [...ignored.leftOut];
  const removed: Uint8Array[] = [];
  const count = { files: 0 };
  const { top, inner } = placeOf(stage.workspace!.guestPath);
  const isGit = isGitOf(inner);
  const ref = await put(
    checkChanges(exec.output('stdout', 0, signal), removed, leftOut, (path) => (count.files += isGit(path) ? 0 : 1)),
  );
  const list = Buffer.concat(removed);
  const removedRef = list.length === 0 ? null : await put(toStream(list));
  return {
    guestPath: top,
    ref,
    changes: {
      ...(removedRef === null ? {} : { removed: removedRef }),
      leftOut: leftOut.slice(0, CHANGES_LIMITS.toldNames).map((name) => redactName(name, redactor)),
      leftOutCount: leftOut.length,
      fileCount: count.files,
      removedCount: list.reduce((sum, byte) => sum + (byte === 0 ? 1 : 0), 0),
    },
  };
}

/** Returns a check whether a path of a save is one of the repository's own files. */
function isGitOf(inner: string): (path: string) => boolean {
  const git = inner === '.' ? '.git' : `${inner}/.git`;
  return (path) => path === git || path.startsWith(`${git}/`);
}

/** Redacts before it cuts, because a redactor does not find a part of a secret. */
function redactName(name: string, redactor: Redactor): string {
  const text = redactor.text(sanitizeLine(Buffer.from(name, 'latin1').toString('utf8')));
  return cut(text, CHANGES_LIMITS.toldNameChars);
}

/**
 * Yields entries that every guest accepts: no sockets, no devices, and no link that leads out. The first entry is the
 * list of removed files, and is not yielded.
 */
export async function* checkChanges(
  tar: AsyncIterable<Uint8Array>,
  removed: Uint8Array[],
  leftOut: string[],
  onFile: (path: string) => void = () => undefined,
): AsyncGenerator<Uint8Array, void, void> {
  let isFirst = true;
  let removedBytes = 0;
  for await (const entry of streamTar(tar, 'latin1')) {
    if (isFirst) {
      isFirst = false;
      if (cleanPath(entry.path) !== REMOVED_NAME) throw new Error('the guest does not say which files were removed');
      for await (const part of entry.body) {
        removedBytes += part.length;
        if (removedBytes > CHANGES_LIMITS.removedBytes)
          throw new Error(`the names of removed files have more than ${CHANGES_LIMITS.removedBytes / MIB} MiB`);
        // Copy the part, because the reader of the tar reuses its memory.
        removed.push(Buffer.from(part));
      }
      continue;
    }
    yield* entryOf(entry, leftOut, onFile);
  }
  yield endMarker();
}

async function* entryOf(
  entry: StreamedEntry,
  leftOut: string[],
  onFile: (path: string) => void,
): AsyncGenerator<Uint8Array, void, void> {
  const { kind, sizeBytes, mode, modifiedS, linkTarget, isSparse } = entry;
  const path = cleanPath(entry.path);
  if (path === null && kind === 'dir') return;
  const named = { mode: mode & 0o777, modifiedS, names: 'latin1' } as const;
  if (path !== null && kind === 'dir') yield writeHeader({ ...named, path: `${path}/`, typeFlag: '5', sizeBytes: 0 });
  else if (path !== null && kind === 'symlink' && linkStaysInside(path, linkTarget)) {
    onFile(path);
    yield writeHeader({ ...named, path, typeFlag: '2', sizeBytes: 0, linkTarget });
  } else if (path !== null && kind === 'file' && !isSparse) {
    onFile(path);
    yield writeHeader({ ...named, path, typeFlag: '0', sizeBytes });
    yield* entry.body;
    yield Buffer.alloc(paddingBytes(sizeBytes));
  } else leftOut.push(path ?? entry.path);
}

/**
 * Applies the changes to a fresh checkout.
 * @throws WorkspaceFailure if the guest cannot do it: its image has no `xargs`, or the earlier guest forged the save
 */
export async function restoreChanges(
  { artifacts }: { readonly artifacts: { open(ref: DataRef, from?: number): AsyncIterable<Uint8Array> } },
  sandbox: Sandbox,
  { execKey, stage }: StageRequest,
  { guestPath, ref, changes }: SavedFolder,
  signal: AbortSignal,
): Promise<void> {
  const removed = changes?.removed;
  const exec = await runInGuest(sandbox, signal, {
    key: attemptCommand(execKey, 'restore'),
    args: ['-c', RESTORE_SCRIPT, 'sh', stage.workspace!.guestPath],
    maxOutputBytes: MIB,
    timeoutMs: WORKSPACE_LIMITS.guestTimeoutMs,
    stdin:
      removed === undefined
        ? null
        : { sizeBytes: removed.sizeBytes, open: (offset: number) => artifacts.open(removed, offset) },
  });
  const exit = await exec.wait(signal);
  if (exit.reason !== 'exited' || exit.exitCode !== 0)
    throw new WorkspaceFailure({
      code: 'workspace/unusable',
      message: `what the agent of stage ${stage.id} had changed cannot be restored in another VM: ${await describeExit(exec, exit, signal)}; another attempt starts from the beginning`,
    });
  await sandbox.putTar(guestPath, artifacts.open(ref), signal);
}

/** Returns the folder that a save contains, and the repository in it. */
export function placeOf(guestPath: string): { readonly top: string; readonly inner: string } {
  const own = '/workspace';
  if (guestPath === own) return { top: own, inner: '.' };
  return guestPath.startsWith(`${own}/`)
    ? { top: own, inner: guestPath.slice(own.length + 1) }
    : { top: guestPath, inner: '.' };
}

/**
 * Returns keys for the commands that save an attempt, each key once: a command of another worker shows an earlier
 * moment.
 */
export function saveKeys(execKey: string): () => string {
  let number = 0;
  return () => saveCommand(execKey, (number += 1));
}

interface GuestCommand {
  readonly args: readonly string[];
  readonly maxOutputBytes: number;
  readonly timeoutMs: number;
  readonly stdin?: Uint8Array;
}

async function startFresh(
  sandbox: Sandbox,
  nextKey: () => string,
  signal: AbortSignal,
  { stdin, ...command }: GuestCommand,
): Promise<Exec> {
  for (;;) {
    const exec = await runInGuest(sandbox, signal, {
      ...command,
      key: nextKey(),
      stdin:
        stdin === undefined || stdin.length === 0
          ? null
          : { sizeBytes: stdin.length, open: (offset: number) => toStream(stdin.subarray(offset)) },
    });
    if (!exec.attached) return exec;
  }
}

async function textOf(bytes: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of bytes) parts.push(part);
  return Buffer.concat(parts).toString('latin1');
}

async function* toStream(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}
