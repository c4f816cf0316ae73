/**
 * The state of the disk when a copy back reports success. No test can cut the power, so the test records calls and
 * computes the loss: a rename loses contents that were not synced before it, and a name may reappear or disappear until
 * its folder is synced.
 *
 * Isolated, because it replaces `node:fs/promises` in modules that other files load.
 */
import { Buffer } from 'node:buffer';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  fstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import type * as promises from 'node:fs/promises';
import { open, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { WritableMounts } from '../../activities/ports/mounts.ts';
import { createWritableMounts } from './writable-mounts.ts';

type Call =
  | { readonly kind: 'write'; readonly inode: number }
  | { readonly kind: 'sync'; readonly inode: number; readonly path: string }
  /** A name was created, removed or changed. */
  | { readonly kind: 'name'; readonly path: string; readonly inode: number | null };

const seen = vi.hoisted(() => ({ calls: [] as unknown[] }));
const calls = seen.calls as Call[];

vi.mock('node:fs/promises', async (original) => {
  const real = await original<typeof promises>();
  const { readlinkSync, lstatSync } = await import('node:fs');
  const { basename, dirname, join } = await import('node:path');
  const resolved = (path: unknown): string => {
    const text = String(path);
    const folder = dirname(text);
    return join(folder.startsWith('/proc/self/fd/') ? readlinkSync(folder) : folder, basename(text));
  };
  const named = (path: string, isThere: boolean): void => {
    seen.calls.push({ kind: 'name', path, inode: isThere ? lstatSync(path).ino : null });
  };
  return {
    ...real,
    async rename(from: string, to: string) {
      const [before, after] = [resolved(from), resolved(to)];
      await real.rename(from, to);
      named(before, false);
      named(after, true);
    },
    async mkdir(path: string, options?: object) {
      const at = resolved(path);
      const made = await real.mkdir(path, options);
      named(at, true);
      return made;
    },
    async symlink(target: string, path: string) {
      const at = resolved(path);
      await real.symlink(target, path);
      named(at, true);
    },
    async unlink(path: string) {
      const at = resolved(path);
      await real.unlink(path);
      named(at, false);
    },
    async rmdir(path: string) {
      const at = resolved(path);
      await real.rmdir(path);
      named(at, false);
    },
    async rm(path: string, options?: object) {
      const at = resolved(path);
      await real.rm(path, options);
      named(at, false);
    },
  };
});

let base: string;
let host: string;
let guest: string;
let mounts: WritableMounts;

beforeEach(async () => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-power-')));
  [host, guest] = [join(base, 'host'), join(base, 'guest')];
  mkdirSync(join(host, 'folder'), { recursive: true });
  writeFileSync(join(host, 'changed'), 'before');
  writeFileSync(join(host, 'removed'), 'before');
  writeFileSync(join(host, 'folder', 'inner'), 'before');
  mkdirSync(guest);
  await observeHandles();
  mounts = createWritableMounts((runId) => join(base, 'state', runId));
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(base, { recursive: true, force: true });
});

/** All open files share one class, which Node does not export. */
async function observeHandles(): Promise<void> {
  const handle = await open(base);
  const prototype = Object.getPrototypeOf(handle) as FileHandle;
  await handle.close();
  const { sync, writeFile, chmod } = prototype;
  vi.spyOn(prototype, 'sync').mockImplementation(async function (this: FileHandle) {
    await sync.call(this);
    calls.push({ kind: 'sync', inode: fstatSync(this.fd).ino, path: readlinkSync(`/proc/self/fd/${this.fd}`) });
  });
  vi.spyOn(prototype, 'writeFile').mockImplementation(async function (
    this: FileHandle,
    ...args: Parameters<typeof writeFile>
  ) {
    await writeFile.apply(this, args);
    calls.push({ kind: 'write', inode: fstatSync(this.fd).ino });
  });
  vi.spyOn(prototype, 'chmod').mockImplementation(async function (this: FileHandle, mode) {
    await chmod.call(this, mode);
    calls.push({ kind: 'write', inode: fstatSync(this.fd).ino });
  });
}

const key = { runId: 'run', scope: 'scope', guestPath: '/data' };

async function boot(): Promise<void> {
  const parts: Uint8Array[] = [];
  for await (const part of await mounts.capture(
    { ...key, hostPath: host },
    { maxBytes: 1024 * 1024 * 1024 },
    new AbortController().signal,
  ))
    parts.push(part);
  execFileSync('tar', ['-xf', '-', '-C', guest], { input: Buffer.concat(parts) });
}

async function copyBack(): Promise<void> {
  const tar = execFileSync('tar', ['--format=gnu', '-cf', '-', '-C', guest, '.'], { maxBuffer: 64 * 1024 * 1024 });
  const copied = await mounts.copyBack(
    { ...key, hostPath: host },
    (async function* () {
      yield tar;
    })(),
  );
  expect(copied.refusal).toBeNull();
}

