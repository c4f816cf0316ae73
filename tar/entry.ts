/** The parts of the tar format that sandboxes use: ustar headers with pax records for long names. */
import { Buffer } from 'node:buffer';

export const BLOCK_BYTES = 512;

/** `latin1`: names are bytes, one character for each. */
export type NameEncoding = 'utf8' | 'latin1';

export type TarKind = 'file' | 'dir' | 'symlink' | 'hardlink' | 'other';

export interface TarHeader {
  readonly path: string;
  readonly kind: TarKind;
  /** The type letter of the format; needed for entries that are neither a file, a folder nor a link. */
  readonly typeFlag: string;
  readonly mode: number;
  readonly sizeBytes: number;
  readonly modifiedS: number;
  /** Empty for every entry that is not a link. */
  readonly linkTarget: string;
}

const KIND_OF_FLAG: Readonly<Record<string, TarKind>> = {
  '0': 'file',
  '\0': 'file',
  '7': 'file',
  '1': 'hardlink',
  '2': 'symlink',
  '5': 'dir',
};

/** The header of a block; null for a block of zeroes. @throws Error when the checksum is wrong */
export function parseHeader(block: Buffer, names: NameEncoding = 'utf8'): TarHeader | null {
  if (block.every((byte) => byte === 0)) return null;
  let sum = 0;
  for (let index = 0; index < BLOCK_BYTES; index += 1)
    sum += index >= 148 && index < 156 ? 0x20 : (block[index] as number);
  if (sum !== readNumber(block, 148, 8)) throw new Error('tar: the checksum of a header is wrong');
  const prefix = block.toString('latin1', 257, 262) === 'ustar' ? readString(block, 345, 155, names) : '';
  const name = readString(block, 0, 100, names);
  const typeFlag = String.fromCharCode(block[156] as number);
  return {
    path: prefix === '' ? name : `${prefix}/${name}`,
    kind: KIND_OF_FLAG[typeFlag] ?? 'other',
    typeFlag,
    mode: readNumber(block, 100, 8) & 0o7777,
    sizeBytes: readNumber(block, 124, 12),
    modifiedS: readTime(block),
    linkTarget: readString(block, 157, 100, names),
  };
}

/** The number of padding bytes after a body. */
export function paddingBytes(sizeBytes: number): number {
  return (BLOCK_BYTES - (sizeBytes % BLOCK_BYTES)) % BLOCK_BYTES;
}

/** Returns the header blocks of an entry. A pax record precedes the header if a name is too long for it. */
export function writeHeader(entry: {
  readonly path: string;
  readonly typeFlag: string;
  readonly mode: number;
  readonly sizeBytes: number;
  readonly linkTarget?: string;
  readonly device?: readonly [number, number];
  readonly modifiedS?: number;
  readonly names?: NameEncoding;
}): Buffer {
  const { names = 'utf8', linkTarget = '' } = entry;
  const records: string[] = [];
  if (Buffer.byteLength(entry.path, names) > 100) records.push(paxRecord('path', entry.path, names));
  if (Buffer.byteLength(linkTarget, names) > 100) records.push(paxRecord('linkpath', linkTarget, names));
  const block = headerBlock({ ...entry, linkTarget });
  if (records.length === 0) return block;
  const body = Buffer.from(records.join(''), names);
  const pax = headerBlock({ path: 'pax', typeFlag: 'x', mode: 0o644, sizeBytes: body.length, linkTarget: '' });
  return Buffer.concat([pax, body, Buffer.alloc(paddingBytes(body.length)), block]);
}

/** Returns two blocks of zeroes, which end a tar. */
export function endMarker(): Buffer {
  return Buffer.alloc(2 * BLOCK_BYTES);
}

/** Parses the `key=value` pairs of a pax record. */
export function parsePax(body: Buffer, names: NameEncoding = 'utf8'): ReadonlyMap<string, string> {
  const values = new Map<string, string>();
  let at = 0;
  while (at < body.length) {
    const space = body.indexOf(0x20, at);
    const lengthBytes = space === -1 ? Number.NaN : Number(body.toString('latin1', at, space));
    if (!Number.isSafeInteger(lengthBytes) || lengthBytes <= space - at + 1 || at + lengthBytes > body.length)
      throw new Error('tar: a pax record has a bad length');
    const text = body.toString(names, space + 1, at + lengthBytes - 1);
    const equals = text.indexOf('=');
    if (equals > 0) values.set(text.slice(0, equals), text.slice(equals + 1));
    at += lengthBytes;
  }
  return values;
}

function headerBlock(entry: {
  readonly path: string;
  readonly typeFlag: string;
  readonly mode: number;
  readonly sizeBytes: number;
  readonly linkTarget: string;
  readonly device?: readonly [number, number];
  readonly modifiedS?: number;
  readonly names?: NameEncoding;
}): Buffer {
  const block = Buffer.alloc(BLOCK_BYTES);
  Buffer.from(entry.path, entry.names).copy(block, 0, 0, 100);
  writeOctal(block, 100, 8, entry.mode);
  writeOctal(block, 108, 8, 1000);
  writeOctal(block, 116, 8, 1000);
  if (entry.sizeBytes < 8 ** 11) writeOctal(block, 124, 12, entry.sizeBytes);
  else {
    block[124] = 0x80;
    block.writeBigUInt64BE(BigInt(entry.sizeBytes), 128);
  }
  writeOctal(block, 136, 12, entry.modifiedS ?? 0);
  block[156] = entry.typeFlag.charCodeAt(0);
  Buffer.from(entry.linkTarget, entry.names).copy(block, 157, 0, 100);
  block.write('ustar\x0000', 257, 'latin1');
  if (entry.device !== undefined) {
    writeOctal(block, 329, 8, entry.device[0]);
    writeOctal(block, 337, 8, entry.device[1]);
  }
  block.fill(0x20, 148, 156);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}

function paxRecord(key: string, value: string, names: NameEncoding): string {
  const restBytes = Buffer.byteLength(` ${key}=${value}\n`, names);
  let lengthBytes = restBytes + 1;
  while (String(lengthBytes).length + restBytes !== lengthBytes) lengthBytes = String(lengthBytes).length + restBytes;
  return `${lengthBytes} ${key}=${value}\n`;
}

function readString(block: Buffer, start: number, maxBytes: number, names: NameEncoding): string {
  const field = block.subarray(start, start + maxBytes);
  const end = field.indexOf(0);
  return field.toString(names, 0, end === -1 ? maxBytes : end);
}

function readNumber(block: Buffer, start: number, fieldBytes: number): number {
  if (((block[start] as number) & 0x80) !== 0) {
    const value = block.readBigUInt64BE(start + fieldBytes - 8);
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new Error('tar: a number is too large');
    return Number(value);
  }
  const text = block
    .toString('latin1', start, start + fieldBytes)
    .replace(/[\0 ]+$/, '')
    .trim();
  if (text === '') return 0;
  if (!/^[0-7]+$/.test(text)) throw new Error(`tar: ${JSON.stringify(text)} is not an octal number`);
  return Number.parseInt(text, 8);
}

/**
 * The format stores a time before 1970 in two's complement. This function returns 0 for it, because no reader needs it.
 */
function readTime(block: Buffer): number {
  return ((block[136] as number) & 0x80) === 0 || block[136] === 0x80 ? readNumber(block, 136, 12) : 0;
}

function writeOctal(block: Buffer, start: number, fieldBytes: number, value: number): void {
  block.write(`${value.toString(8).padStart(fieldBytes - 1, '0')}\0`, start, 'latin1');
}
