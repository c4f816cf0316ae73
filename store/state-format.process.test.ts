/** Processes that use a new state folder at the same moment. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { findPackageRoot } from '../setup/package-root.ts';

const MODULE = pathToFileURL(join(findPackageRoot(), 'dist/store/state-format.js')).href;
/** Each uses many folders in one order, from one moment on, and puts contents into each at once. */
const SCRIPT = `
const { mkdirSync } = await import('node:fs');
const { keepStateFormat } = await import(process.argv[1]);
const [dir, count, atMs] = process.argv.slice(2);
while (Date.now() < Number(atMs));
for (let at = 0; at < Number(count); at += 1) {
  keepStateFormat(dir + '/' + at);
  mkdirSync(dir + '/' + at + '/runs', { recursive: true });
}
`;

test('all processes find the same number, none is refused, and none leaves a file', { timeout: 300_000 }, async () => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-at-once-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const args = ['--input-type=module', '-e', SCRIPT, MODULE, dir, '100', String(Date.now() + 1_500)];
  const children = Array.from({ length: 4 }, () =>
    promisify(execFile)(process.execPath, args, { timeout: 50_000 }).then(({ stderr }) => stderr),
  );
  expect(await Promise.all(children)).toEqual(['', '', '', '']);
  for (let at = 0; at < 100; at += 1) {
    expect(readdirSync(join(dir, String(at))).sort()).toEqual(['runs', 'state-format']);
    expect(readFileSync(join(dir, String(at), 'state-format'), 'utf8')).toBe('1\n');
  }
});
