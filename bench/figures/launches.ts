/** Measures how a process of Node launches and asks keepers: by the binding, and by child processes of Node. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { forgetBinding, useBinding } from '../../native/binding.ts';
import { endVm, type LaunchConfig, MicroVm, readRunDir } from '../../native/index.ts';
import { resolveOptionalPieces } from '../../setup/resolve.ts';
import { type Arm, type ArmResult, createArm, interleave, measurePairedRatio, spread } from '../measure.ts';
import type { Figure, FigureRow } from '../report.ts';
import type { Bench } from './bench.ts';

type LaunchMeasure = 'ms' | 'blockedMs' | 'cpuMs';

/** About the memory of a worker. */
const BALLAST_MIB = 300;
const KEY = 'bench/launch/0';
const MOST = 0.5;

export async function takeLaunchFigure(bench: Bench): Promise<Figure> {
  const binding = (await resolveOptionalPieces(bench.env, ['binding'], { install: true })).get('binding')!;
  const ballast = Array.from({ length: BALLAST_MIB }, () => Buffer.alloc(1024 * 1024, 1));
  mkdirSync(join(bench.workDir, 'launches'));
  try {
    const [launch, child, status, statusOfChild] = await interleave(
      [
        createLaunchArm(bench, 'launch, by the binding', () => useBinding(binding)),
        createLaunchArm(bench, 'launch, by a child process of Node', forgetBinding),
        createStatusArm(bench, 'status, by the binding', () => useBinding(binding)),
        createStatusArm(bench, 'status, by a child process of Node', forgetBinding),
      ],
      bench.rounds,
      bench.say,
    );
    return {
      title: '(r) How Node launches and asks keepers',
      method: `A process of Node with ${ballast.length} MiB of memory, about that of a worker, launches a keeper and connects to it, or reads the state of a directory. The keeper's VM boots later, and is ended. "Blocked" is the time in which the call itself returns, and in which JavaScript does nothing else. CPU is the time of that process.`,
      rows: [launch!, child!, status!, statusOfChild!].flatMap(formatRows),
      goals: [
        checkRatio('a launch by the binding against a child process: CPU', launch!, child!, 'cpuMs'),
        checkRatio('a status by the binding against a child process: time', status!, statusOfChild!, 'ms'),
      ],
    };
  } finally {
    forgetBinding();
  }
}

function createLaunchArm(bench: Bench, name: string, choose: () => void): Arm<LaunchMeasure> {
  const signal = new AbortController().signal;
  let round = 0;
  return createArm(name, async () => {
    choose();
    round += 1;
    const dir = join(bench.workDir, 'launches', `${name.replaceAll(/\W+/g, '-')}-${round}`);
    const { keeper } = bench.pieces;
    const measured = await measure(async () => {
      const vm = await MicroVm.launch({ keeper, dir, config: writeConfig(bench) }, signal);
      vm.close();
    });
    await endVm(keeper, dir, KEY);
    return measured;
  });
}

function createStatusArm({ pieces, workDir }: Bench, name: string, choose: () => void): Arm<LaunchMeasure> {
  return createArm(name, async () => {
    choose();
    return await measure(async () => void (await readRunDir(pieces.keeper, join(workDir, 'launches', 'none'))));
  });
}

function writeConfig({ pieces: { qemu, bwrap, mke2fs, kernel, initramfs } }: Bench): LaunchConfig {
  return {
    vmKey: KEY,
    memoryMib: 256,
    vcpus: 1,
    diskMib: 64,
    mounts: [],
    kernel: { path: kernel.path, kind: kernel.kind },
    initramfs,
    vmm: { name: 'qemu', program: qemu, accelerator: 'tcg', bwrap, mke2fs },
  };
}

async function measure(work: () => Promise<void>): Promise<Readonly<Record<LaunchMeasure, number>>> {
  const cpu = process.cpuUsage();
  const startMs = performance.now();
  // The process starts its child before it has a promise.
  const working = work();
  const blockedMs = performance.now() - startMs;
  await working;
  const ms = performance.now() - startMs;
  const { user, system } = process.cpuUsage(cpu);
  return { ms, blockedMs, cpuMs: (user + system) / 1e3 };
}

function formatRows({ name, rounds }: ArmResult<LaunchMeasure>): readonly FigureRow[] {
  const formatRow = (what: string, read: (round: (typeof rounds)[number]) => number): FigureRow => ({
    what: `${name}: ${what}`,
    value: spread(rounds.map(read)),
    unit: 'ms',
  });
  return [
    formatRow('time', ({ ms }) => ms),
    formatRow('blocked', ({ blockedMs }) => blockedMs),
    formatRow('CPU', ({ cpuMs }) => cpuMs),
  ];
}

function checkRatio(
  what: string,
  result: ArmResult<LaunchMeasure>,
  base: ArmResult<LaunchMeasure>,
  by: LaunchMeasure,
): Figure['goals'][number] {
  const value = measurePairedRatio(result, base, by).median;
  return { what: `${what}, paired`, value, goal: `≤ ${MOST}`, met: value <= MOST };
}
