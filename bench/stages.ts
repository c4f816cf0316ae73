/**
 * Figure (a): what one stage costs beside the work that it does. A stage that does nothing goes through the whole
 * path (admission, run machine, activity, events, durable result), against a bare loop of no-op activities on the
 * same tuned server, and the same bare loop on a stock `temporal server start-dev --db-filename`.
 * The cost of a stage is the slope between a short and a long run, which takes the fixed cost of a run out.
 * Stages in a row show what one costs; stages side by side show what the worker and the server can do at most.
 */
import { randomUUID } from 'node:crypto';
import { Client, Connection, type WorkflowHandle } from '@temporalio/client';
import { type Arm, processCpuMs } from './measure.ts';

export type StageMeasure = 'msPerStage' | 'workerCpuMsPerStage' | 'eventsPerStage' | 'bytesPerStage';

/**
 * The number of stages that run before the measurement. A worker serves for days. Until V8 has compiled the code of a
 * stage, the arm with more code is slower. After 100 stages, a stage costs twice what it costs after 2,000.
 */
export const WARM_UP_STAGES = 2_000;

/** The number of stages in a short and in a long run. */
export interface RunLengths {
  readonly short: number;
  readonly long: number;
}

export const IN_A_ROW: RunLengths = { short: 5, long: 205 };
/** A short run is as long as it is wide. */
export const WIDE: RunLengths = { short: 50, long: 1_600 };
export const WIDTH = 50;

export interface StageArmOptions {
  readonly name: string;
  readonly address: string;
  readonly workerPid: number;
  readonly taskQueue: string;
  readonly workflowType: string;
  readonly lengths: RunLengths;
  /** The workflow's arguments for a run of so many stages. */
  argsFor(stages: number): readonly unknown[];
}

export async function stageArm(options: StageArmOptions): Promise<Arm<StageMeasure>> {
  const { lengths } = options;
  const client = new Client({ connection: await Connection.connect({ address: options.address }) });
  for (let stages = 0; stages < WARM_UP_STAGES; stages += lengths.long) await measureRun(client, options, lengths.long);
  return {
    name: options.name,
    async round() {
      const short = await measureRun(client, options, lengths.short);
      const long = await measureRun(client, options, lengths.long);
      const per = (a: number, b: number): number => (b - a) / (lengths.long - lengths.short);
      return {
        msPerStage: per(short.wallMs, long.wallMs),
        workerCpuMsPerStage: per(short.cpuMs, long.cpuMs),
        eventsPerStage: per(short.events, long.events),
        bytesPerStage: per(short.bytes, long.bytes),
      };
    },
  };
}

async function measureRun(
  client: Client,
  options: StageArmOptions,
  stages: number,
): Promise<{ wallMs: number; cpuMs: number; events: number; bytes: number }> {
  const cpuBefore = processCpuMs(options.workerPid);
  const began = performance.now();
  const handle = await client.workflow.start(options.workflowType, {
    taskQueue: options.taskQueue,
    workflowId: `bench-${randomUUID()}`,
    args: [...options.argsFor(stages)],
  });
  await handle.result();
  const wallMs = performance.now() - began;
  const cpuMs = processCpuMs(options.workerPid) - cpuBefore;
  return { wallMs, cpuMs, ...(await historyOf(handle)) };
}

async function historyOf(handle: WorkflowHandle): Promise<{ events: number; bytes: number }> {
  const description = await handle.describe();
  return {
    events: Number(description.raw.workflowExecutionInfo?.historyLength ?? 0),
    bytes: Number(description.raw.workflowExecutionInfo?.historySizeBytes ?? 0),
  };
}

/** A workflow of stages in a row, each of which does nothing, on the mock sandbox. */
export function noopSpec(stages: number): string {
  const steps = Array.from(
    { length: stages },
    (_, index) =>
      `    - { name: s${index}, run: { program: 'true' }${index > 0 ? `, depends_on: [s${index - 1}]` : ''} }`,
  );
  return `api_version: v1\nkind: workflow\nname: noop\nsandbox: { mode: mock }\nworkflow:\n  steps:\n${steps.join('\n')}\n`;
}

/** The same stages without an order, so that as many run as `max_parallel` lets. */
export function wideSpec(stages: number): string {
  const steps = Array.from({ length: stages }, (_, index) => `    - { name: s${index}, run: { program: 'true' } }`);
  return `api_version: v1\nkind: workflow\nname: wide\nmax_parallel: ${WIDTH}\nsandbox: { mode: mock }\nworkflow:\n  output_step: s0\n  steps:\n${steps.join('\n')}\n`;
}
