/**
 * Tests which Temporal Schedules keep a stack up, with real servers and every state that a client can give a Schedule.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ScheduleOptions, ScheduleSpec } from '@temporalio/client';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { connectRuns, type RunsConnection } from '../../client/temporal/connect.ts';
import { findHoldingSchedules, readHoldingSchedules } from '../../client/embedded/schedules.ts';
import { createEmbeddedAddress } from '../../client/temporal/temporal-address.ts';
import { startTestServer, type TestServer } from '../../test/rig/servers/test-server.ts';
import { temporalCliForTests } from '../../test/rig/servers/temporal-cli.ts';
import { SECOND_LOOK_MS, watchIdle } from './idle-watch.ts';

const IDLE_LIMIT_MS = 1_000;
/** Several times the limit and the pause before the second look. */
const LONG_MS = 9_000;
const NAMESPACE = 'default';

let [scheduled, plain]: (TestServer | undefined)[] = [];
let runs: RunsConnection;

beforeAll(async () => {
  const cli = await temporalCliForTests();
  // One after the other: each looks for ports that are free.
  scheduled = await startTestServer(cli);
  plain = await startTestServer(cli);
  runs = await connectRuns(createEmbeddedAddress(scheduled.address));
});

afterAll(async () => {
  await runs?.close();
  await Promise.all([scheduled?.stop(), plain?.stop()]);
});

function watch(address: () => string): { readonly stops: readonly string[]; readonly warnings: readonly string[] } {
  const stops: string[] = [];
  const warnings: string[] = [];
  const startedMs = Date.now();
  const timer = watchIdle({
    idleLimitMs: IDLE_LIMIT_MS,
    namespace: NAMESPACE,
    address,
    lastUsedMs: () => startedMs,
    log: (_level, message) => void warnings.push(message),
    stop: async (why) => {
      stops.push(why);
      clearInterval(timer);
    },
  });
  onTestFinished(() => clearInterval(timer));
  return { stops, warnings };
}

async function create(scheduleId: string, options: Pick<ScheduleOptions, 'spec' | 'state'>): Promise<void> {
  const action = { type: 'startWorkflow', workflowType: 'none', taskQueue: 'none', args: [] } as const;
  const { schedule } = runs.client;
  await schedule.create({ scheduleId, action: { ...action, workflowExecutionTimeout: '1s' }, ...options });
}

/** The server lists a new schedule a moment after its client has the answer. */
async function awaitHolding(expected: number): Promise<void> {
  const count = async (): Promise<number> =>
    (await readHoldingSchedules({ address: scheduled!.address, namespace: NAMESPACE })).count;
  await expect.poll(count, { timeout: 30_000, interval: 500 }).toBe(expected);
}

const HOURLY: ScheduleSpec = { intervals: [{ every: '1h' }] };
const SOON: ScheduleSpec = { intervals: [{ every: '1s' }] };

test('a stack with a schedule stays up, another stack stops, and so does the first once the schedule is paused', async () => {
  await create('hourly', { spec: HOURLY });
  await awaitHolding(1);
  const [held, other] = [watch(() => scheduled!.address), watch(() => plain!.address)];
  await expect.poll(() => other.stops, { timeout: 60_000 }).toEqual(['no open run and no schedule for 1 s']);
  await sleep(LONG_MS);
  // A server that answers late on a busy machine costs a warning, and keeps the stack up too.
  expect(held.stops).toEqual([]);
  await runs.client.schedule.getHandle('hourly').pause();
  await expect.poll(() => held.stops.length, { timeout: 60_000 }).toBe(1);
});

test('a schedule that is paused, exhausted, over or without a time does not hold the stack', async () => {
  await create('paused', { spec: HOURLY, state: { paused: true } });
  await create('without-time', { spec: {} });
  await create('exhausted', { spec: SOON, state: { remainingActions: 1 } });
  await create('over', { spec: { ...SOON, endAt: new Date(Date.now() + 2_000) } });
  await awaitHolding(0);
  const { stops } = watch(() => scheduled!.address);
  await expect.poll(() => stops.length, { timeout: 60_000 }).toBe(1);
});

test('a schedule that is created after the first look keeps the stack up', async () => {
  await create('late', { spec: HOURLY });
  await awaitHolding(1);
  // The first look sees a server without the schedule. The second look comes at least this long after it.
  let lookedMs = Number.POSITIVE_INFINITY;
  let isCreated = false;
  const { stops } = watch(() => {
    isCreated ||= Date.now() - lookedMs >= SECOND_LOOK_MS;
    lookedMs = Date.now();
    return (isCreated ? scheduled! : plain!).address;
  });
  await expect.poll(() => isCreated, { timeout: 60_000 }).toBe(true);
  await sleep(LONG_MS);
  expect(stops).toEqual([]);
  await runs.client.schedule.getHandle('late').delete();
});

test('the schedules are listed by their next time, ten of them with all counted', async () => {
  for (let hours = 12; hours >= 1; hours -= 1)
    await create(`in-${hours}`, { spec: { intervals: [{ every: `${hours}d` }] } });
  const read = async () => await readHoldingSchedules({ address: scheduled!.address, namespace: NAMESPACE });
  await expect.poll(async () => (await read()).count, { timeout: 20_000 }).toBe(12);
  const { next, isComplete } = await read();
  expect(isComplete).toBe(true);
  expect(next).toHaveLength(10);
  const times = next.map(({ nextAtMs }) => nextAtMs);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  expect(times[0]).toBeGreaterThan(Date.now());
});

test('a server that cannot be asked keeps its stack', async () => {
  await plain!.stop();
  const { address } = plain!;
  const { stops, warnings } = watch(() => address);
  await sleep(LONG_MS);
  expect(stops).toEqual([]);
  expect(warnings.join('\n')).toContain('could not ask the server what needs the stack');
  expect(await findHoldingSchedules({ address: plain!.address, namespace: NAMESPACE })).toBeNull();
});
