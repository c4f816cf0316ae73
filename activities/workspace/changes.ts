/**
 * What an agent has changed in its git workspace: copied out while it stands still, and put over a fresh checkout in another VM. Git
 * and tar of the guest read it, so what they answer is the guest's word; it goes back into a guest alone.
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
  /** Of files that git ignores; the smallest go first. */
  ignoredBytes: 16 * MIB,
  /** Files and folders that git ignores. */
  ignoredNames: 1_000,
  /** Names of what is left out that a save tells. */
  toldNames: 20,
  toldNameChars: 200,
  /** To find out what git ignores, and how large it is: the agent works meanwhile. */
  measureMs: 60_000,
  /** What the guest says of it. */
  measureBytes: MIB,
  /** Of a list of removed files. */
  removedBytes: 8 * MIB,
} as const;

/** What git ignores of a workspace, and what of it a save takes along; as bytes, one character for each. */
export interface Ignored {
  readonly taken: readonly string[];
  readonly leftOut: readonly string[];
}

/** Null: the image of the VM has no tar, du and git for it. @throws Error with what keeps it from being known */
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
  // Nothing is known of what is not listed whole.
  if (exit.reason !== 'exited') return { taken: [], leftOut: ['all that git ignores'] };
  if (failure !== null) throw new Error(`what git ignores is not known: ${failure}`);
  return chooseIgnored(told);
}

/** @param told  `<KiB>\t<name>`, each with a NUL behind it */
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
  /** A copy takes no longer, and has no more bytes. */
  readonly limitMs: number;
  readonly mostBytes: number;
}

/**
 * While the agent stands still: everything is in the command's output when this settles.
 * @throws Error with what keeps it from being saved
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
    return `what is changed in ${guestPath} has more than the ${Math.floor(mostBytes / MIB)} MiB that may be saved`;
  if (exit.reason === 'timeout') return `what is changed in ${guestPath} could not be read within ${limitMs / 1_000} s`;
  return `what is changed in ${guestPath} could not be read: ${await describeExit(exec, exit, signal)}`;
}

/** After it: into the store. */
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

/** Whether a path of a save is one of the repository's own files. */
function isGitOf(inner: string): (path: string) => boolean {
  const git = inner === '.' ? '.git' : `${inner}/.git`;
  return (path) => path === git || path.startsWith(`${git}/`);
}

/** Redacted before it is cut: a part of a secret would not be found. */
function redactName(name: string, redactor: Redactor): string {
  const text = redactor.text(sanitizeLine(Buffer.from(name, 'latin1').toString('utf8')));
  return cut(text, CHANGES_LIMITS.toldNameChars);
}

/**
 * Entries that every guest takes: neither sockets nor devices, and no link that leads out. The first one is the list of removed
 * files, and no part of it.
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
        // The reader of the tar uses its memory again.
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
 * Over a fresh checkout.
 * @throws WorkspaceFailure where the guest cannot: its image has no `xargs`, or what it gets was made up by the one before it
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

/** The folder that a save has, and the repository in it. */
export function placeOf(guestPath: string): { readonly top: string; readonly inner: string } {
  const own = '/workspace';
  if (guestPath === own) return { top: own, inner: '.' };
  return guestPath.startsWith(`${own}/`)
    ? { top: own, inner: guestPath.slice(own.length + 1) }
    : { top: guestPath, inner: '.' };
}

/** Keys of commands that save an attempt, each once: what another worker began stands for another moment. */
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
