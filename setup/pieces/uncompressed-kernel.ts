/** Extracts the ELF file from a compressed kernel. An emulated CPU takes longer to unpack a kernel than to boot it. */
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { decompress } from 'fzstd';

/** The limit of the unpacked size, in bytes; Debian's kernel has 58 MB. */
const MOST_BYTES = 256 * 1024 * 1024;

/** Offsets of the x86 boot protocol (Documentation/arch/x86/boot.rst), in bytes. */
const SETUP_SECTORS = 0x1f1;
const MAGIC = { at: 0x202, text: 'HdrS' } as const;
const PAYLOAD_OFFSET = 0x248;
const PAYLOAD_BYTES = 0x24c;
const HEADER_BYTES = 0x268;
const SECTOR_BYTES = 512;

const ZSTD_MAGIC = 0xfd2fb528;
const GZIP_MAGIC = 0x8b1f;
const ELF_MAGIC = 0x464c457f;
const NOTE_SEGMENT = 4;
/** XEN_ELFNOTE_PHYS32_ENTRY: the address at which a VMM without firmware enters (PVH). */
const PVH_ENTRY = 18;

/** The name of the unpacked kernel, in the folder of the packed one. */
const UNCOMPRESSED = 'vmlinux';

/** Writes the kernel of the image as an ELF file next to it, if the image contains one. */
export async function writeUncompressed(image: string): Promise<void> {
  const kernel = unpackKernel(await readFile(image));
  if (kernel !== null) await writeFile(join(dirname(image), UNCOMPRESSED), kernel);
}

/** Returns the path of the same kernel as an ELF file; null if the folder lacks it. */
export function findUncompressed(image: string): string | null {
  const path = join(dirname(image), UNCOMPRESSED);
  return existsSync(path) ? path : null;
}

/**
 * @returns the kernel as an ELF file that a VMM enters directly; null if the image is packed by neither zstd nor gzip, is
 * damaged, or has no such entry: the VMM then boots the image itself
 */
export function unpackKernel(image: Buffer, mostBytes = MOST_BYTES): Buffer | null {
  const packed = payloadOf(image);
  if (packed === null || packed.length < 8) return null;
  try {
    const kernel = unpackPayload(packed, mostBytes);
    return kernel !== null && hasPvhEntry(kernel) ? kernel : null;
  } catch {
    return null;
  }
}

/** @throws Error if it is damaged */
function unpackPayload(packed: Buffer, mostBytes: number): Buffer | null {
  if (packed.readUInt16LE(0) === GZIP_MAGIC) return gunzipSync(packed, { maxOutputLength: mostBytes });
  if (packed.readUInt32LE(0) !== ZSTD_MAGIC) return null;
  // The build appends the size to the output of zstd.
  const sizeBytes = packed.readUInt32LE(packed.length - 4);
  if (sizeBytes > mostBytes) return null;
  const kernel = Buffer.alloc(sizeBytes);
  decompress(packed.subarray(0, -4), kernel);
  return kernel;
}

function payloadOf(image: Buffer): Buffer | null {
  if (image.length < HEADER_BYTES || image.toString('latin1', MAGIC.at, MAGIC.at + 4) !== MAGIC.text) return null;
  // 0 means 4, a value from the days of floppies.
  const start = ((image[SETUP_SECTORS]! || 4) + 1) * SECTOR_BYTES + image.readUInt32LE(PAYLOAD_OFFSET);
  const end = start + image.readUInt32LE(PAYLOAD_BYTES);
  return end > image.length ? null : image.subarray(start, end);
}

/** @throws RangeError if it is not a complete ELF file */
function hasPvhEntry(kernel: Buffer): boolean {
  if (kernel.readUInt32LE(0) !== ELF_MAGIC) return false;
  const table = Number(kernel.readBigUInt64LE(0x20));
  const [entryBytes, entries] = [kernel.readUInt16LE(0x36), kernel.readUInt16LE(0x38)];
  for (let at = table; at < table + entries * entryBytes; at += entryBytes) {
    if (kernel.readUInt32LE(at) !== NOTE_SEGMENT) continue;
    const start = Number(kernel.readBigUInt64LE(at + 0x08));
    const end = start + Number(kernel.readBigUInt64LE(at + 0x20));
    if (hasNote(kernel, start, end)) return true;
  }
  return false;
}

function hasNote(kernel: Buffer, start: number, end: number): boolean {
  const padded = (bytes: number): number => Math.ceil(bytes / 4) * 4;
  for (let at = start; at + 12 <= end;) {
    const [nameBytes, valueBytes, type] = [0, 4, 8].map((offset) => kernel.readUInt32LE(at + offset)) as [
      number,
      number,
      number,
    ];
    if (type === PVH_ENTRY && kernel.toString('latin1', at + 12, at + 16) === 'Xen\0') return true;
    at += 12 + padded(nameBytes) + padded(valueBytes);
  }
  return false;
}
