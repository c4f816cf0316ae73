/** Leaves checkpoints with memory as `voidbox-vmm` writes them, whose VM never ran: each link has one changed page. */
import { Buffer } from 'node:buffer';
import { closeSync, ftruncateSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { type CheckpointRecord, nameLinkFiles } from '../../../domain/run/checkpoint.ts';

export const CHAIN_MEMORY_MIB = 64;
export const PAGE_BYTES = 4096;
const MAGIC = Buffer.from('VBXSTATE');
/** `VERSION` of native/vmm/src/state.rs. */
const VERSION = 3;
/** The fields of a VM behind the head, which a merge copies. */
const REST = Buffer.from('fields of a VM');

export const nameState = (number: number): string => String(number).padStart(32, '0');

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function crc32(bytes: Uint8Array): number {
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ~sum >>> 0;
}

/** The content of page `number` as link `number` writes it. */
export function makePage(number: number): Buffer {
  return Buffer.alloc(PAGE_BYTES, number + 1);
}

/** A state as native/vmm/src/snapshot/head.rs reads it. The name is a number in the order of its bytes. */
export function makeState(number: number, isBase: boolean): Buffer {
  const encodeName = (at: number): Buffer => Buffer.from(nameState(at), 'hex').reverse();
  const template = Buffer.from('host');
  const memoryBytes = Buffer.alloc(8);
  memoryBytes.writeBigUInt64LE(BigInt(CHAIN_MEMORY_MIB) << 20n);
  const difference = isBase
    ? [Buffer.of(0)]
    : [Buffer.of(1), encodeName(number - 1), u32(crc32(makePage(number))), u32(1), u32(number), u32(1)];
  const rest = Buffer.concat([memoryBytes, u32(template.length), template, encodeName(number), ...difference, REST]);
  return Buffer.concat([MAGIC, u32(VERSION), u32(rest.length), u32(crc32(rest)), rest]);
}

function leaveMemory(path: string, pages: readonly (readonly [number, Buffer])[]): void {
  const file = openSync(path, 'wx', 0o600);
  try {
    ftruncateSync(file, CHAIN_MEMORY_MIB << 20);
    for (const [at, bytes] of pages) writeSync(file, bytes, 0, bytes.length, at * PAGE_BYTES);
  } finally {
    closeSync(file);
  }
}

export interface LeftChain {
  readonly links: number;
  /** The pages of the base behind those that the links change. */
  readonly moreBasePages?: number;
  readonly name?: string;
  readonly usedBytes?: number;
}

/** Page `n` has the content of link `n`. The base has its own content in each page. */
export function leaveChain(
  dir: string,
  { links, moreBasePages = 0, name, usedBytes = 100_000 }: LeftChain,
): CheckpointRecord {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const names = Array.from({ length: links }, (_, at) => nameLinkFiles(at));
  for (const [at, { state, memory }] of names.entries()) {
    writeFileSync(join(dir, state), makeState(at, at === 0), { mode: 0o600 });
    const base = Array.from({ length: links + moreBasePages }, (_, page) => [page, makePage(0)] as const);
    leaveMemory(join(dir, memory), at === 0 ? base : [[at, makePage(at)]]);
  }
  writeFileSync(join(dir, 'disk'), 'a disk', { mode: 0o600 });
  const record: CheckpointRecord = {
    v: 1,
    id: 'c0'.repeat(32),
    ...(name === undefined ? {} : { name }),
    createdAtMs: 1,
    diskMib: 64,
    usedBytes,
    vmm: 'vmm',
    root: null,
    kernelKind: 'voidbox',
    withSecrets: false,
    memory: { links: names.map((_, at) => nameState(at)), memoryMib: CHAIN_MEMORY_MIB, vcpus: 1, hasMounts: false },
  };
  writeFileSync(join(dir, 'checkpoint.json'), `${JSON.stringify(record)}\n`, { mode: 0o600 });
  return record;
}
