/**
 * Attacks of a guest on repositories of git in a writable mount. A second folder acts as the guest; git of this machine
 * shows the result.
 */
import { Buffer } from 'node:buffer';
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { CopiedBack, MountKey, WritableMounts } from '../../activities/ports/mounts.ts';
import { writeTar, type TarItem } from '../../tar/write.ts';
import { createWritableMounts } from './writable-mounts.ts';

let base: string;
let host: string;
let guest: string;
let mounts: WritableMounts;

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-git-data-')));
  [host, guest] = [join(base, 'host'), join(base, 'guest')];
  mkdirSync(host);
  mounts = createWritableMounts((runId) => join(base, 'state', runId));
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

function keyOf(options: Partial<MountKey> = {}): MountKey {
  return { runId: 'run', scope: 'scope', guestPath: '/data', hostPath: host, ...options };
}

async function boot(key = keyOf()): Promise<void> {
  rmSync(guest, { recursive: true, force: true });
  mkdirSync(guest);
  const limits = { maxBytes: 64 * 1024 * 1024 };
  const parts: Uint8Array[] = [];
  for await (const part of await mounts.capture(key, limits, new AbortController().signal)) parts.push(part);
  execFileSync('tar', ['-xf', '-', '--no-same-owner', '-C', guest], { input: Buffer.concat(parts) });
}

function copyBack(key = keyOf()): Promise<CopiedBack> {
  const items: TarItem[] = [];
  const add = (inside: string): void => {
    for (const name of readdirSync(join(guest, inside))) {
      const path = join(inside, name);
      const stat = lstatSync(join(guest, path));
      const mode = stat.mode & 0o777;
      if (stat.isSymbolicLink()) items.push({ kind: 'symlink', path, target: readlinkSync(join(guest, path)) });
      else if (stat.isFile()) items.push({ kind: 'file', path, mode, body: readFileSync(join(guest, path)) });
      else {
        items.push({ kind: 'dir', path, mode });
        add(path);
      }
    }
  };
  add('');
  return mounts.copyBack(key, writeTar(items));
}

function write(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
}

