/** Arms of VMs that start from a snapshot of another one. */
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { QemuPieces } from '../../../sandbox/micro-vm/qemu/qemu.ts';
import { createRealHost, type RealHost } from '../../../test/conformance/sandbox/real-host.ts';
import { type Arm, createArm } from '../../measure.ts';
import { createStartArm, makeSnapshot, measureCopies, startVm } from '../../snapshots/snapshots.ts';
import { ARMS } from '../arms.ts';
import type { BenchTask } from '../task.ts';
import { createManyArm, SMALL } from './vm-arms.ts';

const MAX_MIB = 1_024;
const COPIES = 10;

export type TakeArms = (arms: readonly Arm<string>[], rounds: number) => Promise<void>;

interface Names {
  readonly boots: string;
  readonly restores: string;
  readonly qemu: string;
}

const DEBIAN: Names = { boots: ARMS.vmmBeside, restores: ARMS.vmmSnapshot, qemu: ARMS.qemuBeside };
const OWN: Names = { boots: ARMS.vmmOwnBeside, restores: ARMS.vmmOwnSnapshot, qemu: ARMS.qemuOwnBeside };

/** Opens hosts, and removes them with their VMs when `use` has ended. */
async function useHosts(use: (open: OpenHost) => Promise<void>): Promise<void> {
  const hosts: RealHost[] = [];
  try {
    await use(async (pieces, options) => {
      const host = await createRealHost(pieces, options);
      hosts.push(host);
      return host;
    });
  } finally {
    for (const host of hosts) await host.dispose();
  }
}

type OpenHost = (pieces: QemuPieces, options: NonNullable<Parameters<typeof createRealHost>[1]>) => Promise<RealHost>;

/** A VM of `voidbox-vmm` boots, another one is restored, and so is one of QEMU; then eight at once, and ten side by side. */
export async function takeCopies(task: BenchTask, take: TakeArms): Promise<void> {
  await takeStarts(task, task.pieces, DEBIAN, take);
  if (task.own !== null) await takeStarts(task, task.own, OWN, take);
  await takeSideBySide(task, task.own ?? task.pieces, take);
}

async function takeStarts(task: BenchTask, pieces: QemuPieces, names: Names, take: TakeArms): Promise<void> {
  const { vmm, bootTimeoutMs, rounds } = task;
  const dir = join(tmpdir(), `snapshots-${pieces.kernel.kind}`);
  const snapshots = { dir, maxMib: MAX_MIB };
  await useHosts(async (open) => {
    const cold = await open(pieces, { bootTimeoutMs, vmm, snapshots: 'off' });
    const native = await open(pieces, { bootTimeoutMs, vmm, snapshots });
    const qemu = await open(pieces, { bootTimeoutMs, snapshots });
    await makeSnapshot(native, dir);
    await makeSnapshot(qemu, dir);
    await take(
      [
        createStartArm({ name: names.boots, findHost: () => cold, start: 'cold' }),
        createStartArm({ name: names.restores, findHost: () => native, start: 'snapshot' }),
        createStartArm({ name: names.qemu, findHost: () => qemu, start: 'snapshot' }),
      ],
      rounds,
    );
    await take([createMemoryArm(ARMS_OF_MEMORY[names === OWN ? 'own' : 'debian'], native)], 1);
  });
}

const ARMS_OF_MEMORY = { debian: ARMS.copiesOnVmm, own: ARMS.ownCopiesOnVmm } as const;

/** The memory of the first copy while it runs without others, and of each of nine more. */
function createMemoryArm(name: string, host: RealHost): Arm<'firstMib' | 'furtherMib'> {
  return createArm(name, async () => ({ ...(await measureCopies(host, COPIES)) }));
}

async function takeSideBySide(task: BenchTask, pieces: QemuPieces, take: TakeArms): Promise<void> {
  const { vmm, bootTimeoutMs, rounds } = task;
  const dir = join(tmpdir(), 'snapshots-small');
  await useHosts(async (open) => {
    const host = await open(pieces, { bootTimeoutMs, vmm, snapshots: { dir, maxMib: MAX_MIB } });
    await makeSnapshot(host, dir, SMALL);
    await take(
      [
        createArm(ARMS.oneRestored, async () => {
          const began = performance.now();
          await using started = await startVm(host, SMALL);
          if (started.vm.facts.start !== 'snapshot') throw new Error(`it boots: ${started.vm.facts.startNote ?? ''}`);
          return { allMs: performance.now() - began };
        }),
        createManyArm(ARMS.restoredAtOnce, host.backend, true, 'snapshot'),
      ],
      rounds,
    );
  });
}
