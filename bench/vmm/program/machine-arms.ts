/** Arms of VMs without a keeper: the VMM of Voidbox, and the floor. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { type Arm, createArm } from '../../measure.ts';
import type { BenchTask } from '../task.ts';

const MEMORY_MIB = 128;
const ROUND_TRIPS = 300;
/** The line of a guest of `voidbox-vmm`, without what only the agent reads. */
const COMMAND_LINE = 'console=ttyS0 loglevel=4 panic=-1 reboot=k';

const run = promisify(execFile);

interface Measured {
  readonly startedMs?: number;
  readonly initMs?: number;
  readonly exits?: number | Readonly<Record<string, number>>;
  readonly memory?: { readonly rssKib: number; readonly anonymousKib: number; readonly threads: number };
  readonly roundTrip?: {
    readonly microseconds: number;
    readonly kicks: number;
    readonly interrupts: number;
    readonly exits: number;
  };
}

async function measure({ machine, vmm }: BenchTask, kind: 'vmm' | 'floor', trips: number): Promise<Measured> {
  const program = kind === 'vmm' ? vmm : machine.floor;
  const words = [
    kind,
    program,
    machine.kernel.path,
    machine.initramfs,
    String(MEMORY_MIB),
    COMMAND_LINE,
    String(trips),
  ];
  const { stdout } = await run(machine.measure, words);
  return JSON.parse(stdout) as Measured;
}

type BootMeasure = 'firstRunMs' | 'initMs' | 'exits' | 'rssKib' | 'anonymousKib' | 'threads';
type TripMeasure = 'tripUs' | 'tripKicks' | 'tripInterrupts' | 'tripExits';

/** The boot to the first program, what the VMM has used until then, and round trips over vsock. */
export function createBootArm(name: string, task: BenchTask): Arm<BootMeasure | TripMeasure> {
  return createArm(name, async () => {
    const measured = await measure(task, 'vmm', ROUND_TRIPS);
    const { roundTrip } = measured;
    if (roundTrip === undefined) throw new Error(`no round trips: ${JSON.stringify(measured)}`);
    const { microseconds, kicks, interrupts, exits } = roundTrip;
    return {
      ...readBoot(measured),
      tripUs: microseconds,
      tripKicks: kicks,
      tripInterrupts: interrupts,
      tripExits: exits,
    };
  });
}

export function createFloorBootArm(name: string, task: BenchTask): Arm<BootMeasure> {
  return createArm(name, async () => readBoot(await measure(task, 'floor', 0)));
}

function readBoot(measured: Measured): Record<BootMeasure, number> {
  const { startedMs, initMs, exits, memory } = measured;
  const count = typeof exits === 'object' ? exits['exits'] : exits;
  if (startedMs === undefined || initMs === undefined || count === undefined || memory === undefined)
    throw new Error(`the guest's first program did not run: ${JSON.stringify(measured)}`);
  return { firstRunMs: startedMs, initMs, exits: count, ...memory };
}
