/** Writable mounts on real folders. A second folder acts as the guest: its tar replaces the tar of a VM. */
import { Buffer } from 'node:buffer';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { CopiedBack, WritableMounts } from '../../activities/ports/mounts.ts';
import { endMarker, writeHeader } from '../../tar/entry.ts';
import { writeTar, type TarItem } from '../../tar/write.ts';
import { MAX_DEPTH } from '../../tar/inside.ts';
import { MAX_ENTRIES } from './manifest.ts';
import { createWritableMounts } from './writable-mounts.ts';

const KEY = { runId: 'run', scope: 'scope', guestPath: '/data' };
const LIMITS = { maxBytes: 64 * 1024 * 1024 };
const { signal } = new AbortController();

let base: string;
let host: string;
let guest: string;
let mounts: WritableMounts;

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-mounts-')));
  [host, guest] = [join(base, 'host'), join(base, 'guest')];
  mkdirSync(host);
  mkdirSync(guest);
  mounts = create();
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

function create(): WritableMounts {
  return createWritableMounts((runId) => join(base, 'state', runId));
}

function key(): typeof KEY & { hostPath: string } {
  return { ...KEY, hostPath: host };
}

/** Unpacks the capture into the guest's folder, as for a new VM. */
async function boot(): Promise<void> {
  rmSync(guest, { recursive: true, force: true });
  mkdirSync(guest);
  const parts: Uint8Array[] = [];
  for await (const part of await mounts.capture(key(), LIMITS, signal)) parts.push(part);
  execFileSync('tar', ['-xf', '-', '-C', guest], { input: Buffer.concat(parts) });
}

/** Packs a folder as a guest does. */
function tarOf(folder: string): AsyncIterable<Uint8Array> {
  const items: TarItem[] = [];
  const add = (inside: string): void => {
    for (const name of readdirSync(join(folder, inside))) {
      const path = join(inside, name);
      const stat = lstatSync(join(folder, path));
      const mode = stat.mode & 0o777;
      if (stat.isSymbolicLink()) items.push({ kind: 'symlink', path, target: readlinkSync(join(folder, path)) });
      else if (stat.isFile()) items.push({ kind: 'file', path, mode, body: readFileSync(join(folder, path)) });
      else {
        items.push({ kind: 'dir', path, mode });
        add(path);
      }
    }
  };
  add('');
  return writeTar(items);
}

/** Packs the folder with the system's tar, for names that are not text. */
function systemTarOf(folder: string): AsyncIterable<Uint8Array> {
  return pieces(execFileSync('tar', ['--format=gnu', '-cf', '-', '-C', folder, '.'], { maxBuffer: 256 * 1024 * 1024 }));
}

async function* pieces(bytes: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 7000) yield bytes.subarray(at, at + 7000);
}

function copyBack(): Promise<CopiedBack> {
  return mounts.copyBack(key(), tarOf(guest));
}

/** Returns all entries of a folder in a comparable shape. */
function tree(folder: string, inside = ''): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of readdirSync(join(folder, inside)).sort()) {
    const path = join(inside, name);
    const stat = lstatSync(join(folder, path));
    const mode = (stat.mode & 0o777).toString(8);
    if (stat.isSymbolicLink()) found[path] = `link ${readlinkSync(join(folder, path))}`;
    else if (stat.isDirectory()) Object.assign(found, { [path]: `dir ${mode}` }, tree(folder, path));
    else found[path] = `file ${mode} ${readFileSync(join(folder, path), 'latin1')}`;
  }
  return found;
}

type Make = (folder: string) => void;
const KINDS: Readonly<Record<string, Make>> = {
  nothing: () => undefined,
  file: (folder) => writeFileSync(join(folder, 'x'), 'text'),
  program: (folder) => {
    writeFileSync(join(folder, 'x'), 'text');
    chmodSync(join(folder, 'x'), 0o755);
  },
  folder: (folder) => {
    mkdirSync(join(folder, 'x', 'in', 'ner'), { recursive: true });
    writeFileSync(join(folder, 'x', 'in', 'f'), 'f');
    symlinkSync('in/f', join(folder, 'x', 'l'));
  },
  'private folder': (folder) => {
    mkdirSync(join(folder, 'x'));
    chmodSync(join(folder, 'x'), 0o700);
    writeFileSync(join(folder, 'x', 'in'), 'a file where a folder was');
  },
  link: (folder) => symlinkSync('kept', join(folder, 'x')),
};
const PAIRS = Object.keys(KINDS).flatMap((from) => Object.keys(KINDS).map((to) => [from, to] as const));

