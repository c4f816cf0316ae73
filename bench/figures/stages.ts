/** Measures the cost of stages, in a row and in parallel. */
import { join } from 'node:path';
import { type ArmResult, interleave, measurePairedRatio, spread } from '../measure.ts';
import type { Figure, FigureRow } from '../report.ts';
import { startServer, TUNED_FLAGS } from '../servers.ts';
import { IN_A_ROW, noopSpec, stageArm, type StageMeasure, WARM_UP_STAGES, wideSpec, WIDE, WIDTH } from '../stages.ts';
import { type Bench, startBareWorker, startOurWorker } from './bench.ts';

const DISPATCHED_QUEUE = 'bare-dispatched';

export async function stageFigure(bench: Bench): Promise<Figure> {
  const { pieces, workDir } = bench;
  await using tuned = await startServer(pieces.temporalCli, join(workDir, 'tuned.db'), TUNED_FLAGS);
  await using stock = await startServer(pieces.temporalCli, join(workDir, 'stock.db'), []);
  // A worker for each arm: one that served two arms would be twice as warm as the others.
  await using bareTuned = await startBareWorker(bench, tuned.address);
  await using bareDispatched = await startBareWorker(bench, tuned.address, DISPATCHED_QUEUE);
  await using bareStock = await startBareWorker(bench, stock.address);
  await using ours = await startOurWorker(bench, tuned.address, 'stages-state');
  const bare = {
    taskQueue: 'bare',
    workflowType: 'bareLoop',
    lengths: IN_A_ROW,
    argsFor: (stages: number) => [stages],
  };
  const arms = [
    await stageArm({
      name: 'voidbox, tuned server',
      address: tuned.address,
      workerPid: ours.pid,
      taskQueue: 'voidbox',
      workflowType: 'voidboxRun',
      lengths: IN_A_ROW,
      argsFor: (stages) => [{ spec: noopSpec(stages) }],
    }),
    await stageArm({ name: 'bare loop, tuned server', address: tuned.address, workerPid: bareTuned.pid, ...bare }),
    await stageArm({
      ...bare,
      name: 'bare loop without eager start, tuned server',
      address: tuned.address,
      workerPid: bareDispatched.pid,
      taskQueue: DISPATCHED_QUEUE,
      workflowType: 'bareLoopDispatched',
    }),
    await stageArm({ name: 'bare loop, stock server', address: stock.address, workerPid: bareStock.pid, ...bare }),
  ];
  const results = await interleave(arms, bench.rounds, bench.say);
  type Result = ArmResult<StageMeasure>;
  const [path, bareLoop, dispatchedLoop, stockLoop] = results as [Result, Result, Result, Result];
  const toBare = measurePairedRatio(path, bareLoop, 'msPerStage').median;
  const toStock = measurePairedRatio(path, stockLoop, 'msPerStage').median;
  const cpu = measurePairedRatio(path, bareLoop, 'workerCpuMsPerStage').median;
  return {
    title: '(a) Overhead of a stage',
    method: `A stage that does nothing (mock sandbox) takes the whole path; the bare loop runs no-op activities. The figure is the slope between a run of ${IN_A_ROW.short} stages and one of ${IN_A_ROW.long}. Both servers use a SQLite file. On the embedded server, and in the bare loop, the answer to the workflow task carries the activity (eager start). With several hosts each host has its own queue, so one arm measures without eager start. Each arm has a worker of its own, which first runs ${WARM_UP_STAGES} stages that are not counted, to warm up.`,
    rows: results.flatMap(stageRows),
    goals: [
      {
        what: 'latency against the bare loop on the same server, paired',
        value: toBare,
        goal: '≤ 1.35',
        met: toBare <= 1.35,
      },
      {
        what: 'worker CPU against the bare loop on the same server, paired',
        value: cpu,
        goal: '≤ 2.1',
        met: cpu <= 2.1,
      },
      {
        what: 'latency against the bare loop on a stock server, paired',
        value: toStock,
        goal: '≤ 0.5',
        met: toStock <= 0.5,
      },
    ],
    ratios: [
      {
        what: 'latency against the bare loop without eager start on the same server, paired',
        value: measurePairedRatio(path, dispatchedLoop, 'msPerStage').median,
      },
    ],
  };
}

export async function wideFigure(bench: Bench): Promise<Figure> {
  await using server = await startServer(bench.pieces.temporalCli, join(bench.workDir, 'wide.db'), TUNED_FLAGS);
  await using bareWorker = await startBareWorker(bench, server.address);
  await using ours = await startOurWorker(bench, server.address, 'wide-state');
  const common = { address: server.address, lengths: WIDE };
  const results = await interleave(
    [
      await stageArm({
        ...common,
        name: 'voidbox',
        workerPid: ours.pid,
        taskQueue: 'voidbox',
        workflowType: 'voidboxRun',
        argsFor: (stages) => [{ spec: wideSpec(stages) }],
      }),
      await stageArm({
        ...common,
        name: 'bare fan-out',
        workerPid: bareWorker.pid,
        taskQueue: 'bare',
        workflowType: 'bareFanOut',
        argsFor: (stages) => [stages, WIDTH],
      }),
    ],
    bench.rounds,
    bench.say,
  );
  const [path, bare] = results as [ArmResult<StageMeasure>, ArmResult<StageMeasure>];
  const latency = measurePairedRatio(path, bare, 'msPerStage').median;
  return {
    title: '(a2) Overhead of parallel stages',
    method: `As (a), for stages without dependencies. The figure is the slope between a run of ${WIDE.short} stages and one of ${WIDE.long}, ${WIDTH} at a time. It is compared with a fan-out of no-op activities of the same width on the same server.`,
    rows: results.flatMap(stageRows),
    goals: [{ what: 'latency against the bare fan-out, paired', value: latency, goal: '≤ 1.45', met: latency <= 1.45 }],
    ratios: [
      {
        what: 'worker CPU against the bare fan-out, paired',
        value: measurePairedRatio(path, bare, 'workerCpuMsPerStage').median,
      },
    ],
  };
}

function stageRows({ name, rounds }: ArmResult<StageMeasure>): readonly FigureRow[] {
  const row = (what: string, measure: StageMeasure, unit: string): FigureRow => ({
    what: `${name}: ${what}`,
    value: spread(rounds.map((round) => round[measure])),
    unit: `${unit} a stage`,
  });
  return [
    row('latency', 'msPerStage', 'ms'),
    row('worker CPU', 'workerCpuMsPerStage', 'ms'),
    row('history', 'eventsPerStage', 'events'),
    row('history', 'bytesPerStage', 'bytes'),
  ];
}
