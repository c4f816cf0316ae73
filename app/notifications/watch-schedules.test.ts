/** The watch of schedules over deliveries in memory, and a server whose times the test knows. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Trigger } from '../../domain/delivery/trigger.ts';
import type { TriggerStore } from '../../store/triggers.ts';
import { makeDelivery } from '../../test/conformance/deliveries.ts';
import { makeVersion, WEBHOOK } from '../../test/conformance/deployments.ts';
import { NOTIFY } from '../../test/conformance/notifications.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { type ScheduleWatch, watchSchedules } from './watch-schedules.ts';

const HOUR_MS = 3_600_000;
const NOW_MS = 1_795_996_352_123;
const NIGHT: Trigger = {
  ...WEBHOOK,
  name: 'night',
  source: {
    kind: 'schedule',
    cron: ['0 * * * *'],
    everyMs: null,
    timezone: 'UTC',
    jitterMs: 60_000,
    catchup: 'none',
    windowMs: HOUR_MS,
    overlap: 'allow',
  },
};
const NOTIFIED = { ...NOTIFY, lateAfterMs: 2 * HOUR_MS };

let triggers: TriggerStore;
let times: readonly number[];
let looks: number;
let nowMs: number;
let added: number;
let watch: ScheduleWatch;

beforeEach(() => {
  triggers = createMemoryAccess().triggers;
  times = [NOW_MS];
  looks = 0;
  nowMs = NOW_MS + 60_000;
  added = 0;
  watch = watchSchedules({
    openTriggers() {
      looks += 1;
      return Promise.resolve(triggers);
    },
    openServer: () =>
      Promise.resolve({
        listTimes: (_name, fromMs, toMs) => Promise.resolve(times.filter((ms) => ms > fromMs && ms <= toMs)),
      }),
    nowMs: () => nowMs,
    onAdded: () => (added += 1),
    log: () => undefined,
    everyMs: 5,
  });
});
afterEach(async () => await watch.close());

async function deploy(notify = NOTIFIED): Promise<void> {
  const version = makeVersion('review', { notify, triggers: [NIGHT], createdAtMs: NOW_MS - HOUR_MS });
  await triggers.deployments.deploy(version, { isPaused: false });
}

/** Lets the watch look after a time. */
async function lookAt(atMs: number): Promise<void> {
  nowMs = atMs;
  const before = looks;
  // The look after the next one begins when that one has ended.
  await expect.poll(() => looks).toBeGreaterThan(before + 2);
}

const list = async () => await triggers.notifications.list({ limit: 9 });

test('a time without a delivery is late once, after `late_after` and the jitter', async () => {
  await deploy();
  await lookAt(NOW_MS + 2 * HOUR_MS + 60_000 - 1);
  expect(await list()).toEqual([]);
  await lookAt(NOW_MS + 2 * HOUR_MS + 60_000);
  await lookAt(NOW_MS + 2 * HOUR_MS + 70_000);
  const rows = await list();
  expect(rows).toMatchObject([
    {
      receiver: 'ops',
      message: {
        kind: 'late',
        trigger: 'night',
        runId: null,
        delivery: null,
        occurrence: new Date(NOW_MS).toISOString(),
      },
    },
  ]);
  expect(added).toBe(1);
});

test('a time with a delivery is not late, also if its delivery started no run', async () => {
  await deploy();
  const schedule = { atMs: NOW_MS } as NonNullable<ReturnType<typeof makeDelivery>['schedule']>;
  await triggers.deliveries.accept(makeDelivery({ trigger: 'night', acceptedAtMs: NOW_MS + 1, schedule }));
  await lookAt(NOW_MS + 3 * HOUR_MS);
  expect(await list()).toEqual([]);
});

test('times before a change of the deployment, and those during its pause, are not late', async () => {
  await deploy();
  times = [NOW_MS - 2 * HOUR_MS, NOW_MS];
  await lookAt(NOW_MS + 60_000);
  await triggers.deployments.pause('review', 'hold', NOW_MS - 1);
  await triggers.deployments.resume('review', NOW_MS + 1);
  await lookAt(NOW_MS + 3 * HOUR_MS);
  expect(await list()).toEqual([]);
});
