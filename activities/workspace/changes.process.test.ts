/**
 * A save of a git workspace, and its restore into a fresh checkout: with this host's git and tar, in folders that play
 * VMs.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { DataRef } from '../../domain/plan/plan.ts';
import type { SavedFolder } from '../../domain/run/event.ts';
import { createRedactor } from '../../domain/security/redactor.ts';
import type { ExecRequest, Sandbox } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';
import { writeTar } from '../../tar/write.ts';
import { WorkspaceFailure } from './stage-workspace.ts';
import {
  CHANGES_LIMITS,
  checkChanges,
  chooseIgnored,
  copyChanges,
  measureIgnored,
  restoreChanges,
  saveKeys,
  storeChanges,
} from './changes.ts';

const MIB = 1024 * 1024;
const PATH = '/usr/local/bin:/usr/bin:/bin';
const IDENTITY = { GIT_AUTHOR_NAME: 'a', GIT_AUTHOR_EMAIL: 'a@b', GIT_COMMITTER_NAME: 'a', GIT_COMMITTER_EMAIL: 'a@b' };
const NEVER = new AbortController().signal;

let root: string;
let base: string;
let path: string;
let stored: Buffer[];
/** Keys of commands that a VM knows. */
let known: Set<string>;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'voidbox-changes-'));
  [path, stored, known] = [PATH, [], new Set()];
  base = checkout('first');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function git(cwd: string, ...args: string[]): string {
  const env = { PATH, HOME: root, GIT_CONFIG_NOSYSTEM: '1', ...IDENTITY };
  return execFileSync('git', args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' });
}

/** Creates the folder `/workspace` of a VM, with an unpacked repository. @returns the commit */
function checkout(vm: string): string {
  const repo = join(root, vm, 'repository');
  if (vm !== 'first') {
    cpSync(join(root, 'fresh'), join(root, vm), { recursive: true, preserveTimestamps: true, verbatimSymlinks: true });
    return base;
  }
  mkdirSync(join(repo, 'src/deep'), { recursive: true });
  git(repo, 'init', '-q', '-b', 'voidbox');
  for (const name of ['same.txt', 'changed.txt', 'gone.txt', 'becomes-folder', 'src/deep/becomes-file', 'run.sh'])
    writeFileSync(join(repo, name), `${name}\n`);
  writeFileSync(join(repo, '.gitignore'), 'node_modules\nbuild\n');
  git(repo, 'add', '.');
  git(repo, 'commit', '-qm', 'first');
  git(repo, 'repack', '-adq');
  const packs = join(repo, '.git/objects/pack');
  for (const name of readdirSync(packs)) renameSync(join(packs, name), join(packs, `pack-base${extname(name)}`));
  const commit = git(repo, 'rev-parse', 'HEAD').trim();
  mkdirSync(join(repo, '.git/refs/voidbox'));
  writeFileSync(join(repo, '.git/refs/voidbox/base'), `${commit}\n`);
  cpSync(join(root, 'first'), join(root, 'fresh'), { recursive: true, preserveTimestamps: true });
  return commit;
}

/** The paths of the sandbox are below a folder of this host. */
function sandboxOf(vm: string): Sandbox {
  const here = (text: string): string => text.replace(/^\/workspace(?=\/|$)/, join(root, vm));
  return {
    exec: async ({ key, program, args, cwd, stdin, maxOutputBytes }: ExecRequest) => {
      const attached = known.has(key);
      known.add(key);
      const input: Uint8Array[] = [];
      if (stdin !== null) for await (const part of stdin.open(0)) input.push(part);
      const { status, stdout, stderr } = spawnSync(program, args.map(here), {
        cwd: here(cwd),
        env: { PATH: path, HOME: root, LC_ALL: 'C' },
        input: Buffer.concat(input),
        maxBuffer: 256 * MIB,
      });
      const isCut = stdout.length > maxOutputBytes;
      const exit = {
        reason: isCut ? 'output-limit' : 'exited',
        exitCode: status,
        stderrBytes: stderr.length,
        message: '',
      };
      async function* output(stream: 'stdout' | 'stderr', offset: number): AsyncIterable<Uint8Array> {
        yield (stream === 'stdout' ? stdout : stderr).subarray(offset);
      }
      return { attached, output, wait: async () => exit, acknowledge: async () => undefined };
    },
    putTar: async (guestPath: string, bytes: AsyncIterable<Uint8Array>) => {
      const parts: Uint8Array[] = [];
      for await (const part of bytes) parts.push(part);
      execFileSync('tar', ['-x', '--no-same-owner', '-C', here(guestPath)], { input: Buffer.concat(parts) });
    },
  } as unknown as Sandbox;
}

const request = {
  execKey: 'work/0/2',
  stage: { id: 'work', workspace: { guestPath: '/workspace/repository' } },
} as unknown as StageRequest;

async function put(bytes: AsyncIterable<Uint8Array>): Promise<DataRef> {
  const parts: Uint8Array[] = [];
  for await (const part of bytes) parts.push(Buffer.from(part));
  stored.push(Buffer.concat(parts));
  return { sha256: String(stored.length - 1), sizeBytes: stored.at(-1)!.length, mediaType: 'application/x-tar' };
}

const artifacts = {
  async *open({ sha256 }: DataRef, from = 0): AsyncIterable<Uint8Array> {
    yield stored[Number(sha256)]!.subarray(from);
  },
};

async function save(vm: string, mostBytes: number = 64 * MIB): Promise<SavedFolder> {
  const sandbox = sandboxOf(vm);
  const nextKey = saveKeys('work/0/1');
  const ignored = (await measureIgnored(sandbox, nextKey, request.stage, NEVER))!;
  const context = {
    sandbox,
    stage: request.stage,
    nextKey,
    base,
    ignored,
    redactor: createRedactor([]),
    limitMs: 10_000,
    mostBytes,
  };
  const exec = await copyChanges(context, NEVER);
  return await storeChanges(context, exec, put, NEVER);
}

async function restoredFrom(saved: SavedFolder, vm = 'second'): Promise<string> {
  checkout(vm);
  await restoreChanges({ artifacts }, sandboxOf(vm), request, saved, NEVER);
  return join(root, vm);
}

/** Returns names, kinds, modes and contents; for git's folder, its refs. */
function treeOf(top: string): Readonly<Record<string, string>> {
  const names = readdirSync(top, { recursive: true, encoding: 'utf8' }).filter(
    (name) => !name.includes('.git/objects'),
  );
  const entries = names.flatMap((name) => {
    const at = join(top, name);
    const stat = lstatSync(at);
    if (stat.isDirectory()) return [];
    const body = stat.isSymbolicLink() ? `-> ${readlinkSync(at)}` : readFileSync(at, 'latin1');
    return [[name, `${(stat.mode & 0o777).toString(8)} ${body}`] as const];
  });
  return Object.fromEntries(entries);
}

function work(vm: string): string {
  const top = join(root, vm);
  const repo = join(top, 'repository');
  writeFileSync(join(repo, 'changed.txt'), 'changed\n');
  rmSync(join(repo, 'gone.txt'));
  rmSync(join(repo, 'becomes-folder'));
  mkdirSync(join(repo, 'becomes-folder'));
  writeFileSync(join(repo, 'becomes-folder/inner'), 'inner');
  rmSync(join(repo, 'src'), { recursive: true });
  writeFileSync(join(repo, 'src'), 'a file now');
  chmodSync(join(repo, 'run.sh'), 0o755);
  git(repo, 'checkout', '-qb', 'topic');
  git(repo, 'add', 'changed.txt');
  git(repo, 'commit', '-qm', 'by the agent');
  git(repo, 'pack-refs', '--all');
  writeFileSync(join(repo, 'staged.txt'), 'staged\n');
  git(repo, 'add', 'staged.txt');
  for (const name of ['-dash', 'new\nline', 'a "quoted" name', 'é', 'x'.repeat(150)])
    writeFileSync(join(repo, name), name);
  symlinkSync('same.txt', join(repo, 'link'));
  mkdirSync(join(repo, 'build'));
  writeFileSync(join(repo, 'build/out.o'), 'object');
  writeFileSync(join(top, 'input.json'), '{}');
  return top;
}

describe('changes of a git workspace', () => {
  test("restored over a fresh checkout, they are the agent's state: commits, index, branches, files, deletions", async () => {
    const top = work('first');
    const saved = await save('first');
    expect(saved).toMatchObject({ guestPath: '/workspace', changes: { leftOut: [], leftOutCount: 0 } });
    expect(stored[Number(saved.changes!.removed!.sha256)]!.toString().split('\0').toSorted()).toEqual([
      '',
      'becomes-folder',
      'gone.txt',
      'src/deep/becomes-file',
    ]);
    const tar = stored[Number(saved.ref.sha256)]!.toString('latin1');
    expect(tar).not.toContain('same.txt\n');
    expect(tar).not.toContain('pack-base');
    const again = await restoredFrom(saved);
    expect(treeOf(again)).toEqual(treeOf(top));
    for (const args of [
      ['status', '--porcelain'],
      ['log', '--format=%s', '--all'],
      ['stash', 'list'],
    ])
      expect(git(join(again, 'repository'), ...args)).toBe(git(join(top, 'repository'), ...args));
    expect(git(join(again, 'repository'), 'fsck', '--strict')).toBe('');
    expect(git(join(again, 'repository'), 'symbolic-ref', 'HEAD')).toBe('refs/heads/topic\n');
  });

  test('changes of a workspace from an earlier stage are the differences from the result of that stage', async () => {
    const repo = join(root, 'first/repository');
    writeFileSync(join(repo, 'of-earlier.txt'), 'by the earlier stage\n');
    git(repo, 'add', '.');
    git(repo, 'commit', '-qm', 'earlier');
    writeFileSync(join(repo, '.git/refs/voidbox/earlier'), git(repo, 'rev-parse', 'HEAD'));
    rmSync(join(root, 'fresh'), { recursive: true });
    cpSync(join(root, 'first'), join(root, 'fresh'), { recursive: true, preserveTimestamps: true });
    const top = work('first');
    const saved = await save('first');
    expect(stored[Number(saved.ref.sha256)]!.toString('latin1')).not.toContain('by the earlier stage');
    expect(treeOf(await restoredFrom(saved))).toEqual(treeOf(top));
  });

  test('files that cannot leave a VM, and ignored files beyond 16 MiB, are skipped and reported', async () => {
    const repo = join(root, 'first/repository');
    symlinkSync('/etc/passwd', join(repo, 'out'));
    execFileSync('mkfifo', [join(repo, 'pipe')]);
    writeFileSync(join(repo, 'kept'), 'kept');
    mkdirSync(join(repo, 'node_modules/lib'), { recursive: true });
    writeFileSync(join(repo, 'node_modules/lib/large'), Buffer.alloc(CHANGES_LIMITS.ignoredBytes + 1, 'x'));
    mkdirSync(join(repo, 'build'));
    writeFileSync(join(repo, 'build/out.o'), 'object');
    const saved = await save('first');
    expect(saved.changes!.leftOut.toSorted()).toEqual(['node_modules/', 'repository/out']);
    expect(saved.ref.sizeBytes).toBeLessThan(MIB);
    const again = join(await restoredFrom(saved), 'repository');
    expect(readFileSync(join(again, 'build/out.o'), 'utf8')).toBe('object');
    expect(readFileSync(join(again, 'kept'), 'utf8')).toBe('kept');
    for (const name of ['out', 'pipe', 'node_modules']) expect(existsSync(join(again, name)), name).toBe(false);
  });

  test('a save records 20 names of skipped files and their number; ignored names beyond 1 MiB are not listed', async () => {
    const repo = join(root, 'first/repository');
    for (let count = 0; count < 25; count += 1)
      symlinkSync('/etc/passwd', join(repo, `out-${count}-${'x'.repeat(200)}`));
    const { leftOut, leftOutCount } = (await save('first')).changes!;
    expect([leftOut.length, leftOutCount]).toEqual([CHANGES_LIMITS.toldNames, 25]);
    expect(leftOut[0]).toHaveLength(CHANGES_LIMITS.toldNameChars);
    writeFileSync(join(repo, '.gitignore'), '*.o\n');
    for (let count = 0; count < 5_000; count += 1) writeFileSync(join(repo, `${count}-${'x'.repeat(220)}.o`), '');
    expect(await measureIgnored(sandboxOf('first'), saveKeys('work/0/3'), request.stage, NEVER)).toEqual({
      taken: [],
      leftOut: ['all files that git ignores'],
    });
  });

  test('too many changes fail with their folder, and a broken repository fails with the message of git', async () => {
    const repo = join(root, 'first/repository');
    writeFileSync(join(repo, 'large'), Buffer.alloc(2 * MIB));
    await expect(save('first', MIB)).rejects.toThrow(
      'the changes in /workspace/repository have more than the 1 MiB that may be saved',
    );
    writeFileSync(join(repo, '.git/refs/heads/voidbox'), 'nonsense\n');
    writeFileSync(join(repo, '.git/HEAD'), 'nonsense\n');
    await expect(save('first')).rejects.toThrow('not a git repository');
  });

  test('ignored files that cannot be measured are skipped and reported; files that vanish are not', async () => {
    const repo = join(root, 'first/repository');
    for (const name of ['build', 'node_modules']) {
      mkdirSync(join(repo, name));
      writeFileSync(join(repo, name, 'file'), name);
    }
    const tools = join(root, 'tools');
    mkdirSync(tools);
    path = `${tools}:${PATH}`;
    const measured = async (complaint: string): Promise<unknown> => {
      // Behaves like GNU du, which counts the readable files.
      const du = `#!/bin/sh
case "$*" in *node_modules*) echo "du: ${complaint}" >&2; /usr/bin/du "$@"; exit 1;; esac
exec /usr/bin/du "$@"
`;
      writeFileSync(join(tools, 'du'), du, { mode: 0o755 });
      return await measureIgnored(sandboxOf('first'), saveKeys('work/0/1'), request.stage, NEVER);
    };
    expect(await measured("cannot read directory 'node_modules/': Permission denied")).toEqual({
      taken: ['build/'],
      leftOut: ['node_modules/'],
    });
    known.clear();
    expect(await measured("cannot access 'node_modules/file': No such file or directory")).toMatchObject({
      taken: expect.arrayContaining(['build/', 'node_modules/']),
      leftOut: [],
    });
  });

  test('removed files that are folders in another VM fail its stage with their path, and not as a bug', async () => {
    work('first');
    const saved = await save('first');
    stored.push(Buffer.from('src\0.\0'));
    const removed = { sha256: String(stored.length - 1), sizeBytes: 6, mediaType: 'application/x-tar' };
    const made: SavedFolder = { ...saved, changes: { ...saved.changes!, removed } };
    const restored = restoredFrom(made);
    await expect(restored).rejects.toThrow(WorkspaceFailure);
    await expect(restored).rejects.toMatchObject({
      code: 'workspace/unusable',
      message: expect.stringContaining('what the agent of stage work had changed cannot be restored'),
    });
  });

  test('an image without GNU tar is detected, so that the whole folder is saved', async () => {
    const bin = join(root, 'bin');
    mkdirSync(bin);
    writeFileSync(join(bin, 'tar'), '#!/bin/sh\necho "tar (busybox) 1.36"\n', { mode: 0o755 });
    path = `${bin}:${PATH}`;
    expect(await measureIgnored(sandboxOf('first'), saveKeys('work/0/1'), request.stage, NEVER)).toBeNull();
  });

  test('a command of another worker is not used for this save', async () => {
    known.add('work/0/1/5000').add('work/0/1/5001');
    await save('first');
    expect([...known].slice(2)).toEqual(['work/0/1/5002', 'work/0/1/5003']);
    const next = saveKeys('work/0/1');
    for (let count = 0; count < 4_900; count += 1) next();
    expect(() => next()).toThrow('its saves have taken 4900 commands');
  });
});

test('a tar whose first entry is not a list of removed files, or a list beyond 8 MiB, is refused', async () => {
  const checked = async (name: string, sizeBytes: number): Promise<number> => {
    const removed: Uint8Array[] = [];
    const tar = writeTar([{ kind: 'file', path: name, mode: 0o644, body: Buffer.alloc(sizeBytes, 'x') }]);
    for await (const _ of checkChanges(tar, removed, []));
    return removed.reduce((sum, { length }) => sum + length, 0);
  };
  expect(await checked('voidbox-removed', CHANGES_LIMITS.removedBytes)).toBe(CHANGES_LIMITS.removedBytes);
  await expect(checked('voidbox-removed', CHANGES_LIMITS.removedBytes + 1)).rejects.toThrow('more than 8 MiB');
  await expect(checked('other', 1)).rejects.toThrow('does not say which files were removed');
});

test('a save contains the smallest ignored files, at most 1,000', () => {
  const told = (sizes: readonly number[]): string => sizes.map((kib, index) => `${kib}\tname\n${index}/\0`).join('');
  expect(chooseIgnored(told([16 * 1024, 4, 0]))).toEqual({ taken: ['name\n2/', 'name\n1/'], leftOut: ['name\n0/'] });
  expect(chooseIgnored(told([16 * 1024]))).toEqual({ taken: ['name\n0/'], leftOut: [] });
  const { taken, leftOut } = chooseIgnored(told(Array.from({ length: 1_001 }, () => 1)));
  expect([taken.length, leftOut.length]).toEqual([1_000, 1]);
  expect(chooseIgnored('')).toEqual({ taken: [], leftOut: [] });
});
