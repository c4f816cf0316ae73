/** The figures of `npm run bench vmm`, with their goals. */
import { type ArmResult, measurePairedRatio, type Spread, spread } from '../measure.ts';
import type { Figure, FigureRow, Goal } from '../report.ts';
import { ARMS } from './arms.ts';
import type { Results } from './task.ts';

/** Collects rows and goals of arms that may be missing: without our own kernel, some are not taken. */
class FigureParts {
  readonly rows: FigureRow[] = [];
  readonly goals: Goal[] = [];

  readonly #results: Results;

  constructor(results: Results) {
    this.#results = results;
  }

  /** The arm's result, unless it lacks the measure. */
  #find(arm: string, measure: string): ArmResult<string> | undefined {
    const result = this.#results.get(arm);
    return result?.rounds.every((round) => Number.isFinite(round[measure])) === true ? result : undefined;
  }

  add(arm: string, measure: string, unit: string, what = arm): this {
    const result = this.#find(arm, measure);
    if (result !== undefined) this.rows.push({ what, value: listValues(result, measure), unit });
    return this;
  }

  /** The median of paired ratios must be at most, or at least, the limit. Null: it is given without a goal. */
  compare(what: string, arms: readonly [string, string], measure: string, limit: Limit | null): this {
    const [a, b] = arms.map((arm) => this.#find(arm, measure));
    if (a === undefined || b === undefined) return this;
    const value = measurePairedRatio(a, b, measure);
    this.rows.push({ what, value, unit: '×' });
    if (limit !== null) this.#judge(what, value.median, limit, ' ×');
    return this;
  }

  judge(what: string, arm: string, measure: string, limit: Limit, unit: string): this {
    const result = this.#find(arm, measure);
    if (result !== undefined) this.#judge(what, listValues(result, measure).median, limit, ` ${unit}`.trimEnd());
    return this;
  }

  #judge(what: string, value: number, { sign, value: limit }: Limit, unit: string): void {
    const met = sign === '≤' ? value <= limit : value >= limit;
    this.goals.push({ what, value, goal: `${sign} ${limit}${unit}`, met });
  }
}

interface Limit {
  readonly sign: '≤' | '≥';
  readonly value: number;
}

/** Returns a limit that a value may reach. */
function setMost(value: number): Limit {
  return { sign: '≤', value };
}

function setLeast(value: number): Limit {
  return { sign: '≥', value };
}

function listValues(result: ArmResult<string>, measure: string): Spread {
  return spread(result.rounds.map((round) => round[measure]!));
}

/** Makes the figures of the results that there are. */
export function makeFigures(results: Results): readonly Figure[] {
  return [
    makeStart(results),
    makeFirstCommand(results),
    makeMemory(results),
    makeWarm(results),
    makeCopies(results),
    makeVsock(results),
    makeMany(results),
  ].filter(({ rows }) => rows.length > 0);
}

function makeStart(results: Results): Figure {
  const parts = new FigureParts(results)
    .add(ARMS.floorBoot, 'firstRunMs', 'ms', 'floor, to the first KVM_RUN')
    .add(ARMS.vmmBoot, 'firstRunMs', 'ms', 'vmm, to the first KVM_RUN')
    .compare(
      'start to the first KVM_RUN, against the floor',
      [ARMS.vmmBoot, ARMS.floorBoot],
      'firstRunMs',
      setMost(1.15),
    )
    .add(ARMS.floorBoot, 'initMs', 'ms', 'floor, to /init')
    .add(ARMS.vmmBoot, 'initMs', 'ms', 'vmm, to /init')
    .compare('start to /init, against the floor', [ARMS.vmmBoot, ARMS.floorBoot], 'initMs', setMost(1.05))
    .add(ARMS.floorBoot, 'exits', 'exits', 'floor, exits to /init')
    .add(ARMS.vmmBoot, 'exits', 'exits', 'vmm, exits to /init')
    .judge('exits to /init', ARMS.vmmBoot, 'exits', setMost(1300), 'exits');
  return {
    title: 'Start against the floor',
    method:
      'The floor is a VMM of 200 lines (`bench/vmm/machine/`) with 2 MiB pages, a serial port, and nothing else. Both start as processes without a jail, with our own kernel, or the one of Debian if ours is not built, 1 vCPU and 128 MiB. To the first KVM_RUN: the time ends when the VMM reports that it runs its CPU. To /init: the time ends when the line of a static first program arrives from the console. The exits are those that KVM counts (`KVM_GET_STATS_FD`).',
    rows: parts.rows,
    goals: parts.goals,
  };
}