const ENV = { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent', GIT_CONFIG_NOSYSTEM: '1' };

function git(folder: string, ...args: string[]): string {
  return execFileSync('git', ['-C', folder, ...args], {
    encoding: 'utf8',
    env: ENV,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
}

/** A repository with a commit. */
function makeRepository(folder: string, ...options: string[]): void {
  mkdirSync(folder, { recursive: true });
  git(folder, 'init', '-q', ...options);
  if (options.includes('--bare')) return;
  write(folder, { tracked: 'tracked' });
  git(folder, 'add', 'tracked');
  git(folder, '-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-q', '-m', 'first');
}

/** Returns the folders in which git, called by a user, would run a program of the guest. */
function runsIn(...folders: readonly string[]): readonly string[] {
  return folders.filter((folder) => {
    const path = join(host, folder);
    if (!existsSync(path)) return false;
    rmSync(join(base, 'ran'), { force: true });
    try {
      git(path, 'status');
    } catch {
      // A bare repository has no status, but git has already run its programs.
    }
    try {
      git(path, 'ls-remote');
    } catch {
      // The folder is not a repository.
    }
    return existsSync(join(base, 'ran'));
  });
}

/** Returns a configuration with which `git status` runs the program. */
function hostileConfig(extra = ''): string {
  const program = join(base, 'program');
  writeFileSync(program, `#!/bin/sh\ntouch '${join(base, 'ran')}'\n`, { mode: 0o755 });
  return `[remote "origin"]\n\turl = .\n\tuploadpack = ${program}\n[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = ${program}\n${extra}`;
}

const WORKTREE = '\tworktree = ..\n';

/** The files that a guest writes, and the folder in which the user then calls git. */
const ATTACKS: readonly (readonly [string, string, (folder: string) => void])[] = [
  ['the configuration of the repository', '.', (to) => write(to, { '.git/config': hostileConfig() })],
  [
    'a repository below a folder of the user',
    'docs',
    (to) => {
      makeRepository(join(to, 'docs'));
      write(to, { 'docs/.git/config': hostileConfig() });
    },
  ],
  [
    'a `.git` file that leads to a folder of the guest',
    'docs',
    (to) => {
      makeRepository(join(to, 'docs'));
      renameGit(join(to, 'docs'), 'data');
      write(to, { 'docs/.git': 'gitdir: data\n', 'docs/data/config': hostileConfig() });
    },
  ],
  [
    'a `.git` link to a folder of the guest',
    'docs',
    (to) => {
      makeRepository(join(to, 'docs'));
      renameGit(join(to, 'docs'), 'data');
      symlinkSync('data', join(to, 'docs/.git'));
      write(to, { 'docs/data/config': hostileConfig() });
    },
  ],
  [
    'a bare repository with a working tree of its own',
    'new/bare',
    (to) => {
      makeRepository(join(to, 'new/bare'), '--bare');
      write(to, { 'new/bare/config': hostileConfig(WORKTREE) });
    },
  ],
  [
    'what a folder of the user lacks of a repository',
    'kept',
    (to) =>
      write(to, { 'kept/HEAD': 'ref: refs/heads/x\n', 'kept/refs/a': '', 'kept/config': hostileConfig(WORKTREE) }),
  ],
  [
    'a repository whose objects lie in another folder',
    'new/tree',
    (to) => {
      makeRepository(join(to, 'new/common'), '--bare');
      write(to, {
        'new/common/config': hostileConfig(WORKTREE),
        'new/tree/HEAD': 'ref: refs/heads/x\n',
        'new/tree/commondir': '../common\n',
      });
    },
  ],
];

function renameGit(folder: string, name: string): void {
  execFileSync('mv', [join(folder, '.git'), join(folder, name)]);
}

describe('a guest with a writable mount of a repository', () => {
  beforeEach(() => {
    makeRepository(host);
    write(host, { 'kept/objects/a.txt': 'of the user', 'docs/page.md': 'page' });
  });

  test.each(ATTACKS)('makes git run nothing by %s', async (_what, folder, attack) => {
    await boot();
    attack(guest);
    write(guest, { 'result.txt': 'result', 'docs/page.md': 'changed' });
    const { refusal, kept } = await copyBack();
    expect(refusal).toBeNull();
    expect(kept?.count).toBeGreaterThan(0);
    expect(runsIn('.', folder)).toEqual([]);
    expect(readFileSync(join(host, 'result.txt'), 'utf8')).toBe('result');
    expect(readFileSync(join(host, 'docs/page.md'), 'utf8')).toBe('changed');
  });

  test.each(ATTACKS)(
    'makes git run a program by %s where the mount has `git: writable`',
    async (_what, folder, attack) => {
      const key = keyOf({ git: 'writable' });
      await boot(key);
      attack(guest);
      expect(await copyBack(key)).toMatchObject({ refusal: null });
      expect(runsIn('.', folder)).toContain(folder);
    },
  );

  test('makes no repository in two steps', async () => {
    await boot();
    write(guest, { 'two/objects/a': '', 'two/refs/a': '', 'two/config': hostileConfig(WORKTREE) });
    expect(await copyBack()).toMatchObject({ refusal: null, removed: 0 });
    write(guest, { 'two/HEAD': 'ref: refs/heads/x\n', 'two/other': 'other' });
    expect(await copyBack()).toMatchObject({ kept: { count: 1, paths: ['two/HEAD'] } });
    expect(runsIn('two')).toEqual([]);
    expect(readFileSync(join(host, 'two/other'), 'utf8')).toBe('other');
  });

  test('removes no repository, and no folder with one in it', async () => {
    makeRepository(join(host, 'inner/sub'));
    await boot();
    for (const name of ['.git', 'inner']) rmSync(join(guest, name), { recursive: true });
    write(guest, { inner: 'a file where a folder was' });
    expect(await copyBack()).toMatchObject({ refusal: null });
    expect(git(host, 'log', '--format=%s')).toBe('first\n');
    expect(git(join(host, 'inner/sub'), 'log', '--format=%s')).toBe('first\n');
    // Other files are removed, as the stage did.
    expect(readdirSync(join(host, 'inner/sub'))).toEqual(['.git']);
  });

  test('gets the same notice from each stage, and the next VM is no change', async () => {
    await boot();
    write(guest, { '.git/config': hostileConfig(), a: 'a' });
    expect(await copyBack()).toMatchObject({ written: 1, kept: { paths: ['.git/config'] } });
    expect(await copyBack()).toMatchObject({ written: 0, kept: { paths: ['.git/config'] } });
    await boot();
    write(guest, { a: 'a' });
    expect(await copyBack()).toEqual({ refusal: null, written: 0, removed: 0 });
  });

  test('meets no conflict where the user and the stage both changed `.git`', async () => {
    await boot();
    write(guest, { '.git/config': hostileConfig(), a: 'a' });
    git(host, 'branch', 'other');
    write(host, { '.git/description': 'of the user' });
    expect(await copyBack()).toMatchObject({ refusal: null, written: 1 });
  });
});

test('a bare repository of the user stays as it is', async () => {
  makeRepository(join(host, 'project.git'), '--bare');
  await boot();
  write(guest, { 'project.git/hooks/post-receive': '#!/bin/sh', 'project.git/config': hostileConfig(), beside: 'b' });
  expect(await copyBack()).toMatchObject({ written: 1, kept: { count: 2 } });
  expect(existsSync(join(host, 'project.git/hooks/post-receive'))).toBe(false);
});

test.each(['.git', '.git/hooks', '.git/modules/sub', '.git/worktrees/tree'])(
  'a copy back changes nothing in a mounted %s',
  async (folder) => {
    makeRepository(host);
    write(host, { [`${folder}/x`]: 'x' });
    const key = keyOf({ hostPath: join(host, folder) });
    await boot(key);
    write(guest, { 'post-commit': '#!/bin/sh', x: 'y' });
    expect(await copyBack(key)).toMatchObject({ written: 0, removed: 0, kept: { count: 2 } });
    expect(readFileSync(join(host, folder, 'x'), 'utf8')).toBe('x');
  },
);

test('a folder in a bare repository is never copied back', async () => {
  makeRepository(host, '--bare');
  const key = keyOf({ hostPath: join(host, 'hooks') });
  await boot(key);
  write(guest, { 'post-receive': '#!/bin/sh' });
  expect(await copyBack(key)).toMatchObject({ written: 0, kept: { count: 1, paths: ['post-receive'] } });
});

test('a folder without a repository is copied back whole', async () => {
  write(host, { 'src/HEAD': 'a file', 'src/refs/a': 'a' });
  await boot();
  write(guest, { '.github/workflows/ci.yml': 'on: push', '.gitignore': 'x', 'src/HEAD': 'b', 'git/config': 'c' });
  const done = await copyBack();
  expect(done).toEqual({ refusal: null, written: 7, removed: 0 });
});
