/** Recognises static binaries, which run in a guest without any library. */
import { closeSync, openSync, readSync } from 'node:fs';

const HEADER_BYTES = 64;
const PROGRAM_HEADERS_MAX_BYTES = 65_536;
const PT_INTERP = 3;

/** Returns true for a 64-bit little-endian ELF program without an interpreter. */
export function isStaticElf(path: string): boolean {
  const file = openSync(path, 'r');
  try {
    const header = Buffer.alloc(HEADER_BYTES);
    if (readSync(file, header, 0, HEADER_BYTES, 0) < HEADER_BYTES) return false;
    if (header.readUInt32BE(0) !== 0x7f454c46 || header[4] !== 2 || header[5] !== 1) return false;
    const offset = Number(header.readBigUInt64LE(32));
    const entryBytes = header.readUInt16LE(54);
    const table = Buffer.alloc(Math.min(entryBytes * header.readUInt16LE(56), PROGRAM_HEADERS_MAX_BYTES));
    readSync(file, table, 0, table.length, offset);
    for (let at = 0; at + 4 <= table.length; at += entryBytes) if (table.readUInt32LE(at) === PT_INTERP) return false;
    return table.length > 0;
  } finally {
    closeSync(file);
  }
}
