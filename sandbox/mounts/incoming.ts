/** Reads the content of a folder from a guest's tar. Changed file contents are stored in the staging folder. */
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { streamTar, type StreamedEntry } from '../../tar/stream.ts';
import { cleanPath, linkStaysInside } from '../../tar/inside.ts';
import { parentOf } from './changes.ts';
import { ManifestLimit, isSameEntry, toPrintablePath, type Manifest, type MountEntry } from './manifest.ts';
import { isStaging, type Staging } from './staging.ts';

/** Contents up to this size are compared in memory before they are written, because they may be unchanged. */
const HELD_BYTES = 1024 * 1024;

export interface Incoming {
  readonly entries: Manifest;
  /** The names, in the staging folder, of contents that differ from `before`. */
  readonly staged: ReadonlyMap<string, string>;
}

/**
 * @param keepsByName  returns true for a path whose contents are not copied to the host
 * @throws CodedError `stage/bad-output` for an entry that may not leave a VM; also throws errors of the stream
 */
export async function readIncoming(
  tar: AsyncIterable<Uint8Array>,
  before: Manifest,
  staging: Staging,
  keepsByName: (path: string) => boolean,
): Promise<Incoming> {
  const entries = new Map<string, MountEntry>();
  const staged = new Map<string, string>();
  const limit = new ManifestLimit();
  for await (const item of streamTar(tar, 'latin1')) {
    const path = cleanPath(item.path);
    // This entry is the folder itself.
    if (path === null && /^(\.?\/)*\.?$/.test(item.path)) continue;
    if (path === null) throw createRefusal(item.path, 'a path that does not stay inside, or is too long or too deep');
    if (isStaging(path)) throw createRefusal(path, 'a name that is reserved for copies');
    const entry =
      item.kind === 'file' && keepsByName(path)
        ? await hashFile(item)
        : await entryOf(item, path, before.get(path) ?? null, staging, staged);
    const over = limit.add(path, entry);
    if (over !== null)
      throw new CodedError(
        'stage/bad-output',
        `a writable mount holds ${over} after the stage: write such data to /workspace`,
      );
    entries.set(path, entry);
  }
  for (const path of entries.keys()) {
    const parent = parentOf(path);
    if (parent !== '' && entries.get(parent)?.kind !== 'dir')
      throw createRefusal(path, 'an entry whose parent is not a folder');
  }
  return { entries, staged };
}

async function entryOf(
  item: StreamedEntry,
  path: string,
  before: MountEntry | null,
  staging: Staging,
  staged: Map<string, string>,
): Promise<MountEntry> {
  switch (item.kind) {
    case 'dir':
      // The owner must always be able to write in the folder.
      return { kind: 'dir', mode: (item.mode & 0o777) | 0o700 };
    case 'symlink':
      if (!linkStaysInside(path, item.linkTarget))
        throw createRefusal(path, `a link to ${toPrintablePath(item.linkTarget)}, which does not stay inside`);
      return { kind: 'link', target: item.linkTarget };
    case 'file':
      return fileOf(item, path, before, staging, staged);
    case 'hardlink':
    case 'other':
      throw createRefusal(path, 'neither a regular file, nor a folder, nor a link');
  }
}

async function hashFile({ mode, sizeBytes, body }: StreamedEntry): Promise<MountEntry> {
  const hash = createHash('sha256');
  for await (const part of body) hash.update(part);
  return { kind: 'file', mode: mode & 0o777, sizeBytes, sha256: hash.digest('hex') };
}

async function fileOf(
  item: StreamedEntry,
  path: string,
  before: MountEntry | null,
  staging: Staging,
  staged: Map<string, string>,
): Promise<MountEntry> {
  const mayBeSame = before?.kind === 'file' && before.sizeBytes === item.sizeBytes;
  const mode = item.mode & 0o777;
  const hash = createHash('sha256');
  let made: MountEntry | null = null;
  const entry = (): MountEntry =>
    (made ??= { kind: 'file', mode, sizeBytes: item.sizeBytes, sha256: hash.digest('hex') });
  const isNew = (): boolean => !(mayBeSame && isSameEntry(entry(), before));
  if (mayBeSame && item.sizeBytes <= HELD_BYTES) {
    const parts: Uint8Array[] = [];
    for await (const part of item.body) {
      hash.update(part);
      parts.push(part);
    }
    if (isNew()) await stage(path, [Buffer.concat(parts)], mode, staging, staged, isNew);
    return entry();
  }
  await stage(path, hashStream(item.body, hash), mode, staging, staged, isNew);
  return entry();
}

async function* hashStream(
  body: AsyncIterable<Uint8Array>,
  hash: ReturnType<typeof createHash>,
): AsyncGenerator<Uint8Array, void, void> {
  for await (const part of body) {
    hash.update(part);
    yield part;
  }
}

/** @param isNew  called after the whole body was read */
async function stage(
  path: string,
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  mode: number,
  staging: Staging,
  staged: Map<string, string>,
  isNew: () => boolean,
): Promise<void> {
  const { name, file } = await staging.newFile();
  try {
    for await (const part of body) await file.writeFile(part);
    if (isNew()) {
      await file.chmod(mode);
      // The sync precedes the move: a power loss after the move would leave an empty file that counts as copied.
      await file.sync();
    }
  } finally {
    await file.close();
  }
  const earlier = staged.get(path);
  if (earlier !== undefined) await (await staging.folder()).removeFile(earlier);
  if (isNew()) staged.set(path, name);
  else {
    staged.delete(path);
    await (await staging.folder()).removeFile(name);
  }
}

function createRefusal(path: string, why: string): CodedError {
  return new CodedError('stage/bad-output', `a writable mount may not hold ${toPrintablePath(path)}: ${why}`);
}
