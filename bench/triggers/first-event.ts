/** From an accepted webhook to the first event of its run, and a bare start of a workflow with one activity. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { runDir } from '../../store/state-folder.ts';
import type { Arm } from '../measure.ts';
import { findP95 } from '../service/readers.ts';
import { DEPLOYMENT, type TriggerStack } from './stack.ts';
import type { Sender } from './webhook.ts';

const STARTS = 40;
const LOOK_MS = 1;
const LIMIT_MS = 60_000;

let sent = 0;

export function createWebhookArm(stack: TriggerStack, sender: Sender): Arm<'p95Ms'> {
  return createArm('from an accepted webhook to the first event of its run', async () => {
    const id = await sender.send('start', JSON.stringify({ n: (sent += 1) }));
    const acceptedAtMs = performance.now();
    const file = join(runDir(stack.stateDir, `${DEPLOYMENT}-${id}`), 'events.jsonl');
    while (!existsSync(file)) {
      if (performance.now() - acceptedAtMs > LIMIT_MS) throw new Error(`the delivery ${id} has no run`);
      await sleep(LOOK_MS);
    }
    return performance.now() - acceptedAtMs;
  });
}

export function createBareStartArm(client: Client): Arm<'p95Ms'> {
  return createArm('a bare workflow with one activity, from its start to its end', async () => {
    const startedAtMs = performance.now();
    const options = { workflowId: `bare-${(sent += 1)}`, taskQueue: 'bare', args: [1] };
    await (await client.workflow.start('bareLoop', options)).result();
    return performance.now() - startedAtMs;
  });
}

function createArm(name: string, measure: () => Promise<number>): Arm<'p95Ms'> {
  const measureRound = async () => {
    const times: number[] = [];
    while (times.length < STARTS) times.push(await measure());
    return { p95Ms: findP95(times) };
  };
  return { name, round: measureRound };
}