function makeFirstCommand(results: Results): Figure {
  const parts = new FigureParts(results);
  for (const arm of [ARMS.qemuCold, ARMS.qemuSnapshot, ARMS.vmmDebian, ARMS.qemuOwn, ARMS.qemuOwnSnapshot, ARMS.vmmOwn])
    parts.add(arm, 'toFirstExecMs', 'ms');
  const measure = 'toFirstExecMs';
  parts
    .compare("Debian's kernel, against QEMU's cold boot of it", [ARMS.vmmDebian, ARMS.qemuCold], measure, setMost(0.2))
    .compare("our kernel, against QEMU's cold boot of Debian's", [ARMS.vmmOwn, ARMS.qemuCold], measure, setMost(0.1))
    .compare("our kernel, against QEMU's cold boot of it", [ARMS.vmmOwn, ARMS.qemuOwn], measure, null)
    .compare("Debian's kernel, against QEMU restored", [ARMS.vmmDebian, ARMS.qemuSnapshot], measure, null)
    .compare('our kernel, against QEMU restored', [ARMS.vmmOwn, ARMS.qemuOwnSnapshot], measure, null);
  return {
    title: "From the call to the first command's exit",
    method:
      'Through the backend, keeper and jail that runs have, 256 MiB and 1 vCPU. A restored VM of QEMU starts from a snapshot that an earlier VM has made. The ratios to QEMU restored decide which VMM `mode: auto` takes on hardware KVM.',
    rows: parts.rows,
    goals: parts.goals,
  };
}

function makeMemory(results: Results): Figure {
  const parts = new FigureParts(results)
    .add(ARMS.vmmBoot, 'rssKib', 'KiB', "VMM, without the guest's memory")
    .add(ARMS.vmmBoot, 'anonymousKib', 'KiB', 'VMM, anonymous part')
    .add(ARMS.vmmBoot, 'threads', 'threads', 'VMM, threads')
    .judge("VMM, without the guest's memory", ARMS.vmmBoot, 'rssKib', setMost(2343), 'KiB (2.4 MB)')
    .judge('VMM, anonymous part', ARMS.vmmBoot, 'anonymousKib', setMost(214), 'KiB (220 kB)')
    .add(ARMS.vmmResident, 'besideMib', 'MiB', 'VMM, jail and keeper')
    .judge('VMM, jail and keeper', ARMS.vmmResident, 'besideMib', setMost(8), 'MiB');
  return {
    title: 'Memory',
    method:
      "Resident memory without the mapping that is the guest's. The VMM: at /init, 128 MiB guest, no jail. With its jail and keeper: a VM as runs have it after its first command; each process counts in full, also what they share.",
    rows: parts.rows,
    goals: parts.goals,
  };
}

function makeWarm(results: Results): Figure {
  const parts = new FigureParts(results)
    .add(ARMS.qemuExec, 'roundTripMs', 'ms')
    .add(ARMS.vmmExec, 'roundTripMs', 'ms')
    .compare('exec round trip, against QEMU', [ARMS.vmmExec, ARMS.qemuExec], 'roundTripMs', setMost(0.5))
    .judge('exec round trip', ARMS.vmmExec, 'roundTripMs', setMost(8), 'ms');
  for (const [measure, what] of [
    ['writeMbPerS', 'file in'],
    ['readMbPerS', 'file out'],
  ] as const)
    parts
      .add(ARMS.qemuFile, measure, 'MB/s', `qemu, ${what}`)
      .add(ARMS.vmmFile, measure, 'MB/s', `vmm, ${what}`)
      .compare(`${what}, against QEMU's mailbox`, [ARMS.vmmFile, ARMS.qemuFile], measure, setLeast(1.5));
  return {
    title: 'Commands and files in a warm VM',
    method:
      "Two warm VMs with Debian's kernel, one on each VMM. A round trip runs `true` in the guest; one figure is the mean of 20. A file has 4 MiB and travels through the mailbox.",
    rows: parts.rows,
    goals: parts.goals,
  };
}

