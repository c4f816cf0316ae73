/**
 * Measures what list items cost in addition to their work. One run has a stage with many items and one long stage. A
 * bare workflow with the same number of activities, duration and concurrency, and one long activity, is the comparison.
 * Each round measures a whole run: the list, the starts of windows and the merge of results are part of the cost.
 */
import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { type Arm, processCpuMs } from './measure.ts';

export type ItemsMeasure = 'wallSeconds' | 'workerCpuMsPerItem' | 'serverCpuMsPerItem';

export const ITEMS_WIDTH = 50;
/** The duration of an item's command, and of a bare activity. */
export const ITEM_MS = 5;
/** Run before anything is counted, as for stages. */
const WARM_UP_ITEMS = 2_000;
/** The duration of the long stage for each item. It ends before the items do, in both arms. */
const LONG_MS_PER_ITEM = 1;

export function longMs(items: number): number {
  return items * LONG_MS_PER_ITEM;
}

export interface ItemsArmOptions {
  readonly name: string;
  readonly address: string;
  readonly workerPid: number;
  readonly serverPid: number;
  readonly taskQueue: string;
  readonly workflowType: string;
  readonly items: number;
  argsFor(items: number): readonly unknown[];
  /** @throws Error for a run that did something else than it should have */
  check(result: unknown, items: number): void;
}

export async function itemsArm(options: ItemsArmOptions): Promise<Arm<ItemsMeasure>> {
  const client = new Client({ connection: await Connection.connect({ address: options.address }) });
  const measureWholeRun = async (items: number): Promise<void> => {
    const result: unknown = await client.workflow.execute(options.workflowType, {
      taskQueue: options.taskQueue,
      workflowId: `bench-${randomUUID()}`,
      args: [...options.argsFor(items)],
    });
    options.check(result, items);
  };
  await measureWholeRun(WARM_UP_ITEMS);
  return {
    name: options.name,
    async round() {
      const workerCpuMs = processCpuMs(options.workerPid);
      const serverCpuMs = processCpuMs(options.serverPid);
      const began = performance.now();
      await measureWholeRun(options.items);
      return {
        wallSeconds: (performance.now() - began) / 1_000,
        workerCpuMsPerItem: (processCpuMs(options.workerPid) - workerCpuMs) / options.items,
        serverCpuMsPerItem: (processCpuMs(options.serverPid) - serverCpuMs) / options.items,
      };
    },
  };
}

export function itemsSpec(items: number): string {
  const list = Array.from({ length: items }, (_, item) => item);
  return [
    'api_version: v1',
    'kind: workflow',
    'name: items',
    'sandbox: { mode: mock }',
    'workflow:',
    '  output_step: each',
    '  steps:',
    `    - { name: long, run: { program: sleep, args: ["${longMs(items) / 1_000}"] } }`,
    '    - name: each',
    `      for_each: [${list.join(', ')}]`,
    `      max_parallel: ${ITEMS_WIDTH}`,
    `      run: { program: sleep, args: ["${ITEM_MS / 1_000}"] }`,
    '',
  ].join('\n');
}
