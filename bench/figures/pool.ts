/** Measures how much of a start a VM saves that already waits for `Start`. */
import { createLauncher } from '../../sandbox/micro-vm/launch.ts';
import { withQemu } from '../../sandbox/micro-vm/qemu/backend.ts';
import { type ArmResult, interleave, spread } from '../measure.ts';
import type { Figure, FigureRow, Goal } from '../report.ts';
import { makeSnapshot } from '../snapshots/snapshots.ts';
import { createPoolArm, createWaitArm, type WaitMeasure } from '../snapshots/waits.ts';
import type { Bench } from './bench.ts';
import { buildHostOptions, createHost, findSnapshotsDir } from './snapshots.ts';

const LARGE = { memoryMib: 1_024 } as const;
/** A pool is worth its memory only if it saves more. */
const LEAST_MS = 60;

export async function measurePool(bench: Bench): Promise<Figure> {
  const dir = findSnapshotsDir(bench);
  const host = { ...createHost(bench, dir), launchVm: createLauncher(withQemu(buildHostOptions(bench, dir))) };
  await makeSnapshot(host, dir);
  await makeSnapshot(host, dir, LARGE);
  const large = `${LARGE.memoryMib} MiB`;
  const arms = [
    createWaitArm('256 MiB', host),
    createPoolArm('256 MiB, pool', host),
    createWaitArm(large, host, LARGE),
    createPoolArm(`${large}, pool`, host, LARGE),
  ];
  const results = await interleave(arms, bench.rounds, bench.say);
  return {
    title: '(s) A VM that waits for `Start`',
    method:
      "A VM of QEMU starts from a snapshot, or one is taken that has waited, with Debian's kernel and one vCPU. The start has three parts: from the call until the keeper of the key runs, until it sends the frame `Start`, and until the exit of the first command. The time in which a VM begins to wait does not count.",
    rows: results.flatMap(formatWait),
    goals: [checkSaved(results[0]!, results[1]!), checkSaved(results[2]!, results[3]!)],
  };
}

function formatWait({ name, rounds }: ArmResult<WaitMeasure>): readonly FigureRow[] {
  const formatRow = (what: string, measure: WaitMeasure): FigureRow => ({
    what: `${name}: ${what}`,
    value: spread(rounds.map((round) => round[measure])),
    unit: 'ms',
  });
  return [
    formatRow('from the call until the keeper runs', 'untilKeeperMs'),
    formatRow('from there to `Start`', 'untilStartMs'),
    formatRow("from `Start` to the first command's exit", 'afterStartMs'),
    formatRow("from the call to the first command's exit", 'wholeMs'),
  ];
}

function checkSaved(plain: ArmResult<WaitMeasure>, pooled: ArmResult<WaitMeasure>): Goal {
  const saved = plain.rounds.map(({ wholeMs }, index) => wholeMs - pooled.rounds[index]!.wholeMs);
  const value = spread(saved).median;
  return { what: `${plain.name}: saved by the pool, in ms`, value, goal: `> ${LEAST_MS}`, met: value > LEAST_MS };
}
