/** Measures a checkpoint of a written disk against copies of the same file by `cp`. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { LaunchSpec } from '../../activities/ports/sandbox.ts';
import { type Arm, createArm } from '../measure.ts';
import { runProgram } from '../vm.ts';
import { readTreeCpuMs } from './processes.ts';
import { startVm, type StartedVm, type VmHost } from './snapshots.ts';

const run = promisify(execFile);
const never = new AbortController().signal;
const MEGABYTE = 1_000_000;
/** The guest makes this many random bytes once, and writes them again and again. */
const PIECE_MB = 10;

export type CopyMeasure = 'ms' | 'cpuMs';

/** Returns a VM that has written so many megabytes. They are on the disk of the host. */
export async function startWrittenVm(host: VmHost, megabytes: number, change: Partial<LaunchSpec>): Promise<StartedVm> {
  const started = await startVm(host, change);
  const pieces = Math.ceil(megabytes / PIECE_MB);
  const script = [
    `dd if=/dev/urandom of=/tmp/piece bs=${MEGABYTE} count=${PIECE_MB} 2>/dev/null`,
    `for i in $(seq ${pieces}); do cat /tmp/piece; done > /workspace/data`,
    'rm /tmp/piece && sync',
  ].join(' && ');
  try {
    await runProgram(started.vm, 'sh', ['-c', script]);
    return started;
  } catch (error) {
    await started[Symbol.asyncDispose]();
    throw error;
  }
}

/** The whole call, and the CPU time of the keeper and of everything below it in this time. */
export function createCheckpointArm(name: string, { vm, keeperPid }: StartedVm, folder: string): Arm<CopyMeasure> {
  return createCopyArm(name, folder, async (to) => {
    const cpuMs = readTreeCpuMs(keeperPid);
    const ms = await measureMs(() => vm.checkpoint({ dir: to, withSecrets: false }, never));
    return { ms, cpuMs: readTreeCpuMs(keeperPid) - cpuMs };
  });
}

/** `cp --reflink=auto` of the same disk. */
export function createCpArm(
  name: string,
  { dir }: StartedVm,
  folder: string,
  { syncs }: { readonly syncs: boolean },
): Arm<CopyMeasure> {
  return createCopyArm(name, folder, async (to) => {
    const copy = `cp --reflink=auto "$1" "$2"${syncs ? ' && sync "$2"' : ''}`;
    let times = '';
    const script = `TIMEFORMAT='%U %S'; time { ${copy}; }`;
    const ms = await measureMs(async () => {
      times = (await run('bash', ['-c', script, 'bash', join(dir, 'scratch.img'), to])).stderr;
    });
    return { ms, cpuMs: sumSeconds(times) * 1_000 };
  });
}

/** Pending writes of the arm before must not count for this one, and each arm finds the same room. */
function createCopyArm(
  name: string,
  folder: string,
  copy: (to: string) => Promise<Record<CopyMeasure, number>>,
): Arm<CopyMeasure> {
  return createArm(name, async () => {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder);
    await run('sync');
    return await copy(join(folder, randomUUID()));
  });
}

async function measureMs(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

/** @param times  user and system time in seconds, as Bash writes them by `TIMEFORMAT='%U %S'` */
export function sumSeconds(times: string): number {
  const seconds = times.trim().split(/\s+/).map(Number);
  if (seconds.length !== 2 || seconds.some((value) => !Number.isFinite(value)))
    throw new Error(`not the times of a command: ${JSON.stringify(times)}`);
  return seconds[0]! + seconds[1]!;
}
