/** The binding for Node beside child processes: the same answers, and calls that hang or leak nothing. */
import { spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { isCodedError } from '../domain/errors/coded-error.ts';
import { readEnvironment } from '../setup/environment.ts';
import type { HostPieces } from '../setup/pieces/host-pieces.ts';
import { resolveHostPieces, resolveOptionalPieces } from '../setup/resolve.ts';
import type { LaunchConfig } from './api.ts';
import { askBinding, type Binding, findLoadedBinding, forgetBinding, useBinding } from './binding.ts';
import { endVm } from './end-vm.ts';
import { launchKeeper, readHostFacts, readRunDir, sealRunDir, sweepRunDirs } from './keeper-command.ts';

const KEY = 'binding/scope/0';
/** Compiling the binding takes 40 s of a CPU, which other groups use too. */
const BUILD_LIMIT_MS = 900_000;
const WAYS = ['binding', 'child processes'] as const;

let base: string;
let pieces: HostPieces;
let file: string;

beforeAll(async () => {
  const env = readEnvironment();
  pieces = await resolveHostPieces(env, { install: true });
  file = (await resolveOptionalPieces(env, ['binding'], { install: true })).get('binding')!;
  base = mkdtempSync(join(tmpdir(), 'voidbox-binding-'));
}, BUILD_LIMIT_MS);
afterAll(() => rmSync(base, { recursive: true, force: true }));
afterEach(() => forgetBinding());

function choose(way: (typeof WAYS)[number]): void {
  if (way === 'binding') useBinding(file);
  else forgetBinding();
}

function useTheBinding(): Binding {
  useBinding(file);
  return findLoadedBinding()!;
}

function launchConfig(changes: Partial<LaunchConfig> = {}): LaunchConfig {
  const { qemu, bwrap, mke2fs, kernel, initramfs } = pieces;
  return {
    vmKey: KEY,
    memoryMib: 256,
    vcpus: 1,
    diskMib: 64,
    mounts: [],
    kernel: { path: kernel.path, kind: kernel.kind },
    initramfs,
    vmm: { name: 'qemu', program: qemu, accelerator: 'tcg', bwrap, mke2fs },
    ...changes,
  };
}

/** Describes what a caller gets; of a message, only what both ways know. */
async function outcome(work: Promise<unknown>): Promise<unknown> {
  try {
    return await work;
  } catch (error) {
    if (isCodedError(error)) return { code: error.code };
    return error instanceof Error ? { name: error.name } : error;
  }
}

describe.each(WAYS)('by %s', (way) => {
  let folder: string;
  const never = new AbortController().signal;
  const launch = (dir: string, changes: Partial<LaunchConfig> = {}, signal = never): Promise<unknown> =>
    outcome(launchKeeper(pieces.keeper, dir, launchConfig(changes), signal));
  const status = (dir: string): Promise<unknown> => outcome(readRunDir(pieces.keeper, dir));

  beforeAll(() => {
    folder = join(base, way.replace(' ', '-'));
    mkdirSync(folder);
  });

  it('a run directory without a VM is new, and never gets one once it is sealed', async () => {
    choose(way);
    const dir = join(folder, 'sealed');
    expect(await status(dir)).toEqual({ state: 'new', pid: null, fence: 0, exit: null });
    expect(await sealRunDir(pieces.keeper, dir, KEY)).toBe('stopped');
    const exit = { reason: 'stopped', code: 'vm/lost', message: 'the VM was stopped before it was started' };
    expect(await status(dir)).toEqual({ state: 'stopped', pid: null, fence: 0, exit });
    expect(await sealRunDir(pieces.keeper, dir, KEY)).toBe('stopped');
    expect(await launch(dir)).toEqual({ state: 'stopped' });
  });

  it('a VM whose keeper left no end is lost, and damaged files are no error', async () => {
    choose(way);
    const dir = join(folder, 'lost');
    mkdirSync(dir);
    for (const name of ['started', 'keeper.json', 'fence']) writeFileSync(join(dir, name), '{');
    expect(await status(dir)).toEqual({ state: 'lost', pid: null, fence: 0, exit: null });
    expect(await sealRunDir(pieces.keeper, dir, KEY)).toBe('lost');
    expect(await launch(dir)).toEqual({ state: 'lost' });
  });

  it('a folder that cannot be read is an error of the host', async () => {
    choose(way);
    writeFileSync(join(folder, 'file'), '');
    const dir = join(folder, 'file', 'vm');
    expect(await status(dir)).toEqual({ code: 'store/io' });
    expect(await outcome(sealRunDir(pieces.keeper, dir, KEY))).toEqual({ code: 'store/io' });
    expect(await launch(dir)).toEqual({ code: 'store/io' });
  });

  it('a VM is launched once, found by its directory, and ended', async () => {
    choose(way);
    const dir = join(folder, 'vm');
    expect(await launch(dir)).toEqual({ state: 'created' });
    expect(await status(dir)).toMatchObject({ state: 'running', pid: expect.any(Number) as number, exit: null });
    expect(await launch(dir)).toEqual({ state: 'attached' });
    expect(await sealRunDir(pieces.keeper, dir, KEY)).toBe('running');
    await endVm(pieces.keeper, dir, KEY);
    await expect.poll(() => status(dir)).toMatchObject({ state: 'stopped' });
    expect(await sweepRunDirs(pieces.keeper, folder, null)).toContainEqual(
      expect.objectContaining({ name: 'vm', vmKey: KEY }),
    );
  });

  it('a launch that the keeper refuses has the code of the refusal', async () => {
    choose(way);
    const budget = { memoryMib: 100, overheadMib: 10 };
    expect(await launch(join(folder, 'no-room'), { budget })).toEqual({ code: 'vm/no-capacity' });
    expect(await launch(join(folder, 'wrong'), { vcpus: 0 })).toEqual({ name: 'Error' });
    const absent = launchKeeper(join(folder, 'absent'), join(folder, 'none'), launchConfig(), never);
    expect(await outcome(absent)).toEqual({ code: 'host/not-ready' });
  });

  it('a launch ends with its signal', async () => {
    choose(way);
    const reason = new Error('enough');
    const controller = new AbortController();
    const launching = launchKeeper('/bin/sleep', '1000', launchConfig(), controller.signal);
    controller.abort(reason);
    await expect(launching).rejects.toBe(reason);
    await expect(launchKeeper(pieces.keeper, folder, launchConfig(), controller.signal)).rejects.toBe(reason);
  });

  it('facts of the host have the same form', async () => {
    choose(way);
    const { kvm, memoryTotalBytes, memoryAvailableBytes } = await readHostFacts(pieces.keeper);
    expect(['hardware', 'emulated', 'none', 'no-permission']).toContain(kvm);
    expect(memoryAvailableBytes).toBeLessThanOrEqual(memoryTotalBytes);
  });
});

it('calls that hang block neither the event loop, nor files, nor other calls', async () => {
  const binding = useTheBinding();
  const dir = join(base, 'hangs');
  mkdirSync(dir);
  // The open of a pipe waits for its other side.
  const pipe = join(dir, 'fence');
  expect(spawnSync('mkfifo', [pipe]).status).toBe(0);
  const hung = Array.from({ length: 40 }, () => binding.status(dir));
  let settled = 0;
  for (const call of hung) void call.then(() => (settled += 1));
  let beats = 0;
  const heart = setInterval(() => (beats += 1), 10);
  try {
    const limited = askBinding('a call', 100, hung[0]!);
    await expect(limited).rejects.toMatchObject({ code: 'vm/lost', message: 'a call did not end in 100 ms' });
    for (let round = 0; round < 20; round += 1) {
      await readFile('/proc/self/stat');
      expect(JSON.parse(await binding.status(base))).toMatchObject({ state: 'new' });
    }
    await expect.poll(() => beats).toBeGreaterThan(5);
    expect(settled).toBe(0);
  } finally {
    clearInterval(heart);
    while (settled < hung.length) {
      const open = openSync(pipe, 'r+');
      await sleep(20);
      closeSync(open);
      await sleep(20);
    }
  }
});

it('ten thousand calls leave no descriptor and no process', { timeout: 300_000 }, async () => {
  const binding = useTheBinding();
  const dir = join(base, 'many');
  const programs = 300;
  const batch = 100;
  await binding.seal(dir, KEY);
  await binding.status(dir);
  const before = readdirSync('/proc/self/fd').length;
  for (let done = 0; done < 10_000 - programs; done += batch) {
    const calls = Array.from({ length: batch }, (_, index) =>
      index % 10 === 0 ? binding.seal(dir, KEY) : binding.status(dir),
    );
    await Promise.all(calls);
  }
  for (let done = 0; done < programs; done += 10) {
    const ids = Array.from({ length: 10 }, () => binding.nextId());
    const runs = ids.map((id, index) =>
      binding.runProgram(id, index === 0 ? '/nowhere' : '/bin/cat', [], [], 'text', 60_000, index === 1 ? 1 : 100),
    );
    binding.stopProgram(ids[2]!);
    await Promise.all(runs);
  }
  expect(readdirSync('/proc/self/fd').length).toBeLessThanOrEqual(before);
  expect(childrenOf(process.pid)).toEqual([]);
});

function childrenOf(pid: number): readonly string[] {
  const { stdout } = spawnSync('ps', ['-o', 'comm=', '--ppid', String(pid)], { encoding: 'utf8' });
  return stdout.split('\n').filter((name) => name === 'cat');
}
