/**
 * Kills keepers while bubblewrap builds their jail. The VMM is a program that sleeps: like a hostile guest, it never
 * ends on its own, so only the host can end it.
 */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readEnvironment } from '../setup/environment.ts';
import type { HostPieces } from '../setup/pieces/host-pieces.ts';
import { resolveHostPieces } from '../setup/resolve.ts';

/** Enough moments to hit each step of bubblewrap, which makes a jail in about 5 ms. */
const MOMENTS = [...spread('the answer of the keeper', 16, 80), ...spread('the start of bubblewrap', 48, 8)];
const START_LIMIT_MS = 20_000;
const END_LIMIT_MS = 10_000;

interface Moment {
  readonly from: 'the answer of the keeper' | 'the start of bubblewrap';
  readonly delayMs: number;
}

function spread(from: Moment['from'], rounds: number, lastMs: number): Moment[] {
  return Array.from({ length: rounds }, (_, round) => ({ from, delayMs: (round * lastMs) / rounds }));
}

let base: string;
let pieces: HostPieces;
beforeAll(async () => {
  pieces = await resolveHostPieces(readEnvironment(), { install: true, kernelKind: 'debian' });
  base = mkdtempSync(join(tmpdir(), 'voidbox-lifeline-'));
  chmodSync(base, 0o755);
});
afterAll(() => {
  for (const pid of processesNaming(base)) end(pid);
  rmSync(base, { recursive: true, force: true });
});

it('nothing of a jail outlives a keeper that is killed while it is built', { timeout: 300_000 }, async () => {
  const qemu = sleeper(join(base, 'vmm'));
  const survived: string[] = [];
  for (const [round, { from, delayMs }] of MOMENTS.entries()) {
    const keeper = launchKeeper(join(base, `vm-${round}`), qemu);
    if (from === 'the start of bubblewrap') waitForJail(keeper);
    busyWait(delayMs);
    process.kill(keeper, 'SIGKILL');
    survived.push(...(await survivors()).map((words) => `${delayMs.toFixed(2)} ms after ${from}: ${words}`));
  }
  expect(survived).toEqual([]);
});

it('a keeper that lives keeps what runs in its jail, and says how it ended', { timeout: 300_000 }, async () => {
  const dir = join(base, 'ends');
  const keeper = launchKeeper(dir, program(join(base, 'ends-vmm'), 'exit 7'));
  await expect.poll(() => processesNaming(String(dir)).includes(keeper), { timeout: START_LIMIT_MS }).toBe(false);
  expect(JSON.parse(readFileSync(join(dir, 'exit.json'), 'utf8'))).toMatchObject({
    reason: 'boot-timeout',
    message: expect.stringContaining('(exit status: 7)') as string,
  });
});

/** Makes a folder like those of QEMU's builds; its `bin/qemu` runs a shell script in the same folder. */
function program(folder: string, script: string): string {
  const bin = join(folder, 'bin');
  mkdirSync(bin, { recursive: true });
  for (const name of ['sh', 'sleep']) copyFileSync(join('/bin', name), join(bin, name));
  const path = join(bin, 'qemu');
  writeFileSync(path, `#!${bin}/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

function sleeper(folder: string): string {
  return program(folder, `exec ${folder}/bin/sleep 1000`);
}

/** Returns the keeper's process id once the keeper answers, which is before it starts its VMM. */
function launchKeeper(dir: string, qemu: string): number {
  const { kernel, initramfs, bwrap, mke2fs, keeper } = pieces;
  const config = {
    v: 1,
    vmKey: 'lifeline/scope/0',
    memoryMib: 64,
    vcpus: 1,
    diskMib: 16,
    mounts: [],
    bootTimeoutMs: START_LIMIT_MS,
  };
  const input = JSON.stringify({
    ...config,
    kernel: { path: kernel.path, kind: kernel.kind },
    initramfs,
    vmm: { name: 'qemu', program: qemu, accelerator: 'tcg', bwrap, mke2fs },
  });
  const { stdout } = spawnSync(keeper, ['launch', '--dir', dir], { input, encoding: 'utf8', timeout: START_LIMIT_MS });
  expect(JSON.parse(stdout)).toMatchObject({ state: 'created' });
  return (JSON.parse(stdout) as { readonly pid: number }).pid;
}

/** Blocks the thread, because a timer's millisecond is longer than the steps that the test must hit. */
function waitForJail(keeper: number): void {
  const deadlineMs = performance.now() + START_LIMIT_MS;
  const children = `/proc/${keeper}/task/${keeper}/children`;
  for (;;) {
    const pids = readOrEmpty(children).split(' ').filter(Boolean);
    if (pids.some((pid) => commandLine(pid).startsWith(`${pieces.bwrap}\0`))) return;
    if (performance.now() > deadlineMs) throw new Error(`keeper ${keeper} started no jail within ${START_LIMIT_MS} ms`);
  }
}

function busyWait(forMs: number): void {
  const untilMs = performance.now() + forMs;
  while (performance.now() < untilMs);
}

/** Returns the command lines of processes that still live after a fair time, and kills the processes. */
async function survivors(): Promise<string[]> {
  const deadlineMs = performance.now() + END_LIMIT_MS;
  let pids = processesNaming(base);
  while (pids.length > 0 && performance.now() < deadlineMs) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    pids = processesNaming(base);
  }
  return pids.map((pid) => {
    const words = commandLine(String(pid)).split('\0');
    end(pid);
    return `${words[0]} … ${words.at(-2)}`;
  });
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process ended with another process of its jail.
  }
}

/** Returns processes with `text` on their command line. A keeper and its children name the folder of this test. */
function processesNaming(text: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && commandLine(name).includes(text))
    .map(Number);
}

function commandLine(pid: string): string {
  return readOrEmpty(`/proc/${pid}/cmdline`);
}

/** A file of /proc disappears with its process. */
function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
