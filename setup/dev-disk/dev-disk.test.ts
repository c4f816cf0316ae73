import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { findPackageRoot } from '../package-root.ts';
import { checkAgainstLock, parseLock, parsePackageList } from './debian-packages.ts';
import { parseUsedInodes } from './ext4.ts';

const FOLDER = join(findPackageRoot(), 'guest', 'dev-image');
const LOCK = {
  suite: 'trixie',
  packages: [{ name: 'jq', version: '1.7.1-6', sha256: 'a'.repeat(64) }],
} as const;

it('the lock names every package of the list once, with its hash', () => {
  const lock = parseLock(readFileSync(join(FOLDER, 'lock.json'), 'utf8'));
  const names = lock.packages.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  expect(parsePackageList(readFileSync(join(FOLDER, 'packages.txt'), 'utf8'), 'packages.txt')).toSatisfy(
    (listed: readonly string[]) => listed.length > 20 && listed.every((name) => names.includes(name)),
  );
  for (const { sha256, version } of lock.packages) {
    expect(sha256).toMatch(/^[0-9a-f]{64}$/);
    expect(version).toMatch(/^[0-9A-Za-z.+:~-]+$/);
  }
});

it('a list has one name a line, and the line that has another text is named', () => {
  expect(parsePackageList('jq\n\n# a comment\n g++ # another\nlibc6\n', '/f')).toEqual(['jq', 'g++', 'libc6']);
  for (const wrong of ['jq=1.7', 'jq make', '-o=Dpkg::Pre-Invoke=x', 'JQ', '/x'])
    expect(() => parsePackageList(`jq\n${wrong}\n`, '/f')).toThrow(`/f:2: ${JSON.stringify(wrong)} is not the name`);
});

it('a file of the mirror that is another than the locked one is refused', () => {
  expect(() => checkAgainstLock(LOCK.packages, LOCK)).not.toThrow();
  const other = [{ ...LOCK.packages[0], sha256: 'b'.repeat(64) }];
  expect(() => checkAgainstLock(other, LOCK)).toThrow("The mirror's jq 1.7.1-6 is not the package");
  expect(() => checkAgainstLock([{ ...LOCK.packages[0], name: 'yq' }], LOCK)).toThrow('and none is expected');
});

it('what is no lock is refused', () => {
  expect(parseLock(JSON.stringify(LOCK))).toEqual(LOCK);
  for (const wrong of [null, [], {}, { ...LOCK, suite: 'sid' }, { ...LOCK, packages: [{ name: 'jq' }] }])
    expect(() => parseLock(JSON.stringify(wrong))).toThrow(/lock/);
});

it('inodes that are in use are those that dumpe2fs does not call free', () => {
  const group = (free: string): string => `Group 0: (Blocks 0-1)\n  Free blocks: 7-9\n  Free inodes: ${free}\n`;
  const text = `Inode count:              32\nFirst inode:              11\n${group('13, 15-16')}${group('18-32')}${group('')}`;
  expect(parseUsedInodes(text)).toEqual([2, 11, 12, 14, 17]);
  expect(() => parseUsedInodes('')).toThrow('dumpe2fs');
});
