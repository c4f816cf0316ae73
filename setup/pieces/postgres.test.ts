import { mkdirSync, mkdtempSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makeLinks } from './postgres.ts';

let folder: string;
let root: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-postgres-links-'));
  root = join(folder, 'package');
  mkdirSync(join(root, 'lib'), { recursive: true });
  writeFileSync(join(root, 'lib', 'libpq.so.5.18'), 'library');
  writeFileSync(join(folder, 'outside'), 'not of the package');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const link = (entries: unknown): Promise<void> => makeLinks(root, JSON.stringify(entries), 'acme@1');

test('links are relative, so that a copy of the folder has them too', async () => {
  await link([
    { source: 'lib/libpq.so.5.18', target: 'lib/libpq.so.5' },
    { source: 'lib/libpq.so.5.18', target: 'share/deep/libpq.so' },
  ]);
  expect(readlinkSync(join(root, 'lib', 'libpq.so.5'))).toBe('libpq.so.5.18');
  expect(readlinkSync(join(root, 'share', 'deep', 'libpq.so'))).toBe('../../lib/libpq.so.5.18');
});

test.each([
  ['an absolute target', { source: 'lib/libpq.so.5.18', target: '/tmp/x' }],
  ['an absolute source', { source: '/etc/passwd', target: 'lib/x' }],
  ['a source above the package', { source: '../outside', target: 'lib/x' }],
  ['a target above the package', { source: 'lib/libpq.so.5.18', target: '../x' }],
  ['a path that leads up in its middle', { source: 'lib/../../outside', target: 'lib/x' }],
  ['a source that does not exist', { source: 'lib/none', target: 'lib/x' }],
  ['a source that is a folder', { source: 'lib', target: 'x' }],
  ['a zero byte', { source: 'lib/libpq.so.5.18', target: 'lib/x\0' }],
  ['the package itself as a target', { source: 'lib/libpq.so.5.18', target: '.' }],
  ['an entry without a target', { source: 'lib/libpq.so.5.18' }],
])('%s is refused', async (_what, entry) => {
  await expect(link([entry])).rejects.toThrow('acme@1 has a list of links that Voidbox does not accept');
});

test('a link below a folder that leads out of the package is refused', async () => {
  symlinkSync(folder, join(root, 'out'));
  await expect(link([{ source: 'lib/libpq.so.5.18', target: 'out/x' }])).rejects.toThrow('does not accept');
});

test('a source that is a link is refused, because links of links may lead out', async () => {
  symlinkSync(join(folder, 'outside'), join(root, 'lib', 'linked'));
  await expect(link([{ source: 'lib/linked', target: 'lib/x' }])).rejects.toThrow('does not accept');
});

test('a list that is no list, has another form or is too long is refused', async () => {
  await expect(makeLinks(root, '{', 'acme@1')).rejects.toThrow('text that is not JSON');
  await expect(link({})).rejects.toThrow('no list');
  await expect(link([null])).rejects.toThrow('does not accept: null');
  const entry = { source: 'lib/libpq.so.5.18', target: 'lib/x' };
  await expect(link(Array.from({ length: 1_001 }, () => entry))).rejects.toThrow('a too long one');
});
