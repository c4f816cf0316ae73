/** Makes snapshots of booted guests ahead of the VMs that start from them, by a VM of the same size that boots. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sandbox as Vm, SandboxFacts } from '../activities/ports/sandbox.ts';
import { SANDBOX_DEFAULTS } from '../domain/plan/defaults.ts';
import type { ImagePlan } from '../domain/plan/plan.ts';
import type { FindRootDisk, FindVmExtra } from '../sandbox/micro-vm/launch.ts';
import type { Environment } from '../setup/environment.ts';
import type { VmPieces } from '../setup/pieces/host-pieces.ts';
import type { LaunchChoice } from './launch-options.ts';
import { createRealVms } from './real-vms.ts';
import type { VmSource } from './vm-source.ts';

/** All that distinguishes the snapshots of one host. */
export interface BaseSize {
  readonly memoryMib: number;
  readonly vcpus: number;
  /** Absent: the image that every VM boots. */
  readonly image?: ImagePlan | undefined;
  /** Whether VMs have read-only mounts; their number and folders do not matter. */
  readonly hasMounts: boolean;
  /** The VMM, or the choice of one by `auto`. Neither VMM starts VMs from a snapshot of the other one. */
  readonly mode: 'auto' | 'qemu' | 'vmm';
}

export type BaseResult =
  | { readonly outcome: 'made'; readonly key: string; readonly bootMs: number; readonly startMs: number }
  | { readonly outcome: 'exists'; readonly key: string; readonly startMs: number }
  | { readonly outcome: 'failed'; readonly reason: string };

export interface BaseMaker {
  /** @throws CodedError of a VM that does not start */
  readonly make: (size: BaseSize, signal: AbortSignal) => Promise<BaseResult>;
}

export interface BaseMakerOptions {
  readonly env: Environment & { readonly snapshots: NonNullable<Environment['snapshots']> };
  readonly pieces: VmPieces;
  /** @throws CodedError `host/not-ready` */
  readonly extra: FindVmExtra;
  /** @throws CodedError `host/not-ready` */
  readonly disk: FindRootDisk;
}

/** The keeper writes some 80 MB to the disk, after which the snapshot counts. */
const PUBLISH_LIMIT_MS = 60_000;
const POLL_MS = 20;
/** The wait for memory that other VMs use. */
const ROOM_LIMIT_MS = 600_000;
/** The size of the scratch disk is not part of the key. */
const DISK_MIB = 64;

export function createBaseMaker({ env, pieces, extra, disk }: BaseMakerOptions): BaseMaker {
  const vms = createRealVms({ stateDir: env.stateDir, env, pieces: () => Promise.resolve(pieces), extra, disk });
  const { dir } = env.snapshots;
  return {
    async make(size, signal) {
      const empty = await mkdtemp(join(tmpdir(), 'voidbox-empty-'));
      try {
        return await makeBase(vms, createChoice(size, empty), dir, signal);
      } finally {
        await rm(empty, { recursive: true, force: true });
      }
    },
  };
}

async function makeBase(vms: VmSource, choice: LaunchChoice, dir: string, signal: AbortSignal): Promise<BaseResult> {
  const before = new Set(await listEntries(dir));
  const first = await launchBriefly(vms, choice, signal, () => waitUntilPublished(dir, before, signal));
  if (first.snapshot !== null) return { outcome: 'exists', key: first.snapshot, startMs: first.bootMs };
  if (first.startNote !== null) return { outcome: 'failed', reason: first.startNote };
  // Only a VM that starts from the snapshot proves that it can be used.
  const second = await launchBriefly(vms, choice, signal, () => waitUntilPublished(dir, before, signal));
  if (second.snapshot !== null)
    return { outcome: 'made', key: second.snapshot, bootMs: first.bootMs, startMs: second.bootMs };
  return {
    outcome: 'failed',
    reason: second.startNote ?? 'the keeper made no snapshot; it makes none if the disk of the cache is nearly full',
  };
}

/** Starts a VM, waits while it may still be saved, and ends it. */
async function launchBriefly(
  vms: VmSource,
  choice: LaunchChoice,
  signal: AbortSignal,
  untilSaved: () => Promise<void>,
): Promise<SandboxFacts> {
  const vm: Vm = (await vms.launch(choice, signal)).vm;
  try {
    if (vm.facts.start === 'cold' && vm.facts.startNote === null) await untilSaved();
    return vm.facts;
  } finally {
    await vm.stop();
  }
}

/** Waits until a snapshot is there that was not there before, or until no keeper writes one. */
async function waitUntilPublished(dir: string, before: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
  const deadlineMs = Date.now() + PUBLISH_LIMIT_MS;
  while (Date.now() < deadlineMs) {
    const names = await listEntries(dir);
    const isDone = names.some((name) => !name.startsWith('.') && !before.has(name));
    if (isDone || !names.some((name) => name.startsWith('.new-'))) return;
    await sleep(POLL_MS, undefined, { signal });
  }
}

async function listEntries(dir: string): Promise<readonly string[]> {
  return await readdir(dir).catch(() => []);
}

function createChoice({ memoryMib, vcpus, image, hasMounts, mode }: BaseSize, empty: string): LaunchChoice {
  return {
    name: 'snapshot',
    spec: {
      mode,
      isolation: SANDBOX_DEFAULTS.isolation,
      memoryMib,
      vcpus,
      diskMib: DISK_MIB,
      mounts: hasMounts ? [{ hostPath: empty, guestPath: '/mnt/empty', mode: 'ro' }] : [],
      ...(image === undefined ? {} : { image }),
    },
    env: {},
    from: null,
    hasDiskSize: true,
    hasSecrets: false,
    isMock: false,
    keepTtlMs: null,
    waitMs: ROOM_LIMIT_MS,
  };
}
