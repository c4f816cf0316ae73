/** The cost of a VM that starts from a snapshot, against one that boots. */
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LaunchSpec, Sandbox, SandboxBackend, VmKey } from '../../activities/ports/sandbox.ts';
import { vmRunDir } from '../../native/index.ts';
import { type Arm, createArm } from '../measure.ts';
import { readTreeCpuMs, readTreePssMib } from './processes.ts';
import { PLAN, runTrue } from '../vm.ts';

const never = new AbortController().signal;
/** The time within which a keeper must publish a snapshot. */
const PUBLISH_LIMIT_MS = 30_000;
const BLOCK_BYTES = 512;

export type StartMeasure = 'toFirstExecMs' | 'cpuMs';

/** A backend with the folder of its VMs, which leads to their keepers. */
export interface VmHost {
  readonly backend: SandboxBackend;
  readonly vmsDir: string;
}

export interface StartArm {
  readonly name: string;
  /** The host of each round, so that a round may begin with an empty folder of snapshots. */
  readonly findHost: () => VmHost;
  readonly start: 'cold' | 'snapshot';
  readonly change?: Partial<LaunchSpec>;
  /** Is called after the VM has ended. */
  readonly clear?: () => Promise<void>;
}

/** From the call to the first command's exit: the time, and the CPU time of the keeper and everything below it. */
export function createStartArm({ name, findHost, start, change = {}, clear }: StartArm): Arm<StartMeasure> {
  return createArm(name, async () => {
    const { backend, vmsDir } = findHost();
    const began = performance.now();
    await using started = await startVm({ backend, vmsDir }, change);
    const toFirstExecMs = performance.now() - began;
    const cpuMs = readTreeCpuMs(started.keeperPid);
    const { facts } = started.vm;
    if (facts.start !== start) throw new Error(`${name}: a ${facts.start} start: ${facts.startNote ?? 'no reason'}`);
    await started[Symbol.asyncDispose]();
    await clear?.();
    return { toFirstExecMs, cpuMs };
  });
}

export interface StartedVm extends AsyncDisposable {
  readonly vm: Sandbox;
  readonly keeperPid: number;
  /** The run directory of the keeper. */
  readonly dir: string;
}

/** Returns a VM after its first command. */
export async function startVm({ backend, vmsDir }: VmHost, change: Partial<LaunchSpec> = {}): Promise<StartedVm> {
  const key: VmKey = { runId: `bench-${randomUUID()}`, scope: 'bench', instance: [], generation: 0 };
  const vm = await backend.launch(key, { ...PLAN, ...change }, never);
  let isRunning = true;
  const stop = async (): Promise<void> => {
    if (!isRunning) return;
    isRunning = false;
    await vm.stop();
    await backend.release(key);
  };
  try {
    await runTrue(vm);
    const dir = vmRunDir(vmsDir, key);
    const { pid: keeperPid } = JSON.parse(readFileSync(join(dir, 'keeper.json'), 'utf8')) as { pid: number };
    return { vm, keeperPid, dir, [Symbol.asyncDispose]: stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Makes the snapshot of a size, and waits until it is published. */
export async function makeSnapshot(host: VmHost, dir: string, change: Partial<LaunchSpec> = {}): Promise<void> {
  const before = listSnapshots(dir).length;
  await using started = await startVm(host, change);
  if (started.vm.facts.start !== 'cold') throw new Error('the snapshot already exists');
  const deadline = performance.now() + PUBLISH_LIMIT_MS;
  while (listSnapshots(dir).length === before) {
    if (performance.now() > deadline)
      throw new Error(`no snapshot was made: ${started.vm.facts.startNote ?? 'it takes too long'}`);
    await sleep(20);
  }
}

/** Lists complete snapshots. */
function listSnapshots(dir: string): readonly string[] {
  try {
    return readdirSync(dir).filter((name) => !name.startsWith('.'));
  } catch {
    return [];
  }
}

/** Returns the room that each complete snapshot takes on the disk, by the memory of its guest. */
export function readSizesMib(dir: string): ReadonlyMap<number, number> {
  const sizes = listSnapshots(dir).map((name) => {
    const folder = join(dir, name);
    const { memoryMib } = JSON.parse(readFileSync(join(folder, 'snapshot.json'), 'utf8')) as { memoryMib: number };
    const blocks = readdirSync(folder).reduce((sum, file) => sum + statSync(join(folder, file)).blocks, 0);
    return [memoryMib, (blocks * BLOCK_BYTES) / 2 ** 20] as const;
  });
  return new Map(sizes);
}

export interface MemoryOfCopies {
  /** The first copy uses this while it runs without others. */
  readonly firstMib: number;
  /** Each further copy adds this, while all of them run. */
  readonly furtherMib: number;
}

/** Starts copies one after the other, and lets them run side by side. */
export async function measureCopies(host: VmHost, copies: number): Promise<MemoryOfCopies> {
  const running: StartedVm[] = [];
  let firstMib = 0;
  try {
    for (let copy = 0; copy < copies; copy += 1) {
      const started = await startVm(host);
      running.push(started);
      if (started.vm.facts.start !== 'snapshot') throw new Error('a VM does not start from the snapshot');
      if (copy === 0) firstMib = readTreePssMib(started.keeperPid);
    }
    const allMib = running.reduce((sum, { keeperPid }) => sum + readTreePssMib(keeperPid), 0);
    return { firstMib, furtherMib: (allMib - firstMib) / (copies - 1) };
  } finally {
    for (const started of running) await started[Symbol.asyncDispose]();
  }
}
