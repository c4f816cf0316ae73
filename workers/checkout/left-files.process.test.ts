/** The files of a guest without git as a commit: compared with the base, and refused if no commit may have them. */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { importFiles } from '../../git/commit-files.ts';
import type { Changes } from '../../git/import-changes.ts';
import { packRepository } from '../../git/pack-repository.ts';
import type { GitHost } from '../../git/run-git.ts';
import { endMarker, paddingBytes, writeHeader } from '../../tar/entry.ts';
import { readLeftFiles } from './left-files.ts';

let folder: string;
let repo: string;
let host: GitHost;
let base: Buffer;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'left-files-test-'));
  repo = join(folder, 'repo');
  host = { path: '/usr/local/bin:/usr/bin:/bin', home: null, scratch: join(folder, 'scratch') };
  mkdirSync(join(folder, 'scratch'));
  mkdirSync(repo);
  git('init', '-q', '-b', 'main');
  mkdirSync(join(repo, 'a'));
  put('a/kept.txt', 'kept\n');
  put('gone.txt', 'gone\n');
  put('run.sh', '#!/bin/sh\n');
  put('.gitignore', '*.log\n/built/\n');
  put('tracked.log', 'tracked\n');
  git('add', '-f', '.');
  git('commit', '-qm', 'first');
  const request = { folder: repo, ref: null, includeDirty: false, mayRead: () => true };
  base = (await packRepository(host, request, bytesOf)).bundle;
  // A guest without git gets no `.git`.
  renameSync(join(repo, '.git'), join(folder, 'git'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function git(...args: readonly string[]): void {
  const env = { PATH: host.path, HOME: folder, GIT_CONFIG_NOSYSTEM: '1' };
  execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd: repo, env, stdio: 'pipe' });
}

function put(path: string, text: string): void {
  writeFileSync(join(repo, path), text);
}

async function bytesOf(bytes: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const chunk of bytes) parts.push(chunk);
  return Buffer.concat(parts);
}

async function* once(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes;
}

async function take(tar: Buffer): Promise<Changes<Buffer>> {
  const files = readLeftFiles(once(tar));
  return await importFiles(host, { base: once(base), files, message: 'Not committed' }, bytesOf);
}

function tarOfRepo(): Buffer {
  return execFileSync('tar', ['-cf', '-', '.'], { cwd: repo, maxBuffer: 64 * 1024 * 1024 });
}

async function patchOf(tar: Buffer): Promise<string> {
  return (await take(tar)).patch.toString('latin1');
}

it('files that did not change leave no commit', async () => {
  const taken = await take(tarOfRepo());
  expect([taken.files, taken.isNew, taken.patch.length, taken.bundle.length]).toEqual([0, false, 0, 0]);
});

it('changed, new, deleted and executable files, links and second names of a file are in one commit', async () => {
  unlinkSync(join(repo, 'gone.txt'));
  chmodSync(join(repo, 'run.sh'), 0o755);
  put('a/kept.txt', 'changed\n');
  put('blob', '\0\r\n');
  mkdirSync(join(repo, 'a "b"\\'));
  put('a "b"\\/new\nline', 'odd name\n');
  put(`a/${'long'.repeat(60)}`, 'long name\n');
  linkSync(join(repo, 'a/kept.txt'), join(repo, 'twice.txt'));
  symlinkSync('a/kept.txt', join(repo, 'link'));
  execFileSync('mkfifo', [join(repo, 'pipe')]);
  const taken = await take(tarOfRepo());
  expect([taken.files, taken.isNew]).toEqual([8, true]);
  const patch = taken.patch.toString('latin1');
  expect(patch).toMatch(/-kept\n\+changed\n/);
  expect(patch).toMatch(/old mode 100644\nnew mode 100755\n/);
  expect(patch).toContain('deleted file mode 100644');
  expect(patch).toContain('+++ "b/a \\"b\\"\\\\/new\\nline"');
  expect(patch).toMatch(/new file mode 120000[^]*\+a\/kept\.txt/);
  renameSync(join(folder, 'git'), join(repo, '.git'));
  git('checkout', '-q', '--force', 'main', '--', '.');
  rmSync(join(repo, 'pipe'));
  for (const name of ['blob', 'twice.txt', 'link', 'a "b"\\/new\nline', `a/${'long'.repeat(60)}`])
    rmSync(join(repo, name));
  const file = join(folder, 'patch');
  writeFileSync(file, taken.patch);
  git('apply', file);
  expect(execFileSync('cat', ['twice.txt', 'link', 'a "b"\\/new\nline'], { cwd: repo, encoding: 'utf8' })).toBe(
    'changed\nchanged\nodd name\n',
  );
});

it('files that a .gitignore of the guest ignores are left out, and those of the base stay', async () => {
  put('a/new.log', 'no\n');
  mkdirSync(join(repo, 'built'));
  put('built/out', 'no\n');
  put('tracked.log', 'yes\n');
  put('a/.gitignore', 'also-ignored\n');
  put('a/also-ignored', 'no\n');
  put('also-ignored', 'yes\n');
  const patch = await patchOf(tarOfRepo());
  expect([...patch.matchAll(/^\+\+\+ b\/(.*)$/gm)].map(([, name]) => name)).toEqual([
    'a/.gitignore',
    'also-ignored',
    'tracked.log',
  ]);
});

interface Entry {
  readonly path: string;
  readonly typeFlag?: string;
  readonly linkTarget?: string;
  readonly text?: string;
}

function tarOf(...entries: readonly Entry[]): Buffer {
  const parts = entries.flatMap(({ path, typeFlag = '0', linkTarget = '', text = '' }) => [
    writeHeader({ path, typeFlag, linkTarget, mode: 0o644, sizeBytes: text.length, names: 'latin1' }),
    Buffer.from(text),
    Buffer.alloc(paddingBytes(text.length)),
  ]);
  return Buffer.concat([...parts, endMarker()]);
}

it.each<[string, () => Buffer, RegExp]>([
  ['a name above the folder', () => tarOf({ path: '../x' }), /"\.\.\/x" is not a name within the repository/],
  ['an absolute name', () => tarOf({ path: '/etc/x' }), /is not a name within the repository/],
  ['a git folder', () => tarOf({ path: './.git/config', text: 'x' }), /is a name of git's own/],
  ['a git folder of another file system', () => tarOf({ path: 'a/GIT~1/config' }), /git refuses/],
  ['a second name of a file elsewhere', () => tarOf({ path: 'x', typeFlag: '1', linkTarget: '/etc/passwd' }), /within/],
  ['a second name of no file', () => tarOf({ path: 'x', typeFlag: '1', linkTarget: 'nix' }), /git refuses/],
  ['a link as its rules of git', () => tarOf({ path: '.gitmodules', typeFlag: '2', linkTarget: 'x' }), /git refuses/],
  ['a tar without its end', () => tarOf({ path: 'x', text: 'x' }).subarray(0, 700), /cut short/],
  ['text that is no tar', () => Buffer.alloc(1024, 'x'), /octal/],
])('%s is refused', async (_what, tar, problem) => {
  await expect(take(tar())).rejects.toThrow(problem);
  await expect(take(tar())).rejects.toHaveProperty('name', 'RefusedChanges');
});
