/**
 * Brings an output to a folder of this machine. First it writes everything into a new folder within the target that
 * only this user can enter, and checks the bytes. Only then do files get their names, so a tar from a guest cannot
 * touch files of others or follow their links.
 */
import { Buffer } from 'node:buffer';
import { lstat, mkdir, mkdtemp, open, readdir, rename, rm, rmdir, symlink, unlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';
import {
  isDotGit,
  isRepositoryLayout,
  type RepositoryPart,
  repositoryPartNamed,
} from '../../domain/security/git-names.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { cleanPath, linkStaysInside } from '../../tar/inside.ts';
import { streamTar, type StreamedEntry } from '../../tar/stream.ts';
import { type AppError, createUsageError } from '../app-error.ts';

/** Equals the limit of a keeper for files that leave a VM. */
export const MAX_ENTRIES = 1_000_000;
/** Names in a message. */
const SHOWN_NAMES = 5;

export interface Unpacked {
  readonly entries: number;
  readonly bytes: number;
  /** The paths that git would treat as data of a repository: the first path of each kind of folder, at most 5. */
  readonly gitData: readonly string[];
}

interface Target {
  /** Created if it does not exist. */
  readonly folder: string;
  /** Whether files and folders of the same name are replaced. */
  readonly force: boolean;
  readonly signal: AbortSignal;
}

/**
 * @throws AppError if the target cannot be written, or holds such names already; CodedError for bytes that are not the
 * artifact's
 */
export async function unpackTar(bytes: AsyncIterable<Uint8Array>, target: Target): Promise<Unpacked> {
  return await fillStaging(target, async (staging) => {
    const made = new Set<string>();
    let entries = 0;
    let sizeBytes = 0;
    const git = new GitData();
    // Names are bytes: one character for each.
    for await (const entry of streamTar(bytes, 'latin1')) {
      target.signal.throwIfAborted();
      const path = cleanPath(entry.path);
      if (path === null && entry.kind === 'dir' && /^[./]*$/.test(entry.path)) continue;
      if ((entries += 1) > MAX_ENTRIES) throw createRefusal(entry.path, `more than ${MAX_ENTRIES} entries`);
      if (path === null) throw createRefusal(entry.path, 'it leads out of the output');
      git.see(path);
      await makeFolders(staging, path.split('/').slice(0, -1).join('/'), made);
      await writeEntry(staging, path, entry, made, target.signal);
      sizeBytes += entry.sizeBytes;
    }
    return { entries, bytes: sizeBytes, gitData: git.found };
  });
}

/** Watches the paths of an output for repositories of git. */
class GitData {
  readonly #parts = new Map<string, Set<RepositoryPart>>();
  readonly #found = new Set<string>();

  see(path: string): void {
    const names = path.split('/').map((name) => Buffer.from(name, 'latin1').toString());
    const dotGit = names.findIndex(isDotGit);
    if (dotGit !== -1) return this.#add(names.slice(0, dotGit + 1));
    // Files in a folder make the folder, whether it has an entry or not.
    for (let depth = 0; depth < names.length; depth += 1) {
      const part = repositoryPartNamed(names[depth]!);
      if (part === null) continue;
      const folder = names.slice(0, depth).join('/');
      const parts = this.#parts.get(folder) ?? new Set();
      this.#parts.set(folder, parts.add(part));
      if (isRepositoryLayout(parts)) this.#add(names.slice(0, depth));
    }
  }

  get found(): readonly string[] {
    return [...this.#found];
  }

  #add(names: readonly string[]): void {
    if (this.#found.size < SHOWN_NAMES) this.#found.add(sanitizeLine(names.join('/') || '.'));
  }
}

/** Saves one file of that name. */
export async function saveFile(bytes: AsyncIterable<Uint8Array>, name: string, target: Target): Promise<Unpacked> {
  return await fillStaging(target, async (staging) => {
    const sizeBytes = await writeFile(join(staging, name), 0o644, bytes, target.signal);
    return { entries: 1, bytes: sizeBytes, gitData: [] };
  });
}

async function fillStaging(target: Target, fill: (staging: string) => Promise<Unpacked>): Promise<Unpacked> {
  const { folder, force } = target;
  let made: string | undefined;
  let staging: string | null = null;
  try {
    made = await mkdir(folder, { recursive: true });
    staging = await mkdtemp(join(folder, '.voidbox-output-'));
    const content = join(staging, 'new');
    await mkdir(content);
    const unpacked = await fill(content);
    await giveNames(content, folder, join(staging, 'old'), force);
    made = undefined;
    return unpacked;
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (code === undefined || syscall === undefined) throw error;
    throw createUsageError(`cannot write to \`${folder}\`: ${(error as Error).message}`);
  } finally {
    if (staging !== null) await rm(staging, { recursive: true, force: true });
    // Removes a folder that was created for an output that did not arrive. `rmdir` keeps it if another program has put
    // a file there.
    if (made !== undefined) await rmdir(folder).catch(() => undefined);
  }
}

/** Existing files move to `old` first, so that each name is without its file only for a moment. */
async function giveNames(content: string, folder: string, old: string, force: boolean): Promise<void> {
  const names = await readdir(content, { encoding: 'buffer' });
  const taken: Buffer[] = [];
  for (const name of names) if (await isThere(joinPath(folder, name))) taken.push(name);
  if (taken.length > 0 && !force) throw createTakenError(folder, taken);
  await mkdir(old);
  for (const name of names) {
    if (taken.some((each) => each.equals(name))) await rename(joinPath(folder, name), joinPath(old, name));
    await rename(joinPath(content, name), joinPath(folder, name));
  }
}

function createTakenError(folder: string, taken: readonly Buffer[]): AppError {
  const names = taken.slice(0, SHOWN_NAMES).map((name) => sanitizeLine(name.toString()));
  const more = taken.length > SHOWN_NAMES ? ` and ${taken.length - SHOWN_NAMES} more` : '';
  return createUsageError(
    `\`${folder}\` has ${names.join(', ')}${more} already`,
    'Choose another folder with -o, or replace existing files with --force',
  );
}

async function makeFolders(staging: string, path: string, made: Set<string>): Promise<void> {
  if (path === '' || made.has(path)) return;
  const end = path.lastIndexOf('/');
  if (end !== -1) await makeFolders(staging, path.slice(0, end), made);
  await mkdir(joinStaging(staging, path), { mode: 0o755 }).catch((error: unknown) => {
    throw (error as NodeJS.ErrnoException).code === 'EEXIST'
      ? createRefusal(path, 'it is a folder and also another entry')
      : error;
  });
  made.add(path);
}

async function writeEntry(
  staging: string,
  path: string,
  entry: StreamedEntry,
  made: Set<string>,
  signal: AbortSignal,
): Promise<void> {
  switch (entry.kind) {
    case 'dir':
      return await makeFolders(staging, path, made);
    case 'file':
      await removeEarlier(staging, path, made);
      await writeFile(joinStaging(staging, path), entry.mode & 0o777, entry.body, signal);
      return;
    case 'symlink':
      if (!linkStaysInside(path, entry.linkTarget))
        throw createRefusal(path, 'it is a link that leads out of the output');
      await removeEarlier(staging, path, made);
      return await symlink(Buffer.from(entry.linkTarget, 'latin1'), joinStaging(staging, path));
    case 'hardlink':
    case 'other':
      throw createRefusal(path, 'only files, folders and links are allowed');
  }
}

/** A tar contains a file twice if the file changed while the guest read it. */
async function removeEarlier(staging: string, path: string, made: ReadonlySet<string>): Promise<void> {
  if (made.has(path)) throw createRefusal(path, 'it is a folder and also another entry');
  await unlink(joinStaging(staging, path)).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  });
}

async function writeFile(
  path: string | Buffer,
  mode: number,
  bytes: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<number> {
  // Its owner can always read and replace it.
  const file = await open(path, 'wx', mode | 0o600);
  let sizeBytes = 0;
  try {
    for await (const part of bytes) {
      signal.throwIfAborted();
      await file.writeFile(part);
      sizeBytes += part.byteLength;
    }
  } finally {
    await file.close();
  }
  return sizeBytes;
}

async function isThere(path: Buffer): Promise<boolean> {
  return await lstat(path).then(
    () => true,
    (error: unknown) => {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
      throw error;
    },
  );
}

function joinStaging(staging: string, path: string): Buffer {
  return joinPath(staging, Buffer.from(path, 'latin1'));
}

function joinPath(folder: string, name: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${folder}/`), name]);
}

function createRefusal(path: string, why: string): CodedError {
  const shown = sanitizeLine(Buffer.from(path, 'latin1').toString());
  return new CodedError('stage/bad-output', `the output has ${JSON.stringify(shown.slice(0, 200))}: ${why}`);
}

/** The name of a file output: the last part of its path in the guest. */
export function fileNameOf(guestPath: string): string {
  return basename(guestPath);
}
