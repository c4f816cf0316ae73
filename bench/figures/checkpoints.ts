/** Measures the cost of a checkpoint: after each step, and of a written disk against `cp`. */
import { join } from 'node:path';
import { openStores } from '../../store/open-stores.ts';
import { type ArmResult, interleave, measurePairedRatio, spread } from '../measure.ts';
import type { Figure, FigureRow } from '../report.ts';
import { startServer, TUNED_FLAGS } from '../servers.ts';
import { type CopyMeasure, createCheckpointArm, createCpArm, startWrittenVm } from '../snapshots/disk-copies.ts';
import { createSavedArm, SAVED_STEPS } from '../snapshots/step-checkpoints.ts';
import { type Bench, startOurWorker } from './bench.ts';
import { createHost } from './snapshots.ts';

const STATE = 'checkpoints-state';
const WRITTEN_MB = 500;

export async function measureCheckpoints(bench: Bench): Promise<Figure> {
  const copies = await measureCopiesOfDisk(bench);
  const steps = await measureSteps(bench);
  return {
    title: '(q) Checkpoints',
    method: `${copies.method} ${steps.method}`,
    rows: [...copies.rows, ...steps.rows],
    goals: [...copies.goals, ...steps.goals],
    ratios: copies.ratios,
  };
}

type Part = Pick<Figure, 'method' | 'rows' | 'goals'>;

/** A checkpoint of a written disk against `cp` of the same file. */
async function measureCopiesOfDisk(bench: Bench): Promise<Part & Required<Pick<Figure, 'ratios'>>> {
  const folder = join(bench.workDir, 'copies');
  await using written = await startWrittenVm(createHost(bench, null), WRITTEN_MB, { diskMib: 1_024 });
  const arms = [
    createCheckpointArm(`checkpoint of ${WRITTEN_MB} MB`, written, folder),
    createCpArm('`cp --reflink=auto` of the disk', written, folder, { syncs: false }),
    createCpArm('`cp --reflink=auto` and `sync` of the copy', written, folder, { syncs: true }),
  ];
  const [checkpoint, cp, synced] = await interleave(arms, bench.rounds, bench.say);
  const takeMedian = (against: ArmResult<CopyMeasure>, measure: CopyMeasure): number =>
    measurePairedRatio(checkpoint!, against, measure).median;
  const inTime = takeMedian(cp!, 'ms');
  return {
    method: `A VM with 256 MiB has written ${WRITTEN_MB} MB: the whole call of a checkpoint, which freezes, copies and syncs the disk, and copies of the same file by \`cp\`. The CPU time of a checkpoint counts keeper and VMM.`,
    rows: [checkpoint!, cp!, synced!].flatMap(formatCopy),
    goals: [
      {
        what: `checkpoint of ${WRITTEN_MB} MB against \`cp --reflink=auto\`, paired`,
        value: inTime,
        goal: '≤ 1.5',
        met: inTime <= 1.5,
      },
    ],
    ratios: [
      { what: 'its CPU time against that of `cp`', value: takeMedian(cp!, 'cpuMs') },
      { what: 'its time against `cp` and `sync`', value: takeMedian(synced!, 'ms') },
    ],
  };
}

function formatCopy({ name, rounds }: ArmResult<CopyMeasure>): readonly FigureRow[] {
  return [
    { what: name, value: spread(rounds.map(({ ms }) => ms)), unit: 'ms' },
    { what: 'its CPU time', value: spread(rounds.map(({ cpuMs }) => cpuMs)), unit: 'ms' },
  ];
}

async function measureSteps(bench: Bench): Promise<Part> {
  const { pieces, workDir } = bench;
  await using server = await startServer(pieces.temporalCli, join(workDir, 'checkpoints.db'), TUNED_FLAGS);
  await using _worker = await startOurWorker(bench, server.address, STATE);
  const { reader } = await openStores({ stateDir: join(workDir, STATE) });
  const common = { address: server.address, reader };
  const arms = [
    await createSavedArm({ ...common, name: 'off', checkpoint: 'off', writtenMb: 0 }),
    await createSavedArm({ ...common, name: 'each-step, nothing written', checkpoint: 'each-step', writtenMb: 0 }),
    await createSavedArm({ ...common, name: 'each-step, 100 MB written', checkpoint: 'each-step', writtenMb: 100 }),
  ];
  const results = await interleave(arms, bench.rounds, bench.say);
  const [off, empty, written] = results.map(({ rounds }) => rounds.map(({ msPerStep }) => msPerStep));
  const subtractOff = (values: readonly number[]): readonly number[] =>
    values.map((value, index) => value - off![index]!);
  const emptyMs = spread(subtractOff(empty!));
  const [, copied, large] = results.map(({ rounds }) => spread(rounds.map(({ copyMs }) => copyMs)));
  return {
    method: `Steps: a workflow of ${SAVED_STEPS} steps that do nothing, in one VM with 256 MiB: the time from the end of the first step to the end of the last one, for each step. With 100 MB, the first step writes them, and each checkpoint copies them.`,
    rows: [
      { what: 'a step with `checkpoint: off`', value: spread(off!), unit: 'ms' },
      { what: 'more with `each-step`, nothing written', value: emptyMs, unit: 'ms' },
      { what: 'of it, the freeze and the copy', value: copied!, unit: 'ms' },
      { what: 'more with `each-step`, 100 MB written', value: spread(subtractOff(written!)), unit: 'ms' },
      { what: 'of it, the freeze and the copy', value: large!, unit: 'ms' },
    ],
    goals: [
      {
        what: 'a step with `each-step`, nothing written, beyond one with `off`',
        value: emptyMs.median,
        goal: '≤ 60 ms',
        met: emptyMs.median <= 60,
      },
    ],
  };
}
