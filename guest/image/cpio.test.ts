import { describe, expect, it } from 'vitest';
import { type CpioEntry, writeCpio } from './cpio.ts';

const ENTRIES: CpioEntry[] = [
  { kind: 'folder', path: 'bin', mode: 0o755 },
  { kind: 'file', path: 'bin/tool', mode: 0o755, content: Buffer.from('12345') },
  { kind: 'link', path: 'bin/name', target: '/bin/tool' },
];

/** Reads the fields of one record according to the format: thirteen fields of eight hex digits after the magic. */
function readRecord(
  archive: Buffer,
  offset: number,
): { name: string; fields: number[]; content: string; next: number } {
  const fields = Array.from({ length: 13 }, (_, index) =>
    Number.parseInt(archive.toString('ascii', offset + 6 + index * 8, offset + 14 + index * 8), 16),
  );
  const nameEnd = offset + 110 + (fields[11] ?? 0);
  const contentStart = nameEnd + ((4 - (nameEnd % 4)) % 4);
  const contentEnd = contentStart + (fields[6] ?? 0);
  return {
    name: archive.toString('utf8', offset + 110, nameEnd - 1),
    fields,
    content: archive.toString('utf8', contentStart, contentEnd),
    next: contentEnd + ((4 - (contentEnd % 4)) % 4),
  };
}

describe('writeCpio', () => {
  it('gives the same bytes whatever the order of the entries', () => {
    expect(writeCpio([...ENTRIES].reverse()).equals(writeCpio(ENTRIES))).toBe(true);
  });

  it('writes records in the order of paths, owned by root, without times', () => {
    const archive = writeCpio(ENTRIES);
    const folder = readRecord(archive, 0);
    const link = readRecord(archive, folder.next);
    const file = readRecord(archive, link.next);
    const trailer = readRecord(archive, file.next);
    expect([folder.name, link.name, file.name, trailer.name]).toEqual(['bin', 'bin/name', 'bin/tool', 'TRAILER!!!']);
    expect(folder.fields.slice(0, 7)).toEqual([1, 0o040755, 0, 0, 2, 0, 0]);
    expect(link.fields.slice(0, 7)).toEqual([2, 0o120777, 0, 0, 1, 0, 9]);
    expect(file.fields.slice(0, 7)).toEqual([3, 0o100755, 0, 0, 1, 0, 5]);
    expect([link.content, file.content]).toEqual(['/bin/tool', '12345']);
    expect(trailer.next).toBe(archive.length);
  });

  it('refuses two entries of one name and paths that leave the archive', () => {
    const folder: CpioEntry = { kind: 'folder', path: 'bin', mode: 0o755 };
    expect(() => writeCpio([folder, folder])).toThrow('two entries of the archive are named "bin"');
    expect(() => writeCpio([{ ...folder, path: '/bin' }])).toThrow('not a path inside the archive');
    expect(() => writeCpio([{ ...folder, path: 'a/../../b' }])).toThrow('not a path inside the archive');
  });
});
