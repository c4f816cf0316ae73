/** Writes the archive format that the kernel unpacks as its first root: cpio, "newc". */

export type CpioEntry =
  | { readonly kind: 'folder'; readonly path: string; readonly mode: number }
  | { readonly kind: 'file'; readonly path: string; readonly mode: number; readonly content: Uint8Array }
  | { readonly kind: 'link'; readonly path: string; readonly target: string };

const TYPE_BITS = { folder: 0o040000, file: 0o100000, link: 0o120000 } as const;
const TRAILER = 'TRAILER!!!';
const ALIGNMENT = 4;

/**
 * Writes an archive of the entries. They belong to root, have a time of zero, and are numbered in the order of their
 * paths, so that equal entries give equal bytes. Paths are relative.
 */
export function writeCpio(entries: readonly CpioEntry[]): Buffer {
  const sorted = [...entries].sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
  const parts: Buffer[] = [];
  for (const [index, entry] of sorted.entries()) {
    if (sorted[index + 1]?.path === entry.path) throw new Error(`two entries of the archive are named "${entry.path}"`);
    if (entry.path.startsWith('/') || entry.path.split('/').includes('..'))
      throw new Error(`"${entry.path}" is not a path inside the archive`);
    const content = contentOf(entry);
    const mode = TYPE_BITS[entry.kind] | (entry.kind === 'link' ? 0o777 : entry.mode);
    appendRecord(parts, { inode: index + 1, mode, links: entry.kind === 'folder' ? 2 : 1, path: entry.path, content });
  }
  appendRecord(parts, { inode: 0, mode: 0, links: 1, path: TRAILER, content: Buffer.alloc(0) });
  return Buffer.concat(parts);
}

function contentOf(entry: CpioEntry): Uint8Array {
  switch (entry.kind) {
    case 'folder':
      return Buffer.alloc(0);
    case 'file':
      return entry.content;
    case 'link':
      return Buffer.from(entry.target);
  }
}

interface CpioRecord {
  readonly inode: number;
  readonly mode: number;
  readonly links: number;
  readonly path: string;
  readonly content: Uint8Array;
}

function appendRecord(parts: Buffer[], record: CpioRecord): void {
  const name = Buffer.from(`${record.path}\0`);
  // inode, mode, uid, gid, links, mtime, size, device (2), node's own device (2), length of the name, checksum
  const fields = [record.inode, record.mode, 0, 0, record.links, 0, record.content.length, 0, 0, 0, 0, name.length, 0];
  const header = Buffer.from(`070701${fields.map((field) => field.toString(16).padStart(8, '0')).join('')}`, 'ascii');
  parts.push(header, name, padding(header.length + name.length));
  parts.push(Buffer.from(record.content), padding(record.content.length));
}

function padding(length: number): Buffer {
  return Buffer.alloc((ALIGNMENT - (length % ALIGNMENT)) % ALIGNMENT);
}
