/** Reads and changes git's index (version 2), so that git of a guest considers the files of its checkout unchanged. */
import type { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';

export interface IndexEntry {
  /** The offset of the entry in the index. */
  readonly offset: number;
  readonly mode: number;
  readonly id: string;
  /** The path with one character for each byte. */
  readonly path: string;
}

const HEADER_BYTES = 12;
const ENTRY_BYTES = 62;
const HASH_BYTES = 20;
/** Flags for conflicts, extended flags, and `assume-valid`: git writes none of them for a single tree. */
const FLAGS = 0xf000;

const AT = { mtimeS: 8, mtimeNs: 12, mode: 24, size: 36, id: 40, flags: 60 } as const;

/** @throws Error for an index that has another version, or is not of a single tree */
export function readIndex(index: Buffer): readonly IndexEntry[] {
  if (index.toString('latin1', 0, 4) !== 'DIRC' || index.readUInt32BE(4) !== 2)
    throw new Error('git made an index of another version than 2');
  const entries: IndexEntry[] = [];
  let offset = HEADER_BYTES;
  for (let left = index.readUInt32BE(8); left > 0; left -= 1) {
    const end = index.indexOf(0, offset + ENTRY_BYTES);
    if (end === -1 || (index.readUInt16BE(offset + AT.flags) & FLAGS) !== 0)
      throw new Error('git made an index that is not of one tree');
    entries.push({
      offset,
      mode: index.readUInt32BE(offset + AT.mode),
      id: index.toString('hex', offset + AT.id, offset + AT.id + HASH_BYTES),
      path: index.toString('latin1', offset + ENTRY_BYTES, end),
    });
    // An entry ends with one to eight zero bytes.
    offset += (end - offset + 8) & ~7;
  }
  return entries;
}

export function sizeIn(index: Buffer, { offset }: IndexEntry): number {
  return index.readUInt32BE(offset + AT.size);
}

/** Sets the sizes of the index's files. */
export function setSizes(index: Buffer, entries: readonly IndexEntry[], sizeOf: (entry: IndexEntry) => number): void {
  for (const entry of entries) index.writeUInt32BE(sizeOf(entry), entry.offset + AT.size);
  sign(index);
}

/** Sets the time of all files in the index. */
export function setTime(index: Buffer, entries: readonly IndexEntry[], modifiedS: number): void {
  for (const { offset } of entries) {
    index.writeUInt32BE(modifiedS, offset + AT.mtimeS);
    index.writeUInt32BE(0, offset + AT.mtimeNs);
  }
  sign(index);
}

function sign(index: Buffer): void {
  const end = index.length - HASH_BYTES;
  createHash('sha1').update(index.subarray(0, end)).digest().copy(index, end);
}