function makeCopies(results: Results): Figure {
  const parts = new FigureParts(results);
  const kernels = [
    ['Debian', ARMS.vmmBeside, ARMS.vmmSnapshot, ARMS.qemuBeside, ARMS.copiesOnVmm],
    ['our kernel', ARMS.vmmOwnBeside, ARMS.vmmOwnSnapshot, ARMS.qemuOwnBeside, ARMS.ownCopiesOnVmm],
  ] as const;
  for (const [kernel, boots, restores, qemu, copies] of kernels) {
    for (const arm of [boots, restores, qemu]) parts.add(arm, 'toFirstExecMs', 'ms');
    for (const arm of [boots, restores, qemu]) parts.add(arm, 'cpuMs', 'ms', `${arm}, CPU`);
    parts
      .compare(`${kernel}, restored against its boot`, [restores, boots], 'toFirstExecMs', setMost(0.1))
      .compare(`${kernel}, restored against its boot, CPU`, [restores, boots], 'cpuMs', null)
      .compare(`${kernel}, restored against QEMU restored`, [restores, qemu], 'toFirstExecMs', setMost(0.3))
      .compare(`${kernel}, restored against QEMU restored, CPU`, [restores, qemu], 'cpuMs', null)
      .add(copies, 'firstMib', 'MiB', `${kernel}, memory of the first copy`)
      .add(copies, 'furtherMib', 'MiB', `${kernel}, memory of each further copy`)
      .judge(`${kernel}, memory of each further copy`, copies, 'furtherMib', setMost(12), 'MiB');
  }
  parts
    .add(ARMS.oneRestored, 'allMs', 'ms')
    .add(ARMS.restoredAtOnce, 'allMs', 'ms')
    .compare('8 restored at once, against one', [ARMS.restoredAtOnce, ARMS.oneRestored], 'allMs', setMost(3));
  return {
    title: 'VMs that start from a snapshot',
    method:
      "From the call to the first command's exit, through the backend, keeper and jail that runs have, 256 MiB and 1 vCPU; CPU time is of the keeper and all processes below it. Copies get their first pages ahead. The ratios to QEMU restored decide which VMM `mode: auto` takes on hardware KVM. Memory is the proportional memory (Pss) of keeper, jail and VMM after the first command. The first copy runs without others; each further one of 10 adds its part. 8 at once have 128 MiB each, and our own kernel if it is built.",
    rows: parts.rows,
    goals: parts.goals,
  };
}

function makeVsock(results: Results): Figure {
  const parts = new FigureParts(results)
    .add(ARMS.vmmBoot, 'tripUs', 'µs', 'time')
    .add(ARMS.vmmBoot, 'tripKicks', 'kicks', 'kicks')
    .add(ARMS.vmmBoot, 'tripInterrupts', 'interrupts', 'interrupts')
    .add(ARMS.vmmBoot, 'tripExits', 'exits', 'exits')
    .judge('kicks', ARMS.vmmBoot, 'tripKicks', setMost(1), '')
    .judge('interrupts', ARMS.vmmBoot, 'tripInterrupts', setMost(1), '');
  return {
    title: 'A round trip over vsock',
    method:
      'The guest returns 64 bytes 300 times. The VMM counts kicks of all queues and its interrupts; KVM counts exits.',
    rows: parts.rows,
    goals: parts.goals,
  };
}

function makeMany(results: Results): Figure {
  const parts = new FigureParts(results)
    .add(ARMS.oneByOne, 'allMs', 'ms')
    .add(ARMS.atOnce, 'allMs', 'ms')
    .compare('at once, against one after the other', [ARMS.atOnce, ARMS.oneByOne], 'allMs', setMost(0.6));
  return {
    title: '8 VMs',
    method:
      'On two CPUs: the time until each of 8 VMs on voidbox-vmm has run its first command, 128 MiB each, our own kernel if it is built.',
    rows: parts.rows,
    goals: parts.goals,
  };
}
