/**
 * Lists the content of a folder, entry by entry. Names are bytes on both sides, so a path here is a text with one
 * character for each byte (latin1); `toPrintablePath` makes it readable.
 */
import { Buffer } from 'node:buffer';
import { createReadStream } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { syncFolder } from '../../files/publish-folder.ts';

export type MountEntry =
  | { readonly kind: 'dir'; readonly mode: number }
  | { readonly kind: 'file'; readonly mode: number; readonly sizeBytes: number; readonly sha256: string }
  | { readonly kind: 'link'; readonly target: string };

/** Entries by path, without the folder itself. */
export type Manifest = ReadonlyMap<string, MountEntry>;

/** The limit of entries of one writable mount; the worker holds each entry in memory while it compares two states. */
export const MAX_ENTRIES = 250_000;
/** The limit of bytes of all paths and link targets of one writable mount. */
export const MAX_NAMES_BYTES = 64 * 1024 * 1024;

const FLUSH_CHARACTERS = 256 * 1024;

export function isSameEntry(a: MountEntry | null, b: MountEntry | null): boolean {
  if (a === null || b === null) return a === b;
  if (a.kind === 'link') return b.kind === 'link' && a.target === b.target;
  if (a.kind === 'dir') return b.kind === 'dir' && a.mode === b.mode;
  return b.kind === 'file' && a.mode === b.mode && a.sizeBytes === b.sizeBytes && a.sha256 === b.sha256;
}

/** Formats a path for users on one line, whatever bytes it contains. */
export function toPrintablePath(path: string): string {
  return sanitizeLine(Buffer.from(path, 'latin1').toString('utf8'));
}

/** Enforces the limits of a manifest. */
export class ManifestLimit {
  #entries = 0;
  #namesBytes = 0;

  /** Returns the limit that the next entry breaks; null while it fits. */
  add(path: string, entry: MountEntry): string | null {
    this.#entries += 1;
    this.#namesBytes += path.length + (entry.kind === 'link' ? entry.target.length : 0);
    if (this.#entries > MAX_ENTRIES) return `more than ${MAX_ENTRIES.toLocaleString('en')} entries`;
    if (this.#namesBytes > MAX_NAMES_BYTES) return `more than ${MAX_NAMES_BYTES / (1024 * 1024)} MiB of names`;
    return null;
  }
}

/** Replaces the file atomically; resolves once it is on the disk. */
export async function writeManifest(
  path: string,
  entries: Iterable<readonly [string, MountEntry | null]>,
): Promise<void> {
  const partial = `${path}.partial`;
  try {
    const file = await open(partial, 'w', 0o600);
    try {
      let text = '';
      let count = 0;
      for (const entry of entries) {
        text += `${JSON.stringify(entry)}\n`;
        count += 1;
        if (text.length < FLUSH_CHARACTERS) continue;
        await file.writeFile(text);
        text = '';
      }
      await file.writeFile(`${text}${JSON.stringify({ v: 1, count })}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(partial, path);
    await syncFolder(dirname(path));
  } catch (error) {
    await rm(partial, { force: true });
    throw new CodedError('store/io', `cannot write ${path}: ${(error as Error).message}`, { cause: error });
  }
}

/**
 * Reads the entries that `writeManifest` wrote; null if the file does not exist.
 * @throws CodedError `mount/unusable` if the file is damaged
 */
export async function readManifest(path: string): Promise<Map<string, MountEntry | null> | null> {
  const entries = new Map<string, MountEntry | null>();
  let isComplete = false;
  try {
    for await (const line of createInterface({
      input: createReadStream(path, 'utf8'),
      crlfDelay: Number.POSITIVE_INFINITY,
    })) {
      const value = JSON.parse(line) as unknown;
      if (isComplete) throw new SyntaxError('lines after its end');
      if (Array.isArray(value)) entries.set(...checkLine(value));
      else isComplete = (value as { readonly count?: unknown } | null)?.count === entries.size;
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    if (error instanceof SyntaxError) throw createDamageError(path, error.message);
    throw new CodedError('store/io', `cannot read ${path}: ${(error as Error).message}`, { cause: error });
  }
  if (!isComplete) throw createDamageError(path, 'its end is missing');
  return entries;
}

function checkLine(line: readonly unknown[]): [string, MountEntry | null] {
  const [path, entry] = line as [unknown, Partial<Record<string, unknown>> | null];
  if (typeof path !== 'string' || path === '') throw new SyntaxError('a line without a path');
  if (entry === null) return [path, null];
  const { kind, mode, sizeBytes, sha256, target } = entry;
  if (kind === 'link' && typeof target === 'string') return [path, { kind, target }];
  if (typeof mode === 'number') {
    if (kind === 'dir') return [path, { kind, mode }];
    if (kind === 'file' && typeof sizeBytes === 'number' && typeof sha256 === 'string')
      return [path, { kind, mode, sizeBytes, sha256 }];
  }
  throw new SyntaxError(`an entry of an unknown kind for ${toPrintablePath(path)}`);
}

function createDamageError(path: string, why: string): CodedError {
  return new CodedError(
    'mount/unusable',
    `${path}, which says what a writable mount held, is damaged (${why}): start the run again`,
  );
}
