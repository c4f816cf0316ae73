/** What a stage costs, one after the other and side by side. */
import { join } from 'node:path';
import { type ArmResult, interleave, pairedRatio, spread } from '../measure.ts';
import type { Figure, FigureRow } from '../report.ts';
import { startServer, TUNED_FLAGS } from '../servers.ts';
import { IN_A_ROW, noopSpec, stageArm, type StageMeasure, wideSpec, WIDE, WIDTH } from '../stages.ts';
import { type Bench, startBareWorker, startOurWorker } from './bench.ts';

export async function stageFigure(bench: Bench): Promise<Figure> {
  const { pieces, workDir } = bench;
  await using tuned = await startServer(pieces.temporalCli, join(workDir, 'tuned.db'), TUNED_FLAGS);
  await using stock = await startServer(pieces.temporalCli, join(workDir, 'stock.db'), []);
  await using bareTuned = await startBareWorker(bench, tuned.address);
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
      workerPid: bareTuned.pid,
      workflowType: 'bareLoopDispatched',
    }),
    await stageArm({ name: 'bare loop, stock server', address: stock.address, workerPid: bareStock.pid, ...bare }),
  ];
  const results = await interleave(arms, bench.rounds, bench.say);
  type Result = ArmResult<StageMeasure>;
  const [path, bareLoop, dispatchedLoop, stockLoop] = results as [Result, Result, Result, Result];
  const toBare = pairedRatio(path, bareLoop, 'msPerStage').median;
  const toStock = pairedRatio(path, stockLoop, 'msPerStage').median;
  const cpu = pairedRatio(path, bareLoop, 'workerCpuMsPerStage').median;
  return {
    title: '(a) What a stage costs beside its work',
    method:
      'A stage that does nothing (mock sandbox) through the whole path, against a bare loop of no-op activities; the slope between a run of 5 and one of 55 stages. Both servers keep a SQLite file. On the embedded server a stage comes with the answer to the workflow task (eager start), as it does in the bare loop; a host of several has a queue of its own, so one arm does without. Each arm first runs 110 stages that are not counted.',
    rows: results.flatMap(stageRows),
    goals: [
      {
        what: 'latency against the bare loop on the same server, paired',
        value: toBare,
        goal: '≤ 1.15',
        met: toBare <= 1.15,
      },
      {
        what: 'worker CPU against the bare loop on the same server, paired',
        value: cpu,
        goal: '≤ 1.2',
        met: cpu <= 1.2,
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
        value: pairedRatio(path, dispatchedLoop, 'msPerStage').median,
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
  const latency = pairedRatio(path, bare, 'msPerStage').median;
  return {
    title: '(a2) What a stage costs beside others',
    method: `As (a), of stages without an order: the slope between a run of ${WIDE.short} and one of ${WIDE.long} stages, ${WIDTH} at a time, against a fan-out of no-op activities of the same width on the same server.`,
    rows: results.flatMap(stageRows),
    goals: [{ what: 'latency against the bare fan-out, paired', value: latency, goal: '≤ 1.3', met: latency <= 1.3 }],
    ratios: [
      {
        what: 'worker CPU against the bare fan-out, paired',
        value: pairedRatio(path, bare, 'workerCpuMsPerStage').median,
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
