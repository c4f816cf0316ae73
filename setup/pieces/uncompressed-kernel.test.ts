import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { unpackKernel } from './uncompressed-kernel.ts';

const PVH_ENTRY = 18;

/** An ELF file with a segment of notes, in which another note precedes the wanted one. */
function elf(noteType = PVH_ENTRY, owner = 'Xen\0'): Buffer {
  const file = Buffer.alloc(0xc0);
  file.write('\x7fELF', 0, 'latin1');
  file.writeBigUInt64LE(0x40n, 0x20);
  file.writeUInt16LE(0x38, 0x36);
  file.writeUInt16LE(1, 0x38);
  file.writeUInt32LE(4, 0x40);
  file.writeBigUInt64LE(0x80n, 0x48);
  file.writeBigUInt64LE(0x30n, 0x60);
  const note = (at: number, name: string, type: number): void => {
    file.writeUInt32LE(name.length, at);
    file.writeUInt32LE(5, at + 4);
    file.writeUInt32LE(type, at + 8);
    file.write(name, at + 12, 'latin1');
  };
  note(0x80, 'Xen\0', 6);
  note(0x98, owner, noteType);
  return file;
}

/** A frame of zstd with one uncompressed block. */
function zstd(bytes: Buffer): Buffer {
  const head = Buffer.alloc(12);
  head.writeUInt32LE(0xfd2fb528, 0);
  head[4] = 0xa0;
  head.writeUInt32LE(bytes.length, 5);
  head.writeUIntLE((bytes.length << 3) | 1, 9, 3);
  return Buffer.concat([head, bytes]);
}

/** An image of gzip, whose size is a part of its own format. */
function gzipImage(kernel: Buffer): Buffer {
  const packed = gzipSync(kernel);
  return image(packed, { payloadBytes: packed.length });
}

function image(packed: Buffer, { sizeBytes = 0xc0, payloadBytes = packed.length + 4 } = {}): Buffer {
  const header = Buffer.alloc(5 * 512);
  header.write('HdrS', 0x202, 'latin1');
  header.writeUInt32LE(payloadBytes, 0x24c);
  const size = Buffer.alloc(4);
  size.writeUInt32LE(sizeBytes);
  return Buffer.concat([header, packed, size]);
}

/** Changes the last byte of the kernel's checksum. */
function damage(packed: Buffer): Buffer {
  const at = packed.length - 4 - 5;
  packed[at] = packed[at]! ^ 1;
  return packed;
}

test('the kernel in an image that zstd has packed', () => {
  expect(unpackKernel(image(zstd(elf())))).toEqual(elf());
});

test('the kernel in an image that gzip has packed', () => {
  expect(unpackKernel(gzipImage(elf()))).toEqual(elf());
});

test.each([
  ['zstd', image(zstd(elf()))],
  ['gzip', gzipImage(elf())],
])('unpackKernel returns null for an image whose %s unpacks to more than the limit', (_packer, packed) => {
  expect(unpackKernel(packed, 0xbf)).toBeNull();
  expect(unpackKernel(packed, 0xc0)).not.toBeNull();
});

test.each([
  ['is no kernel', Buffer.alloc(4_096)],
  ['is cut within its header', image(zstd(elf())).subarray(0, 0x260)],
  ['is cut within its payload', image(zstd(elf())).subarray(0, -1)],
  ['is packed by something else', image(Buffer.from('\xfd7zXZ\0 and more', 'latin1'))],
  ['is larger than it says', image(zstd(elf()), { sizeBytes: 0xb0 })],
  ['says that it has gigabytes', image(zstd(elf()), { sizeBytes: 0xffff_ffff })],
  ['holds no ELF file', image(zstd(Buffer.alloc(0xc0)))],
  ['holds an ELF file whose notes lie behind its end', image(zstd(elf().subarray(0, 0x90)), { sizeBytes: 0x90 })],
  ['is packed by gzip and damaged', damage(gzipImage(elf()))],
  ['has no entry for a VMM', image(zstd(elf(7)))],
  ['has an entry of another owner', image(zstd(elf(PVH_ENTRY, 'Lin\0')))],
])('unpackKernel returns null for an image that %s', (_what, damaged) => {
  expect(unpackKernel(damaged)).toBeNull();
});
