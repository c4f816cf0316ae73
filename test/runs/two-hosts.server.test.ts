/** Two hosts on one queue that read the same records: what one has admitted, the other gives back. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createActivities } from '../../activities/create-activities.ts';
import { guardByHost } from '../../activities/calls/host-guard.ts';
import { awaitOutcome, startRun } from '../../client/runs/runs.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { temporalCliForTests } from '../rig/servers/temporal-cli.ts';
import { startTestStack, type TestStack } from '../rig/servers/test-worker.ts';
import { RUN_TASK_QUEUE } from '../../workflows/messages.ts';
import { startWorkers, type RunningWorkers } from '../../workers/workers.ts';

/** Commands that were started, and the function that lets `hold` continue. */
const started: string[] = [];
let go: () => void = () => undefined;
const backend = createMockBackend({
  programs: {
    hold: async ({ killed }) => {
      started.push('hold');
      await Promise.race([
        new Promise<void>((resolve) => (go = resolve)),
        sleep(60_000, undefined, { signal: killed }),
      ]);
      return 0;
    },
  },
});
/** Hosts that got the call of a stage, and hosts that used its VM. */
const came: string[] = [];
const drove: string[] = [];
let stack: TestStack;
const running = new Set<RunningWorkers>();

beforeAll(async () => {
  stack = await startTestStack(backend, await temporalCliForTests(), () => undefined);
});

afterAll(async () => {
  for (const each of running) await stop(each);
  await stack?.stop();
});

async function start(hostId: string): Promise<RunningWorkers> {
  const activities = createActivities({
    ...stack.deps,
    // As on the embedded server, which a second worker may join.
    placement: { hostId, hostQueue: RUN_TASK_QUEUE },
    backendFor: () => {
      drove.push(hostId);
      return backend;
    },
  });
  const shared = guardByHost(activities, stack.deps.records, hostId);
  const workers = await startWorkers({
    target: stack.target,
    hostId,
    activities,
    sharedActivities: {
      ...shared,
      runStage: async (call) => {
        came.push(hostId);
        return await shared.runStage(call);
      },
    },
    schedules: { sendTime: () => Promise.reject(new Error('no schedule exists')) },
    sessions: null,
    bundle: stack.bundle,
  });
  running.add(workers);
  return workers;
}

async function stop(workers: RunningWorkers): Promise<void> {
  running.delete(workers);
  workers.shutdown();
  await workers.ended;
  await workers.close();
}

async function until(what: string, holds: () => boolean): Promise<void> {
  for (let waitedMs = 0; !holds(); waitedMs += 50) {
    if (waitedMs > 30_000) throw new Error(`waited too long for ${what}`);
    await sleep(50);
  }
}

test(
  'a VM stays with the host that admitted its run while that host is away and another one is asked',
  { timeout: 90_000 },
  async () => {
    const spec =
      'kind: workflow\nname: two\nsandbox: { mode: mock, isolation: none }\nworkflow:\n  steps:\n    - { name: talk, run: { program: hold } }\n';
    const owner = await start('owner');
    await startRun(stack.runs.client, { runId: 'two', request: { spec }, summary: 'two' });
    await until('the command', () => started.length > 0);
    await stop(owner);
    await start('other');
    await until('the other host to be asked', () => came.includes('other'));
    await start('owner');
    await until('the owner to be asked', () => came.lastIndexOf('owner') > came.indexOf('other'));
    go();
    expect((await awaitOutcome(stack.runs.client, 'two')).state).toBe('succeeded');
    expect(started).toEqual(['hold']);
    expect(new Set(drove)).toEqual(new Set(['owner']));
    expect((await stack.eventsOf('two'))[0]?.body).toMatchObject({ type: 'run-admitted', hostId: 'owner' });
  },
);
