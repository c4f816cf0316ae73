/**
 * Writes a repository as one tar, as the guest's git would have checked it out: its files, its objects, and an index
 * that knows the files, so that nothing runs in the guest. It reads the pack as a stream. Only the pack is on the
 * host's disk, for a short time.
 */
import { Buffer } from 'node:buffer';
import { createWriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { endMarker, paddingBytes, writeHeader } from '../../tar/entry.ts';
import { type IndexEntry, readIndex, setTime, sizeIn } from '../../git/checkout-index.ts';
import { LINK_MODE } from './plan-checkout.ts';
import { makePrivateRepository } from '../../git/private-repository.ts';
import { readBlobs } from '../../git/read-blobs.ts';
import type { GitHost } from '../../git/run-git.ts';

export interface StoredFile {
  readonly sizeBytes: number;
  readonly open: () => AsyncIterable<Uint8Array>;
}

export interface Checkout {
  readonly pack: StoredFile;
  /** The index of the pack. */
  readonly packIndex: StoredFile;
  /** The index that `planCheckout` made. */
  readonly index: Buffer;
  /** The files of `.git`, except objects and the index; null: the tar has no `.git`. */
  readonly gitFiles: Readonly<Record<string, string>> | null;
  readonly nowS: number;
}

/** Entries are put together up to this. */
const CHUNK_BYTES = 256 * 1024;
/** The time for the whole checkout; the guest reads the stream no faster than it writes the files. */
const TIMEOUT_MS = 15 * 60_000;
/**
 * Dates files before the first change in the guest, whose clock of whole seconds may be behind by one second. Then the
 * time of a changed file differs. It is no longer, because builds compare times.
 */
const BEFORE_S = 2;

/** @throws GitError, and errors of the files */
export async function* writeCheckout(host: GitHost, checkout: Checkout): AsyncGenerator<Uint8Array, void, void> {
  yield* joinChunks(entriesOf(host, checkout));
}

async function* entriesOf(host: GitHost, checkout: Checkout): AsyncGenerator<Uint8Array, void, void> {
  const modifiedS = checkout.nowS - BEFORE_S;
  const index = Buffer.from(checkout.index);
  const entries = readIndex(index);
  setTime(index, entries, modifiedS);
  const files = withRepository(host, checkout, (gitDir) => filesOf(host, gitDir, index, entries, modifiedS));
  // Start git on the host while the guest reads the objects.
  const first = files.next();
  first.catch(() => undefined);
  try {
    if (checkout.gitFiles !== null) {
      for (const [path, text] of Object.entries(checkout.gitFiles))
        yield* smallFile(path, Buffer.from(text), modifiedS);
      yield* storedFile('.git/objects/pack/pack-base.pack', checkout.pack, modifiedS);
      yield* storedFile('.git/objects/pack/pack-base.idx', checkout.packIndex, modifiedS);
    }
    for (let next = await first; next.done !== true; next = await files.next()) yield next.value;
  } finally {
    await files.return();
  }
  // The index is the last entry, so that an interrupted checkout has no index. Its time is one second after the files,
  // because git would otherwise read all of them to check for changes.
  if (checkout.gitFiles !== null) yield* smallFile('.git/index', index, modifiedS + 1);
  yield endMarker();
}

async function* filesOf(
  host: GitHost,
  gitDir: string,
  index: Buffer,
  entries: readonly IndexEntry[],
  modifiedS: number,
): AsyncGenerator<Uint8Array, void, void> {
  const wanted = entries.map((entry) => ({ id: entry.id, sizeBytes: sizeIn(index, entry) }));
  let target = '';
  let begun = -1;
  for await (const { at, part, isLast } of readBlobs(host, wanted, { gitDir, timeoutMs: TIMEOUT_MS })) {
    const { path, mode } = entries[at]!;
    const { sizeBytes } = wanted[at]!;
    if (mode === LINK_MODE) {
      target += part.toString('latin1');
      if (isLast)
        yield writeHeader({
          path,
          typeFlag: '2',
          mode: 0o777,
          sizeBytes: 0,
          linkTarget: target,
          modifiedS,
          names: 'latin1',
        });
      if (isLast) target = '';
      continue;
    }
    if (begun !== at)
      yield writeHeader({ path, typeFlag: '0', mode: mode & 0o777, sizeBytes, modifiedS, names: 'latin1' });
    begun = at;
    yield part;
    if (isLast) yield Buffer.alloc(paddingBytes(sizeBytes));
  }
}

/** Removes the repository after the reader has finished or stopped reading. */
async function* withRepository(
  host: GitHost,
  { pack, packIndex }: Checkout,
  read: (gitDir: string) => AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, void> {
  const { gitDir, remove } = await makePrivateRepository(host);
  try {
    const folder = join(gitDir, 'objects', 'pack');
    await mkdir(folder, { recursive: true });
    await pipeline(pack.open(), createWriteStream(join(folder, 'pack-base.pack')));
    await pipeline(packIndex.open(), createWriteStream(join(folder, 'pack-base.idx')));
    yield* read(gitDir);
  } finally {
    await remove();
  }
}

function* smallFile(path: string, body: Buffer, modifiedS: number): Generator<Uint8Array, void, void> {
  yield writeHeader({ path, typeFlag: '0', mode: 0o644, sizeBytes: body.length, modifiedS });
  yield body;
  yield Buffer.alloc(paddingBytes(body.length));
}

async function* storedFile(
  path: string,
  { sizeBytes, open }: StoredFile,
  modifiedS: number,
): AsyncGenerator<Uint8Array, void, void> {
  yield writeHeader({ path, typeFlag: '0', mode: 0o644, sizeBytes, modifiedS });
  yield* open();
  yield Buffer.alloc(paddingBytes(sizeBytes));
}

async function* joinChunks(parts: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, void> {
  let held: Uint8Array[] = [];
  let heldBytes = 0;
  for await (const part of parts) {
    held.push(part);
    heldBytes += part.byteLength;
    if (heldBytes < CHUNK_BYTES) continue;
    yield Buffer.concat(held);
    held = [];
    heldBytes = 0;
  }
  if (heldBytes > 0) yield Buffer.concat(held);
}