function begin(make: Make): void {
  writeFileSync(join(host, 'kept'), 'kept');
  mkdirSync(join(host, 'folder'));
  make(host);
}

test('a capture that is never read, because its VM does not start, leaves no file open', async () => {
  writeFileSync(join(host, 'a.txt'), 'a');
  await mounts.capture(key(), LIMITS, signal);
  // A stream opens its file in the background.
  await setImmediate();
  await boot();
  const open = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return 'the descriptor of the listing';
    }
  });
  expect(open.filter((path) => path.startsWith(base))).toEqual([]);
});

describe('a copy back', () => {
  test.each(PAIRS)('turns %s into %s on the host, as in the guest', async (from, to) => {
    begin(KINDS[from]!);
    await boot();
    expect(tree(guest)).toEqual(tree(host));
    rmSync(join(guest, 'x'), { recursive: true, force: true });
    KINDS[to]!(guest);
    expect((await copyBack()).refusal).toBeNull();
    expect(tree(host)).toEqual(tree(guest));
    // The copy runs again, as after the death of a worker, or for a second stage.
    mounts = create();
    expect(await copyBack()).toEqual({ refusal: null, written: 0, removed: 0 });
    // The guest changes the entry back.
    rmSync(join(guest, 'x'), { recursive: true, force: true });
    KINDS[from]!(guest);
    expect((await copyBack()).refusal).toBeNull();
    expect(tree(host)).toEqual(tree(guest));
    expect(readFileSync(join(host, 'kept'), 'utf8')).toBe('kept');
  });

  test('writes nothing if nothing changed, and keeps later changes of the host', async () => {
    begin(KINDS['folder']!);
    await boot();
    writeFileSync(join(host, 'kept'), 'edited');
    rmSync(join(host, 'x', 'in', 'f'));
    writeFileSync(join(host, 'added'), 'added');
    const before = tree(host);
    expect(await copyBack()).toEqual({ refusal: null, written: 0, removed: 0 });
    writeFileSync(join(guest, 'own'), 'of the stage');
    expect(await copyBack()).toEqual({ refusal: null, written: 1, removed: 0 });
    expect(tree(host)).toEqual({ ...before, own: 'file 644 of the stage' });
  });

  const EDITS: readonly (readonly [name: string, host: Make, guest: Make, path: string])[] = [
    [
      'both changed a file',
      (at) => writeFileSync(join(at, 'kept'), 'host'),
      (at) => writeFileSync(join(at, 'kept'), 'guest'),
      'kept',
    ],
    [
      'the host changed it within its size and its second',
      (at) => writeFileSync(join(at, 'kept'), 'KEPT'),
      (at) => rmSync(join(at, 'kept')),
      'kept',
    ],
    [
      'the host made it executable',
      (at) => chmodSync(join(at, 'kept'), 0o755),
      (at) => writeFileSync(join(at, 'kept'), 'guest'),
      'kept',
    ],
    [
      'both added a file',
      (at) => writeFileSync(join(at, 'new'), 'host'),
      (at) => writeFileSync(join(at, 'new'), 'guest'),
      'new',
    ],
    [
      'the host removed a file that the guest changed',
      (at) => rmSync(join(at, 'kept')),
      (at) => writeFileSync(join(at, 'kept'), 'guest'),
      'kept',
    ],
    [
      'the host removed the folder of a new file',
      (at) => rmSync(join(at, 'x'), { recursive: true }),
      (at) => writeFileSync(join(at, 'x', 'in', 'new'), ''),
      'x/in',
    ],
    [
      'the host added to a folder that the guest removed',
      (at) => writeFileSync(join(at, 'x', 'new'), 'host'),
      (at) => rmSync(join(at, 'x'), { recursive: true }),
      'x/new',
    ],
    [
      'the host made a link of a folder that the guest wrote to',
      (at) => {
        rmSync(join(at, 'x'), { recursive: true });
        symlinkSync('folder', join(at, 'x'));
      },
      (at) => writeFileSync(join(at, 'x', 'new'), 'guest'),
      'x',
    ],
    [
      'the host replaced it by a pipe',
      (at) => {
        rmSync(join(at, 'kept'));
        execFileSync('mkfifo', [join(at, 'kept')]);
      },
      (at) => writeFileSync(join(at, 'kept'), 'guest'),
      'kept',
    ],
  ];
  test.each(EDITS)('is rejected with the path, and writes nothing, if %s', async (_, onHost, inGuest, path) => {
    begin(KINDS['folder']!);
    await boot();
    onHost(host);
    inGuest(guest);
    writeFileSync(join(guest, 'another'), 'would go back');
    const before = lstatSync(join(host, '.')).mtimeMs;
    const names = readdirSync(host);
    const { refusal } = await copyBack();
    expect(refusal).toMatchObject({ code: 'stage/mount-conflict' });
    expect(refusal?.message).toMatch(new RegExp(`: ${path.replaceAll('/', '\\/')} also changed`));
    expect(readdirSync(host)).toEqual(names);
    expect(before).toBeGreaterThan(0);
  });

  test('accepts changes that the host already has, for example from a copy whose end was not recorded', async () => {
    begin(KINDS['file']!);
    await boot();
    for (const folder of [host, guest]) {
      writeFileSync(join(folder, 'kept'), 'the same on both sides');
      rmSync(join(folder, 'x'));
    }
    expect(await copyBack()).toEqual({ refusal: null, written: 0, removed: 0 });
  });

  test('continues a copy that died in the middle, even if the guest changed the folder again', async () => {
    begin(KINDS['folder']!);
    await boot();
    // An earlier copy planned these changes; it wrote `kept`, and removed `x` but did not write the new file.
    const planned = [
      ['kept', { kind: 'file', mode: 0o644, sizeBytes: 3, sha256: 'fe7f2b0d7bd2f77bb4b8e9ad8e7e3c1a' }],
      ['x', { kind: 'file', mode: 0o644, sizeBytes: 4, sha256: 'beef' }],
      ['x/in', null],
      ['x/in/f', null],
      ['x/in/ner', null],
      ['x/l', null],
    ];
    writeFileSync(join(host, 'kept'), 'one');
    const sha256 = execFileSync('sha256sum', [join(host, 'kept')])
      .toString()
      .split(' ')[0]!;
    (planned[0]![1] as { sha256: string }).sha256 = sha256;
    const state = join(base, 'state', 'run');
    const copying = join(state, readdirSync(state)[0]!, 'copying.jsonl');
    writeFileSync(
      copying,
      `${planned.map((line) => JSON.stringify(line)).join('\n')}\n${JSON.stringify({ v: 1, count: planned.length })}\n`,
    );
    rmSync(join(host, 'x'), { recursive: true });
    const staging = readdirSync(host).filter((name) => name.startsWith('.voidbox'));
    expect(staging).toEqual([]);
    writeFileSync(join(guest, 'kept'), 'two');
    rmSync(join(guest, 'x'), { recursive: true });
    writeFileSync(join(guest, 'x'), 'file');
    mounts = create();
    expect((await copyBack()).refusal).toBeNull();
    expect(tree(host)).toEqual(tree(guest));
  });

  test('a worker that wakes after its successor began changes nothing', async () => {
    begin(KINDS['file']!);
    await boot();
    writeFileSync(join(guest, 'big'), Buffer.alloc(3_000_000, 'old'));
    const whole = execFileSync('tar', ['-cf', '-', '-C', guest, '.'], { maxBuffer: 16 * 1024 * 1024 });
    let wake!: () => void;
    const asleep = new Promise<void>((resolve) => (wake = resolve));
    let reached!: () => void;
    const halfway = new Promise<void>((resolve) => (reached = resolve));
    const late = create().copyBack(
      key(),
      (async function* () {
        yield whole.subarray(0, 2_000_000);
        reached();
        await asleep;
        yield whole.subarray(2_000_000);
      })(),
    );
    await halfway;
    const staging = (): string[] => readdirSync(host).filter((name) => name.startsWith('.voidbox'));
    await expect.poll(staging).toHaveLength(1);
    writeFileSync(join(guest, 'big'), 'new');
    expect((await copyBack()).refusal).toBeNull();
    expect(staging(), 'also of one that never wakes').toEqual([]);
    wake();
    const outcome = await late.catch((error: unknown) => error);
    expect((outcome as CopiedBack).refusal ?? outcome).toMatchObject({
      code: expect.stringMatching(/store\/io|mount-conflict/) as string,
    });
    expect(tree(host)).toEqual(tree(guest));
  });

  test('a worker that wakes after its successor began and has only folders to make changes nothing', async () => {
    begin(KINDS['file']!);
    await boot();
    mkdirSync(join(guest, 'made'));
    const whole = execFileSync('tar', ['-cf', '-', '-C', guest, '.']);
    let wake!: () => void;
    const asleep = new Promise<void>((resolve) => (wake = resolve));
    let reached!: () => void;
    const read = new Promise<void>((resolve) => (reached = resolve));
    const late = create().copyBack(
      key(),
      (async function* () {
        yield whole;
        reached();
        await asleep;
      })(),
    );
    await read;
    expect((await copyBack()).refusal).toBeNull();
    // The next stage removes the folder again.
    rmSync(join(guest, 'made'), { recursive: true });
    writeFileSync(join(guest, 'kept'), 'of the next stage');
    expect((await copyBack()).refusal).toBeNull();
    wake();
    await expect(late).rejects.toMatchObject({ code: 'fence/stale' });
    expect(tree(host)).toEqual(tree(guest));
    expect(await copyBack()).toEqual({ refusal: null, written: 0, removed: 0 });
  });

  test('does not mistake a folder that a copy made without setting its mode for an edit of the host', async () => {
    begin(KINDS['file']!);
    await boot();
    mkdirSync(join(guest, 'made'));
    chmodSync(join(guest, 'made'), 0o755);
    writeFileSync(join(guest, 'made', 'f'), 'f');
    const planned = [
      ['made', { kind: 'dir', mode: 0o755 }],
      ['made/f', { kind: 'file', mode: 0o644, sizeBytes: 1, sha256: 'f' }],
    ];
    const state = join(base, 'state', 'run');
    const lines = [...planned, { v: 1, count: planned.length }].map((line) => `${JSON.stringify(line)}\n`);
    writeFileSync(join(state, readdirSync(state)[0]!, 'copying.jsonl'), lines.join(''));
    // The copy was killed at this point.
    mkdirSync(join(host, 'made'), { mode: 0o700 });
    expect((await copyBack()).refusal).toBeNull();
    expect(tree(host)).toEqual(tree(guest));
  });

  test('does not touch the staging folder of another run', async () => {
    begin(KINDS['file']!);
    await boot();
    mkdirSync(join(host, '.voidbox-copy-000000000000-123'));
    writeFileSync(join(guest, 'new'), 'new');
    expect((await copyBack()).refusal).toBeNull();
    expect(readdirSync(host)).toContain('.voidbox-copy-000000000000-123');
    // A VM does not get the staging folder either.
    rmSync(join(base, 'state'), { recursive: true });
    await boot();
    expect(readdirSync(guest)).not.toContain('.voidbox-copy-000000000000-123');
  });

  test('copies names that are not text, long names, and large files', async () => {
    const odd = Buffer.concat([Buffer.from(`${host}/`), Buffer.from([0xff, 0xfe, 0x41])]);
    writeFileSync(odd, 'odd');
    mkdirSync(join(host, 'd'.repeat(200), 'e'.repeat(200)), { recursive: true });
    writeFileSync(join(host, 'large'), Buffer.alloc(2_500_000, 'a'));
    await boot();
    expect(readFileSync(Buffer.concat([Buffer.from(`${guest}/`), Buffer.from([0xff, 0xfe, 0x41])]), 'utf8')).toBe(
      'odd',
    );
    const back = (): Promise<CopiedBack> => mounts.copyBack(key(), systemTarOf(guest));
    expect(await back()).toEqual({ refusal: null, written: 0, removed: 0 });
    writeFileSync(Buffer.concat([Buffer.from(`${guest}/`), Buffer.from([0xff, 0xfe, 0x42])]), 'odder');
    writeFileSync(join(guest, 'd'.repeat(200), 'e'.repeat(200), 'f'.repeat(200)), 'deep');
    writeFileSync(join(guest, 'large'), Buffer.alloc(2_500_000, 'b'));
    expect(await back()).toEqual({ refusal: null, written: 3, removed: 0 });
    expect(readFileSync(join(host, 'd'.repeat(200), 'e'.repeat(200), 'f'.repeat(200)), 'utf8')).toBe('deep');
    expect(readFileSync(join(host, 'large')).every((byte) => byte === 0x62)).toBe(true);
    expect(await back()).toEqual({ refusal: null, written: 0, removed: 0 });
  });

  test('returns the path if the user may not write', async () => {
    begin(KINDS['folder']!);
    await boot();
    writeFileSync(join(guest, 'x', 'in', 'f'), 'changed');
    chmodSync(base, 0o755);
    execFileSync('chmod', ['-R', 'a+rwX', join(base, 'state')]);
    const isRoot = process.geteuid?.() === 0;
    if (!isRoot) chmodSync(join(host, 'x', 'in'), 0o555);
    const before = tree(host);
    if (isRoot) process.seteuid!(65_534);
    try {
      expect((await copyBack()).refusal).toMatchObject({
        code: 'stage/mount-unwritable',
        message: expect.stringContaining('cannot be written') as string,
      });
    } finally {
      if (isRoot) process.seteuid!(0);
    }
    expect(tree(host)).toEqual(before);
  });
});

