/** Figure (e): what stages that run cost in memory, in the worker and beside the guests. */
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { type Spread, format, residentMib, spread } from './measure.ts';

const VMS = 4;
const GUEST_MIB = 256;

export interface MemoryOptions {
  readonly address: string;
  readonly workerPid: number;
  readonly stateDir: string;
  readonly rounds: number;
  readonly say: (line: string) => void;
}

export interface MemoryFigure {
  readonly workerIdleMib: Spread;
  readonly workerPerStageMib: Spread;
  readonly qemuBesideGuestMib: Spread;
  readonly keeperMib: Spread;
}

export async function measureMemory(options: MemoryOptions): Promise<MemoryFigure> {
  const client = new Client({ connection: await Connection.connect({ address: options.address }) });
  const idle: number[] = [];
  const perStage: number[] = [];
  const beside: number[] = [];
  const keepers: number[] = [];
  for (let round = 1; round <= options.rounds; round++) {
    const before = residentMib(options.workerPid);
    const handle = await client.workflow.start('voidboxRun', {
      taskQueue: 'voidbox',
      workflowId: `bench-memory-${randomUUID()}`,
      args: [{ spec: boxesSpec() }],
    });
    const vms = await liveVms(options.stateDir);
    await sleep(3_000);
    const during = residentMib(options.workerPid);
    idle.push(before);
    perStage.push((during - before) / VMS);
    for (const vm of vms) {
      keepers.push(residentMib(vm.keeperPid));
      beside.push(residentOutsideGuestMib(vm.vmmPid));
    }
    await handle.cancel();
    await handle.result().catch(() => undefined);
    options.say(
      `  round ${round}/${options.rounds}: worker ${format(before)} → ${format(during)} MiB, QEMU beside guest ${format(beside.at(-1)!)} MiB, keeper ${format(keepers.at(-1)!)} MiB`,
    );
  }
  return {
    workerIdleMib: spread(idle),
    workerPerStageMib: spread(perStage),
    qemuBesideGuestMib: spread(beside),
    keeperMib: spread(keepers),
  };
}

/** Boxes side by side, each in its own VM, that run until they are cancelled. */
function boxesSpec(): string {
  const names = Array.from({ length: VMS }, (_, index) => `box${index}`);
  const boxes = names.map((name) => `    - { name: ${name}, run: { program: sleep, args: ['600'] } }`).join('\n');
  return `api_version: v1\nkind: pipeline\nname: memory\nmax_parallel: ${VMS}\nsandbox: { memory_mb: ${GUEST_MIB} }\npipeline:\n  boxes:\n${boxes}\n  stages:\n    - { type: fan_out, boxes: [${names.join(', ')}] }\n`;
}

interface LiveVm {
  readonly keeperPid: number;
  readonly vmmPid: number;
}

async function liveVms(stateDir: string): Promise<readonly LiveVm[]> {
  for (let tries = 0; tries < 600; tries++) {
    const found = vmsOf(stateDir);
    if (found.length === VMS) return found;
    await sleep(200);
  }
  throw new Error(`${VMS} VMs were not up within 120 s`);
}

function vmsOf(stateDir: string): readonly LiveVm[] {
  const found: LiveVm[] = [];
  let names: string[];
  try {
    names = readdirSync(join(stateDir, 'vms'));
  } catch {
    return [];
  }
  for (const name of names) {
    try {
      const { pid } = JSON.parse(readFileSync(join(stateDir, 'vms', name, 'keeper.json'), 'utf8')) as { pid: number };
      const vmmPid = qemuBelow(pid);
      if (vmmPid !== null) found.push({ keeperPid: pid, vmmPid });
    } catch {
      // A folder of a VM that has ended or is being made.
    }
  }
  return found;
}

/** Returns the pid of the QEMU process below a keeper; the jail's processes are in between. */
function qemuBelow(keeperPid: number): number | null {
  const children = new Map<number, number[]>();
  const names = new Map<number, string>();
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    try {
      const stat = readFileSync(`/proc/${entry}/stat`, 'utf8');
      const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
      children.set(parent, [...(children.get(parent) ?? []), Number(entry)]);
      names.set(Number(entry), stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')')));
    } catch {
      // Gone.
    }
  }
  const queue = [keeperPid];
  for (let pid = queue.shift(); pid !== undefined; pid = queue.shift()) {
    if (names.get(pid)?.startsWith('qemu') === true) return pid;
    queue.push(...(children.get(pid) ?? []));
  }
  return null;
}

/** Resident memory of a process without the mapping that is the guest's memory. @source proc_pid_smaps(5) */
function residentOutsideGuestMib(pid: number): number {
  let kib = 0;
  let isGuest = false;
  for (const line of readFileSync(`/proc/${pid}/smaps`, 'utf8').split('\n')) {
    const range = /^([0-9a-f]+)-([0-9a-f]+) (\S+)/.exec(line);
    if (range) {
      const sizeMib = (Number.parseInt(range[2]!, 16) - Number.parseInt(range[1]!, 16)) / 2 ** 20;
      // The cache of translated code may be as large, and is executable.
      isGuest = sizeMib === GUEST_MIB && !range[3]!.includes('x');
    } else if (!isGuest && line.startsWith('Rss:')) {
      kib += Number(line.split(/\s+/)[1]);
    }
  }
  return kib / 1024;
}
