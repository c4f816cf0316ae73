import { expect, test } from 'vitest';
import type { WaitingAdmission } from '../../../client/runs/waiting-admissions.ts';
import { createStyle } from '../text/style.ts';
import { describeWait, renderWaitingAdmissions } from './waiting-admissions.ts';

const NOW_MS = 1_000_000_000;
const WAITING: WaitingAdmission = {
  runId: 'one',
  startedAtMs: NOW_MS - 120_000,
  taskQueue: 'voidbox',
  reason: 'not-taken',
  attempt: 1,
  triedAtMs: null,
  nextAtMs: null,
  lastPollAtMs: null,
  failure: null,
};
const FAILED = { attempt: 3, failure: { code: 'host/disk-full', message: 'no room' } } as const;

test.each<[Partial<WaitingAdmission>, string]>([
  [{}, 'a worker polls task queue voidbox and has not taken the run yet'],
  [{ attempt: 4 }, 'a worker polls task queue voidbox and has not taken the run yet; its first task failed 3 times'],
  [{ reason: 'no-worker' }, 'no worker polls task queue voidbox'],
  [{ reason: 'no-worker', taskQueue: 'a\u001b[2J\nb' }, 'no worker polls task queue a␊b'],
  [
    { reason: 'no-worker', lastPollAtMs: NOW_MS - 150_000, ...FAILED },
    'no worker has polled task queue voidbox for 2m 30s; admission failed twice before',
  ],
  [{ reason: 'admitting', triedAtMs: NOW_MS - 12_000 }, 'admission has been running for 12.0 s'],
  [
    { reason: 'admitting', triedAtMs: NOW_MS - 12_000, ...FAILED },
    'admission has been running for 12.0 s; admission failed twice before',
  ],
  [{ reason: 'retrying', nextAtMs: NOW_MS + 8_000, ...FAILED, attempt: 2 }, 'admission failed once, next try in 8.0 s'],
  [
    { reason: 'retrying', nextAtMs: NOW_MS + 8_000, ...FAILED, attempt: 5 },
    'admission failed 4 times, next try in 8.0 s',
  ],
  [{ reason: 'paused' }, 'admission is paused'],
  [{ reason: 'delayed', nextAtMs: NOW_MS + 300_000, attempt: 0 }, 'the run starts in 5m 00s'],
])('the line of %o names the reason', (run, line) => {
  expect(describeWait({ ...WAITING, ...run }, NOW_MS)).toBe(line);
});

test('the message of a failure is whole on a narrow terminal, and the help names the command for the server', () => {
  const message = 'm'.repeat(120);
  const runs = [{ ...WAITING, reason: 'no-worker', attempt: 2, failure: { code: null, message } }] as const;
  const shown = (isOwnServer: boolean): string[] =>
    renderWaitingAdmissions(
      { runs, hasMore: true },
      { style: createStyle(false), width: 40, nowMs: NOW_MS, isOwnServer, advise: (text) => text },
    );
  expect(shown(true)).toEqual([
    'WAITS FOR ADMISSION  STARTED',
    expect.stringMatching(/^one +2m ago +no work/),
    `  ${message}`,
    'help: Start a worker with the same TEMPORAL_* variables, on each host that runs VMs: voidbox worker',
    'More runs may wait for admission: only the latest open runs were checked.',
  ]);
  expect(shown(false)[3]).toBe(
    'help: The stack starts its worker again. If it does not: voidbox down, then voidbox up',
  );
  const none = { runs: [], hasMore: false };
  const display = {
    style: createStyle(false),
    width: 40,
    nowMs: NOW_MS,
    isOwnServer: true,
    advise: (text: string) => text,
  };
  expect(renderWaitingAdmissions(none, display)).toEqual([]);
});

test('no command helps a run whose task queue no worker of Voidbox polls', () => {
  const queues = ['orders', 'orders', 'a\u001b[2J\nb'];
  const runs = queues.map((taskQueue): WaitingAdmission => ({ ...WAITING, reason: 'no-worker', taskQueue }));
  const helpFor = (all: readonly WaitingAdmission[], isOwnServer: boolean): string[] =>
    renderWaitingAdmissions(
      { runs: all, hasMore: false },
      { style: createStyle(false), width: 200, nowMs: NOW_MS, isOwnServer, advise: (text) => text },
    ).filter((line) => line.startsWith('help:'));
  const others =
    'help: no worker polls task queue orders, a␊b. Workers of Voidbox poll task queue voidbox: start the run there, or start the worker that polls its own';
  expect(helpFor(runs, false)).toEqual([others]);
  expect(helpFor(runs, true)).toEqual([others]);
  expect(helpFor([...runs, { ...WAITING, reason: 'no-worker' }], false)).toEqual([
    'help: The stack starts its worker again. If it does not: voidbox down, then voidbox up',
    others,
  ]);
  const many = Array.from({ length: 7 }, (_, at): WaitingAdmission => ({ ...runs[0]!, taskQueue: `q${at}` }));
  expect(helpFor(many, false)[0]).toContain('q0, q1, q2, q3, q4 and 2 more. ');
});