test('a folder that became reachable through a link after its run was admitted is not touched', async () => {
  begin(KINDS['file']!);
  await boot();
  writeFileSync(join(guest, 'new'), 'new');
  renameSync(host, join(base, 'moved'));
  symlinkSync(join(base, 'moved'), host);
  expect((await copyBack()).refusal).toMatchObject({
    code: 'stage/mount-conflict',
    message: expect.stringContaining('ELOOP') as string,
  });
  rmSync(join(base, 'state'), { recursive: true });
  await expect(mounts.capture(key(), LIMITS, signal)).rejects.toMatchObject({ code: 'mount/unusable' });
  expect(readdirSync(join(base, 'moved')).sort()).toEqual(['folder', 'kept', 'x']);
});

describe('what may not come out of a guest', () => {
  const file = (path: string): TarItem => ({ kind: 'file', path, mode: 0o644, body: Buffer.from('evil') });
  const TARS: readonly (readonly [string, readonly TarItem[]])[] = [
    ['a path above', [file('../evil')]],
    ['an absolute path', [file('/tmp/evil')]],
    ['a path through a parent', [file('a/../../evil')]],
    ['an outward link', [{ kind: 'symlink', path: 'l', target: '/etc' }]],
    ['a link that climbs', [{ kind: 'symlink', path: 'd/l', target: '../..' }]],
    ['a hard link', [{ kind: 'hardlink', path: 'h', target: 'kept' }]],
    ['a device', [{ kind: 'device', path: 'disk', major: 8, minor: 0 }]],
    ['a pipe', [{ kind: 'fifo', path: 'pipe' }]],
    ['a staging folder', [{ kind: 'dir', path: '.voidbox-copy-x', mode: 0o755 }]],
    ['a tree that is too deep', [file(Array.from({ length: 200 }, () => 'd').join('/'))]],
  ];
  test.each(TARS)('is %s: nothing is written', async (_, items) => {
    begin(KINDS['file']!);
    await boot();
    const before = tree(host);
    await expect(mounts.copyBack(key(), writeTar([file('new'), ...items]))).rejects.toMatchObject({
      code: 'stage/bad-output',
    });
    expect(tree(host)).toEqual(before);
  });

  test('nothing is written through a link of the guest, whatever entries follow it in its tar', async () => {
    begin(KINDS['folder']!);
    await boot();
    const before = tree(host);
    const link: TarItem = { kind: 'symlink', path: 'x', target: 'folder' };
    for (const items of [
      [link, file('x/evil')],
      [{ kind: 'dir', path: 'x', mode: 0o755 }, file('x/evil'), link],
      [file('none/evil')],
    ] as const)
      await expect(mounts.copyBack(key(), writeTar(items))).rejects.toMatchObject({ code: 'stage/bad-output' });
    expect(tree(host)).toEqual(before);
  });

  test('a tar that ends early removes nothing', async () => {
    begin(KINDS['folder']!);
    await boot();
    const before = tree(host);
    await expect(
      mounts.copyBack(
        key(),
        (async function* () {
          yield writeHeader({ path: 'kept', typeFlag: '0', mode: 0o644, sizeBytes: 0 });
        })(),
      ),
    ).rejects.toThrow('cut short');
    expect(tree(host)).toEqual(before);
  });

  test(`a folder of more than ${MAX_ENTRIES} entries`, { timeout: 300_000 }, async () => {
    await boot();
    async function* many(): AsyncGenerator<Uint8Array> {
      for (let at = 0; at <= MAX_ENTRIES; at += 500)
        yield Buffer.concat(
          Array.from({ length: 500 }, (_, index) =>
            writeHeader({ path: `d${at + index}/`, typeFlag: '5', mode: 0o755, sizeBytes: 0 }),
          ),
        );
      yield endMarker();
    }
    await expect(mounts.copyBack(key(), many())).rejects.toMatchObject({
      code: 'stage/bad-output',
      message: expect.stringContaining('250,000') as string,
    });
    expect(readdirSync(host)).toEqual([]);
  });
});

