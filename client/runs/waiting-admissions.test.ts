import type { Client } from '@temporalio/client';
import { expect, test } from 'vitest';
import { listWaitingAdmissions, type WaitingAdmissions } from './waiting-admissions.ts';

const NOW_MS = 1_000_000_000_000;
const at = (ms: number): { readonly seconds: number; readonly nanos: number } => ({
  seconds: Math.floor((NOW_MS + ms) / 1_000),
  nanos: 0,
});

interface Server {
  readonly described: Readonly<Record<string, object | Error>>;
  /** When a worker polled, in milliseconds from now; null: none did; absent: the client may not ask. */
  readonly polledMs?: number | null;
  readonly nextPageToken?: Uint8Array;
}

/** A server with open runs, as its API answers. */
async function listOn({
  described,
  polledMs,
  nextPageToken,
}: Server): Promise<WaitingAdmissions & { asked: string[] }> {
  const asked: string[] = [];
  const workflowService = {
    listWorkflowExecutions: () =>
      Promise.resolve({
        executions: Object.keys(described).map((workflowId) => ({ execution: { workflowId } })),
        nextPageToken,
      }),
    describeWorkflowExecution: ({ execution: { workflowId } }: { execution: { workflowId: string } }) => {
      asked.push(workflowId);
      const found = described[workflowId];
      return found instanceof Error ? Promise.reject(found) : Promise.resolve(found);
    },
    listWorkers: () => Promise.resolve({ workersInfo: [] }),
    describeTaskQueue: () =>
      polledMs === undefined
        ? Promise.reject(new Error('denied'))
        : Promise.resolve({ pollers: polledMs === null ? [] : [{ lastAccessTime: at(polledMs) }] }),
  };
  const client = {
    options: { namespace: 'default' },
    withDeadline: (_deadline: number, call: () => unknown) => call(),
    workflowService,
  } as unknown as Client;
  const isKnown = (runId: string): Promise<boolean> => Promise.resolve(runId === 'known');
  return { ...(await listWaitingAdmissions(client, { isKnown, nowMs: NOW_MS })), asked };
}

function run(historyLength: number, more: object = {}, info: object = {}): object {
  return {
    workflowExecutionInfo: { historyLength, startTime: at(-60_000), executionTime: at(-60_000), ...info },
    executionConfig: { taskQueue: { name: 'voidbox' } },
    pendingActivities: [],
    pendingWorkflowTask: historyLength < 4 ? { attempt: 1 } : null,
    ...more,
  };
}

const admission = (more: object): object =>
  run(5, { pendingActivities: [{ activityType: { name: 'admit' }, attempt: 1, ...more }] });

test.each([
  [
    'delayed',
    run(1, { pendingWorkflowTask: null }, { executionTime: at(90_000) }),
    { attempt: 0, nextAtMs: NOW_MS + 90_000 },
  ],
  ['not-taken', run(2), { attempt: 1, lastPollAtMs: NOW_MS - 5_000 }],
  ['not-taken', run(4, { pendingWorkflowTask: { attempt: 7 } }), { attempt: 7 }],
  ['not-taken', admission({ state: 1 }), { attempt: 1, triedAtMs: null }],
  ['admitting', admission({ state: 2, lastStartedTime: at(-3_000) }), { triedAtMs: NOW_MS - 3_000, nextAtMs: null }],
  ['admitting', admission({ state: 3 }), {}],
  [
    'retrying',
    admission({
      state: 1,
      attempt: 4,
      nextAttemptScheduleTime: at(8_000),
      lastFailure: { message: 'no room', applicationFailureInfo: { type: 'host/disk-full' } },
    }),
    { attempt: 4, nextAtMs: NOW_MS + 8_000, failure: { code: 'host/disk-full', message: 'no room' } },
  ],
  // The time of the next try has come, and no worker has taken it.
  ['not-taken', admission({ state: 1, attempt: 4, nextAttemptScheduleTime: at(-8_000) }), { nextAtMs: null }],
  ['paused', admission({ state: 4 }), {}],
  ['paused', admission({ state: 5 }), {}],
] as const)('a run is %s', async (reason, described, expected) => {
  const { runs } = await listOn({ described: { one: described }, polledMs: -5_000 });
  expect(runs).toEqual([expect.objectContaining({ runId: 'one', taskQueue: 'voidbox', reason, ...expected })]);
});

