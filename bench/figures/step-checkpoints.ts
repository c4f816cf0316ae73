/** Measures the cost of a checkpoint after each step. */
import { join } from 'node:path';
import { openStores } from '../../store/open-stores.ts';
import { interleave, spread } from '../measure.ts';
import type { Figure } from '../report.ts';
import { startServer, TUNED_FLAGS } from '../servers.ts';
import { createSavedArm, SAVED_STEPS } from '../snapshots/step-checkpoints.ts';
import { type Bench, startOurWorker } from './bench.ts';

const STATE = 'checkpoints-state';

export async function measureStepCheckpoints(bench: Bench): Promise<Figure> {
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
    title: '(q) Checkpoints of steps',
    method: `A workflow of ${SAVED_STEPS} steps that do nothing, in one VM with 256 MiB: the time from the end of the first step to the end of the last one, for each step. With 100 MB, the first step writes them, and each checkpoint copies them.`,
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
