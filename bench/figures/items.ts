/** Measures the cost of list items while a long stage runs. */
import { join } from 'node:path';
import {
  ITEM_MS,
  itemsArm,
  type ItemsArmOptions,
  itemsSpec,
  type ItemsMeasure,
  ITEMS_WIDTH,
  longMs,
} from '../items.ts';
import { type ArmResult, interleave, measurePairedRatio, spread } from '../measure.ts';
import type { Figure, FigureRow } from '../report.ts';
import { startServer, TUNED_FLAGS } from '../servers.ts';
import { type Bench, startBareWorker, startOurWorker } from './bench.ts';

export async function itemsFigure(bench: Bench): Promise<Figure> {
  const { items } = bench;
  await using server = await startServer(bench.pieces.temporalCli, join(bench.workDir, 'items.db'), TUNED_FLAGS);
  await using bareWorker = await startBareWorker(bench, server.address);
  await using ours = await startOurWorker(bench, server.address, 'items-state');
  const common = { address: server.address, serverPid: server.pid, items };
  const armOptions: readonly ItemsArmOptions[] = [
    {
      ...common,
      name: 'voidbox',
      workerPid: ours.pid,
      taskQueue: 'voidbox',
      workflowType: 'voidboxRun',
      argsFor: (count) => [{ spec: itemsSpec(count) }],
      check: (result) => {
        if ((result as { state?: unknown } | null)?.state !== 'succeeded')
          throw new Error(`the run of the items did not succeed: ${JSON.stringify(result)}`);
      },
    },
    {
      ...common,
      name: 'bare fan-out',
      workerPid: bareWorker.pid,
      taskQueue: 'bare',
      workflowType: 'bareItems',
      argsFor: (count) => [count, ITEMS_WIDTH, ITEM_MS, longMs(count)],
      check: (result, count) => {
        if (result !== count) throw new Error(`the bare fan-out did ${String(result)} of ${count} activities`);
      },
    },
  ];
  const arms = [];
  for (const options of armOptions) arms.push(await itemsArm(options));
  const results = await interleave(arms, bench.rounds, bench.say);
  const [path, bare] = results as [ArmResult<ItemsMeasure>, ArmResult<ItemsMeasure>];
  const wall = measurePairedRatio(path, bare, 'wallSeconds').median;
  return {
    title: '(k) Items of a list',
    method: `${items} items of a stage with \`for_each\`, ${ITEMS_WIDTH} at a time, each a command of ${ITEM_MS} ms (mock sandbox), beside a stage of ${longMs(items) / 1_000} s. Compared with a bare workflow on the same server that runs as many activities of ${ITEM_MS} ms, as many at a time, beside one of ${longMs(items) / 1_000} s. Whole runs are measured, after one of 2000 items that is not counted.`,
    rows: results.flatMap(rows),
    goals: [{ what: 'wall time against the bare fan-out, paired', value: wall, goal: '≤ 1.3', met: wall <= 1.3 }],
    ratios: [
      {
        what: 'worker CPU against the bare fan-out, paired',
        value: measurePairedRatio(path, bare, 'workerCpuMsPerItem').median,
      },
      {
        what: 'server CPU against the bare fan-out, paired',
        value: measurePairedRatio(path, bare, 'serverCpuMsPerItem').median,
      },
    ],
  };
}

function rows({ name, rounds }: ArmResult<ItemsMeasure>): readonly FigureRow[] {
  const row = (what: string, measure: ItemsMeasure, unit: string): FigureRow => ({
    what: `${name}: ${what}`,
    value: spread(rounds.map((round) => round[measure])),
    unit,
  });
  return [
    row('wall time', 'wallSeconds', 's'),
    row('worker CPU', 'workerCpuMsPerItem', 'ms an item'),
    row('server CPU', 'serverCpuMsPerItem', 'ms an item'),
  ];
}