test.each([
  ['no poll', null, 'no-worker', null],
  ['an old poll', -120_000, 'no-worker', NOW_MS - 120_000],
  ['a late poll', -5_000, 'not-taken', NOW_MS - 5_000],
  ['a server that does not say', undefined, 'not-taken', null],
] as const)('%s decides whether a worker is missing', async (_what, polledMs, reason, lastPollAtMs) => {
  const { runs } = await listOn({ described: { one: run(2) }, ...(polledMs === undefined ? {} : { polledMs }) });
  expect(runs).toEqual([expect.objectContaining({ reason, lastPollAtMs })]);
});

test('a run that is admitted, known here, closed or gone is not listed', async () => {
  const { runs, asked } = await listOn({
    described: {
      known: run(2),
      admitted: run(12),
      stage: run(12, { pendingActivities: [{ activityType: { name: 'runStage' }, state: 1 }] }),
      closed: run(2, {}, { closeTime: at(-1) }),
      waits: run(2),
    },
    polledMs: null,
  });
  expect(runs.map(({ runId }) => runId)).toEqual(['waits']);
  expect(asked).not.toContain('known');
});

test('a failure is one bounded line, and `hasMore` reports a further page', async () => {
  const lastFailure = {
    message: `\u001b[31ma\nb${'x'.repeat(100_000)}`,
    applicationFailureInfo: { type: 'y'.repeat(10_000) },
  };
  const { runs, hasMore } = await listOn({
    described: { one: admission({ state: 2, lastFailure }) },
    nextPageToken: new Uint8Array([1]),
  });
  expect(hasMore).toBe(true);
  expect(runs[0]?.failure?.message).toMatch(/^a␊bx{1,400}$/);
  expect(runs[0]?.failure?.message.length).toBeLessThanOrEqual(400);
  expect(runs[0]?.failure?.code?.length).toBe(400);
});

test('a failure that the server wrapped because of its size is listed with its own message and code', async () => {
  const lastFailure = {
    message: 'Failure exceeds size limit.',
    serverFailureInfo: { nonRetryable: false },
    cause: { message: 'no room', applicationFailureInfo: { type: 'host/disk-full' } },
  };
  const { runs } = await listOn({ described: { one: admission({ state: 2, lastFailure }) } });
  expect(runs[0]?.failure).toEqual({ code: 'host/disk-full', message: 'no room' });
});

test('a wrapped failure without a message is listed with the message of the server', async () => {
  const cause = { message: '', applicationFailureInfo: { type: 'y' } };
  const lastFailure = { message: 'Failure exceeds size limit.', serverFailureInfo: {}, cause };
  const { runs } = await listOn({ described: { one: admission({ state: 2, lastFailure }) } });
  expect(runs[0]?.failure).toEqual({ code: 'y', message: 'Failure exceeds size limit.' });
});

test('a failure that only the server reports keeps its message', async () => {
  const lastFailure = { message: 'activity Heartbeat timeout', timeoutFailureInfo: {}, cause: { message: 'older' } };
  const { runs } = await listOn({ described: { one: admission({ state: 2, lastFailure }) } });
  expect(runs[0]?.failure).toEqual({ code: null, message: 'activity Heartbeat timeout' });
});

test('the bound of a failure cuts no character in half', async () => {
  const lastFailure = { message: `1${'😀'.repeat(400)}`, applicationFailureInfo: { type: 'y' } };
  const { runs } = await listOn({ described: { one: admission({ state: 2, lastFailure }) } });
  expect(runs[0]?.failure?.message).toBe(`1${'😀'.repeat(199)}`);
});
