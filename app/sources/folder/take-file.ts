/** Reads a file of a watched folder into an artifact. */
import { isUtf8 } from 'node:buffer';
import type { BigIntStats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import type { ArtifactStore } from '../../../activities/ports/artifacts.ts';
import type { DataRef } from '../../../domain/plan/plan.ts';
import { FileRefusal } from '../../../files/open-file.ts';
import type { HeldArtifacts } from '../../../store/ports/held-artifacts.ts';
import { describeState } from './file-state.ts';
import { openBelow } from './held-folder.ts';

const CHUNK_BYTES = 256 * 1024;

export type TakenFile =
  | { readonly kind: 'taken'; readonly ref: DataRef }
  /** It is another file than the one that the scans have found; the next scan sees it. */
  | { readonly kind: 'changed' }
  | { readonly kind: 'refused'; readonly problem: string };

export interface TakeTools {
  readonly artifacts: Pick<ArtifactStore, 'put'>;
  readonly held: Pick<HeldArtifacts, 'hold'>;
  readonly signal: AbortSignal;
}

/**
 * @param stats  the facts on which two scans agreed
 * @throws CodedError `store/io`, and errors of the disk of the folder
 */
export async function takeFile(
  root: FileHandle,
  { names, stats }: { readonly names: readonly Buffer[]; readonly stats: BigIntStats },
  { artifacts, held, signal }: TakeTools,
): Promise<TakenFile> {
  let file: FileHandle;
  try {
    file = await openBelow(root, names);
  } catch (error) {
    if (!(error instanceof FileRefusal)) throw error;
    return error.reason === 'denied' ? { kind: 'refused', problem: error.message } : { kind: 'changed' };
  }
  try {
    const isSame = async (): Promise<boolean> =>
      describeState(await file.stat({ bigint: true })) === describeState(stats);
    if (!(await isSame())) return { kind: 'changed' };
    const form = createForm();
    const { sha256, sizeBytes } = await artifacts.put(readBytes(file, stats.size, form.add, signal), OTHER);
    if (BigInt(sizeBytes) !== stats.size || !(await isSame())) return { kind: 'changed' };
    await held.hold(sha256);
    return { kind: 'taken', ref: { sha256, sizeBytes, mediaType: form.findType() } };
  } finally {
    await file.close();
  }
}

/** A file that grows is read to its first size. */
async function* readBytes(
  file: FileHandle,
  size: bigint,
  see: (chunk: Uint8Array) => void,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  for (let left = Number(size); left > 0;) {
    signal.throwIfAborted();
    const { bytesRead } = await file.read(chunk, 0, Math.min(left, CHUNK_BYTES), null);
    if (bytesRead === 0) return;
    left -= bytesRead;
    see(chunk.subarray(0, bytesRead));
    yield chunk.subarray(0, bytesRead);
  }
}

const OTHER = 'application/octet-stream';

/** Finds the media type as inputs of other runs have it: text if the bytes are UTF-8. */
function createForm(): { add(chunk: Uint8Array): void; findType(): string } {
  let isText = true;
  // A character may begin in one chunk and end in the next one.
  let begun = Buffer.alloc(0);
  return {
    add(chunk) {
      if (!isText) return;
      const bytes = begun.length === 0 ? chunk : Buffer.concat([begun, chunk]);
      const end = findLastEnd(bytes);
      begun = Buffer.from(bytes.subarray(end));
      isText = isUtf8(bytes.subarray(0, end));
    },
    findType: () => (isText && begun.length === 0 ? 'text/plain; charset=utf-8' : OTHER),
  };
}

/** Returns where the last character begins if it is not complete, else the length. */
function findLastEnd(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back]!;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    if (byte < 0x80 || byte >= 0xc0) return length > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}
