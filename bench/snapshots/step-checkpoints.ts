/**
 * The cost of a checkpoint for a step: steps in a row that do nothing, in a real VM, with and without
 * `checkpoint: each-step`. The time counts from the end of the first step to the end of the last one, so the boot of the
 * VM does not count.
 */
import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import type { RunReader } from '../../activities/ports/run-reader.ts';
import type { Arm } from '../measure.ts';

export const SAVED_STEPS = 11;

export interface SavedArmOptions {
  readonly name: string;
  readonly address: string;
  readonly reader: RunReader;
  readonly checkpoint: 'each-step' | 'off';
  /** Written by the first step. */
  readonly writtenMb: number;
}

export async function createSavedArm(options: SavedArmOptions): Promise<Arm<'msPerStep' | 'copyMs'>> {
  const client = new Client({ connection: await Connection.connect({ address: options.address }) });
  const measure = async (): Promise<Record<'msPerStep' | 'copyMs', number>> => {
    const runId = `bench-${randomUUID()}`;
    const handle = await client.workflow.start('voidboxRun', {
      taskQueue: 'voidbox',
      workflowId: runId,
      args: [{ spec: writeSpec(options) }],
    });
    await handle.result();
    const ends: number[] = [];
    const copies: number[] = [];
    for await (const { atMs, body } of options.reader.read(runId, 0, { output: false })) {
      if (body.type === 'stage-finished') ends.push(atMs);
      if (body.type === 'checkpoint-made') copies.push(body.tookMs);
    }
    const wanted = options.checkpoint === 'off' ? 0 : SAVED_STEPS;
    if (copies.length !== wanted) throw new Error(`${options.name}: ${copies.length} checkpoints, not ${wanted}`);
    const copyMs = copies.reduce((sum, tookMs) => sum + tookMs, 0) / Math.max(1, copies.length);
    return { msPerStep: (ends.at(-1)! - ends[0]!) / (SAVED_STEPS - 1), copyMs };
  };
  return { name: options.name, round: measure };
}

function writeSpec({ checkpoint, writtenMb }: SavedArmOptions): string {
  const steps = Array.from({ length: SAVED_STEPS }, (_, index) => {
    const write = `"dd if=/dev/urandom of=/workspace/data bs=1M count=${writtenMb}"`;
    const run = index === 0 && writtenMb > 0 ? `{ program: sh, args: [-c, ${write}] }` : '{ program: "true" }';
    return `    - { name: s${index}, run: ${run}${index > 0 ? `, depends_on: [s${index - 1}]` : ''} }`;
  });
  return `api_version: v1\nkind: workflow\nname: saved\nsandbox: { memory_mb: 256 }\nworkflow:\n  checkpoint: ${checkpoint}\n  steps:\n${steps.join('\n')}\n`;
}