describe('a capture', () => {
  test('is taken once: later VMs get the same, even if the host changes', async () => {
    begin(KINDS['folder']!);
    utimesSync(join(host, 'kept'), 1_000_000_000, 1_000_000_000);
    await boot();
    const first = tree(guest);
    expect(lstatSync(join(guest, 'kept')).mtimeMs).toBe(1_000_000_000_000);
    writeFileSync(join(guest, 'kept'), 'of the lost VM');
    expect((await copyBack()).refusal).toBeNull();
    writeFileSync(join(host, 'later'), 'later');
    mounts = create();
    await boot();
    expect(tree(guest)).toEqual(first);
    // The next VM ends with other content: changes of the lost VM are not mistaken for edits of the host.
    writeFileSync(join(guest, 'kept'), 'of the second VM');
    expect((await copyBack()).refusal).toBeNull();
    expect(readFileSync(join(host, 'kept'), 'utf8')).toBe('of the second VM');
    expect(readFileSync(join(host, 'later'), 'utf8')).toBe('later');
  });

  test('leaves out links that lead outside, pipes and sockets, and the host keeps them', async () => {
    begin(KINDS['file']!);
    symlinkSync('/etc', join(host, 'out'));
    execFileSync('mkfifo', [join(host, 'pipe')]);
    await boot();
    expect(Object.keys(tree(guest))).toEqual(['folder', 'kept', 'x']);
    rmSync(join(guest, 'x'));
    expect((await copyBack()).refusal).toBeNull();
    expect(readdirSync(host).sort()).toEqual(['folder', 'kept', 'out', 'pipe']);
  });

  test("captures of a folder larger than the VM's disk, of a file and of an absent path are rejected with the reason", async () => {
    writeFileSync(join(host, 'large'), Buffer.alloc(100_000));
    await expect(mounts.capture(key(), { maxBytes: 99_999 }, signal)).rejects.toMatchObject({
      code: 'mount/unusable',
      message: expect.stringContaining('disk_mb') as string,
    });
    expect(readdirSync(join(base, 'state', 'run'))).toHaveLength(1);
    for (const hostPath of [join(host, 'large'), join(host, 'none')])
      await expect(mounts.capture({ ...KEY, hostPath }, LIMITS, signal)).rejects.toMatchObject({
        code: 'mount/unusable',
      });
    expect(readdirSync(join(base, 'state', 'run', readdirSync(join(base, 'state', 'run'))[0]!))).toEqual([]);
  });

  test('a folder that is too deep to come back is rejected before a VM gets it', async () => {
    const deep = Array.from({ length: MAX_DEPTH }, () => 'd').join('/');
    mkdirSync(join(host, deep), { recursive: true });
    await boot();
    rmSync(join(base, 'state'), { recursive: true });
    writeFileSync(join(host, deep, 'f'), '');
    await expect(boot()).rejects.toMatchObject({
      code: 'mount/unusable',
      message: expect.stringContaining('too deep') as string,
    });
  });

  test('is rejected with an error that says that it is damaged', async () => {
    begin(KINDS['file']!);
    await boot();
    const state = join(base, 'state', 'run');
    const manifest = join(state, readdirSync(state)[0]!, 'capture', 'capture.jsonl');
    const whole = readFileSync(manifest, 'utf8');
    for (const damage of [
      '',
      'no json\n',
      whole.split('\n').slice(1).join('\n'),
      whole.replace('"file"', '"sea"'),
      `${whole}["x",null]\n`,
    ]) {
      writeFileSync(manifest, damage);
      await expect(copyBack()).rejects.toMatchObject({
        code: 'mount/unusable',
        message: expect.stringContaining('damaged') as string,
      });
    }
  });

  test('is removed with its run', async () => {
    begin(KINDS['file']!);
    await boot();
    await mounts.dropRun('run');
    await mounts.dropRun('run');
    expect(readdirSync(join(base, 'state'))).toEqual([]);
  });
});