/** The moment at which the journal records the host's state: after it, nothing may be missing. */
function momentOfJournal(): number {
  const moment = calls.findLastIndex((call) => call.kind === 'name' && basename(call.path) === 'copied.jsonl');
  expect(moment).toBeGreaterThan(0);
  return moment;
}

/** Returns paths below the mounted folder whose name may not be on the disk at that moment. */
function namesLost(before: number): string[] {
  const lost = new Set<string>();
  for (const call of calls.slice(0, before)) {
    if (call.kind === 'name' && call.path.startsWith(`${host}/`)) lost.add(call.path);
    else if (call.kind === 'sync') for (const path of lost) if (dirname(path) === call.path) lost.delete(path);
  }
  // A removed folder also removes its content.
  return [...lost].filter((path) => statSync(dirname(path), { throwIfNoEntry: false }) !== undefined).sort();
}

/** Returns files below the mounted folder that got their name before their contents were on the disk. */
function contentsLost(): string[] {
  const unsynced = new Set<number>();
  const lost: string[] = [];
  for (const call of calls) {
    if (call.kind === 'write') unsynced.add(call.inode);
    else if (call.kind === 'sync') unsynced.delete(call.inode);
    else if (call.inode !== null && call.path.startsWith(`${host}/`) && unsynced.has(call.inode)) lost.push(call.path);
  }
  return lost.sort();
}

test('a copy back says that it is done when all of it is on the disk', async () => {
  await boot();
  writeFileSync(join(guest, 'changed'), 'of the stage');
  chmodSync(join(guest, 'changed'), 0o755);
  rmSync(join(guest, 'removed'));
  rmSync(join(guest, 'folder', 'inner'));
  writeFileSync(join(guest, 'folder', 'large'), Buffer.alloc(3_000_000, 'x'));
  symlinkSync('changed', join(guest, 'link'));
  mkdirSync(join(guest, 'made', 'deep'), { recursive: true });
  writeFileSync(join(guest, 'made', 'deep', 'file'), '');
  calls.length = 0;
  await copyBack();
  expect(contentsLost()).toEqual([]);
  expect(namesLost(momentOfJournal())).toEqual([]);
  // The modes of new folders are set after their names.
  const made = statSync(join(host, 'made', 'deep')).ino;
  const lastWrite = calls.findLastIndex((call) => call.kind === 'write' && call.inode === made);
  expect(calls.findIndex((call, at) => at > lastWrite && call.kind === 'sync' && call.inode === made)).toBeLessThan(
    momentOfJournal(),
  );
});

test('a copy that a killed worker had carried out is on the disk before its successor takes it over', async () => {
  await boot();
  for (const folder of [host, guest]) {
    mkdirSync(join(folder, 'folder', 'made'));
    writeFileSync(join(folder, 'folder', 'made', 'file'), 'of the stage');
    rmSync(join(folder, 'removed'));
  }
  const sha256 = createHash('sha256').update('of the stage').digest('hex');
  const mode = statSync(join(host, 'folder', 'made', 'file')).mode & 0o777;
  const planned = [
    ['folder/made', { kind: 'dir', mode: statSync(join(host, 'folder', 'made')).mode & 0o777 }],
    ['folder/made/file', { kind: 'file', mode, sizeBytes: 12, sha256 }],
    ['removed', null],
    { v: 1, count: 3 },
  ];
  const state = join(base, 'state', 'run');
  writeFileSync(
    join(state, readdirSync(state)[0] ?? '', 'copying.jsonl'),
    planned.map((line) => `${JSON.stringify(line)}\n`).join(''),
  );
  calls.length = 0;
  await copyBack();
  const synced = calls.slice(0, momentOfJournal()).flatMap((call) => (call.kind === 'sync' ? [call.path] : []));
  expect(synced).toEqual(expect.arrayContaining([host, join(host, 'folder'), join(host, 'folder', 'made')]));
});

test('a capture is found again: so are the folders above it', async () => {
  await boot();
  const state = join(base, 'state', 'run');
  const synced = calls.flatMap((call) => (call.kind === 'sync' ? [call.path] : []));
  expect(synced).toEqual(
    expect.arrayContaining([join(state, readdirSync(state)[0] ?? ''), state, join(base, 'state'), base]),
  );
});

test('a file system that syncs no folders takes a copy all the same', async () => {
  await boot();
  writeFileSync(join(guest, 'changed'), 'of the stage');
  const handle = await open(base);
  const sync = vi.mocked((Object.getPrototypeOf(handle) as FileHandle).sync);
  await handle.close();
  const real = sync.getMockImplementation();
  sync.mockImplementation(async function (this: FileHandle) {
    if (fstatSync(this.fd).ino === statSync(host).ino)
      throw Object.assign(new Error('EINVAL: invalid argument, fsync'), { code: 'EINVAL' });
    await real?.call(this);
  });
  await copyBack();
  expect(readFileSync(join(host, 'changed'), 'utf8')).toBe('of the stage');
});
