/** Files that a user names on a command line: pipes of the shell on purpose, and pipes of a cloned project. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makeBlockingPipe, PIPE_ENDS_MS } from '../test/rig/vms/blocking-pipe.ts';
import { isOwnDescriptor, readNamedFile } from './named-file.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-named-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

test('a file and a link to a file are read, up to the limit', () => {
  writeFileSync(join(dir, 'file'), 'text');
  symlinkSync('file', join(dir, 'link'));
  expect(readNamedFile(join(dir, 'file'), 4).toString()).toBe('text');
  expect(readNamedFile(join(dir, 'link'), 4).toString()).toBe('text');
  expect(() => readNamedFile(join(dir, 'file'), 3)).toThrow('it has 4 bytes, at most 3 are read');
});

test('the null device is empty, also by a link', () => {
  symlinkSync('/dev/null', join(dir, 'link'));
  expect(readNamedFile('/dev/null', 4)).toHaveLength(0);
  expect(readNamedFile(join(dir, 'link'), 4)).toHaveLength(0);
});

test('a named pipe is refused at once, with the way to read it', () => {
  const end = makeBlockingPipe(join(dir, 'pipe'));
  const startedMs = Date.now();
  expect(() => readNamedFile(join(dir, 'pipe'), 4)).toThrow('it is a pipe and no file; name a file, or use <(cat …)');
  expect(Date.now() - startedMs).toBeLessThan(PIPE_ENDS_MS / 2);
  end();
});

test('a link to a device is refused', () => {
  symlinkSync('/dev/zero', join(dir, 'link'));
  expect(() => readNamedFile(join(dir, 'link'), 4)).toThrow('it is a device and no file');
});

test('a folder and a link without an end are refused without the advice for pipes', () => {
  symlinkSync('loop', join(dir, 'loop'));
  symlinkSync('.', join(dir, 'here'));
  for (const name of ['.', 'here'])
    expect(() => readNamedFile(join(dir, name), 4)).toThrow(/^it is a folder and no file; name a file in it$/);
  expect(() => readNamedFile(join(dir, 'loop'), 4)).toThrow(/^it is a link that leads nowhere$/);
});

test('only descriptors of the process itself may be pipes', () => {
  for (const path of ['/dev/stdin', '/dev/fd/63', '/proc/self/fd/0']) expect(isOwnDescriptor(path), path).toBe(true);
  for (const path of ['/dev/fd', '/dev/fd/3/file', '/proc/1/fd/0', '/dev/stdin/x', '/x/dev/fd/3', '/dev/zero'])
    expect(isOwnDescriptor(path), path).toBe(false);
});

const MODULE = fileURLToPath(new URL('../dist/files/named-file.js', import.meta.url));
const PROGRAM = `import { readNamedFile } from ${JSON.stringify(MODULE)};
try { process.stdout.write(readNamedFile(process.argv[1], 100_000)); } catch (error) { process.stdout.write(error.message); }`;

/** @param line  of bash; `read_it` prints the file that its argument names */
function typed(line: string): Promise<string> {
  const env = { ...process.env, NODE: process.execPath, PROGRAM };
  const script = `read_it() { "$NODE" --input-type=module -e "$PROGRAM" "$1"; }\n${line}`;
  return new Promise((resolve, reject) => {
    execFile('bash', ['-c', script], { env, timeout: 20_000 }, (error, stdout) =>
      error === null ? resolve(stdout) : reject(error),
    );
  });
}

test('the shell’s pipes are read to their end, also by a slow writer, and no further than the limit', async () => {
  expect(await typed('read_it <(printf a; sleep 0.3; printf b)')).toBe('ab');
  expect(await typed('printf piped | read_it /dev/stdin')).toBe('piped');
  expect(
    await typed(
      'printf here > "$0.txt"; read_it /proc/self/fd/0 < "$0.txt"; rm "$0.txt"'.replaceAll('$0', join(dir, 'in')),
    ),
  ).toBe('here');
  expect(await typed('read_it <(cat /dev/zero) 2>&1')).toBe('it has more than 100000 bytes');
});
