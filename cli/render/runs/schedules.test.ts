import { expect, test } from 'vitest';
import { renderSchedules, renderStoppedSchedules } from './schedules.ts';

const NOW_MS = Date.parse('2026-11-28T08:00:00Z');
const STOPPED = { nowMs: NOW_MS, canStart: true };
const nightly = { id: 'nightly', nextAtMs: NOW_MS + 22 * 3_600_000 };

test('a schedule is named with its next time, in UTC and from now', () => {
  const one = { count: 1, isComplete: true, next: [nightly] };
  expect(renderSchedules(one, NOW_MS)).toEqual([
    'schedules   1 Temporal Schedule keeps the stack up: nightly (next 2026-11-29T06:00:00Z, in 22h 00m)',
  ]);
  expect(renderStoppedSchedules(one, STOPPED)).toEqual([
    'warning: 1 Temporal Schedule will not run while the stack is down: nightly (next 2026-11-29T06:00:00Z, in 22h 00m)',
    'Start the stack, so that schedules run: voidbox up',
  ]);
});

test('three schedules are named, the others are counted, and a long id is cut without its control characters', () => {
  const next = ['a\u001b[2J', 'b'.repeat(1_000), 'c', 'd'].map((id) => ({ ...nightly, id }));
  const [line = ''] = renderSchedules({ count: 40, isComplete: true, next }, NOW_MS);
  expect(line).toContain('40 Temporal Schedules keep the stack up: a (next');
  expect(line).toContain(`${'b'.repeat(60)}… (next`);
  expect(line).toMatch(/, c \(next [^)]*\) and 37 more$/);
  expect(line.length).toBeLessThan(400);
});

test('the line of an incomplete list names that it is incomplete', () => {
  const [line = ''] = renderSchedules({ count: 1, isComplete: false, next: [nightly] }, NOW_MS);
  expect(line).toContain('at least 1 Temporal Schedule keeps the stack up');
  const none = { count: 0, isComplete: false, next: [] };
  expect(renderSchedules(none, NOW_MS)[0]).toContain('more than 1,000');
  expect(renderStoppedSchedules(none, STOPPED)[0]).toContain('more than 1,000');
});

test('no schedules have no line, and a server that did not answer is named', () => {
  const none = { count: 0, isComplete: true, next: [] };
  expect(renderSchedules(none, NOW_MS)).toEqual([]);
  expect(renderStoppedSchedules(none, STOPPED)).toEqual([]);
  expect(renderSchedules(null, NOW_MS)[0]).toContain('the server did not answer');
  expect(renderStoppedSchedules(null, STOPPED)).toEqual([]);
});

test('the warning does not name `voidbox up` if this build refuses the state folder', () => {
  const one = { count: 1, isComplete: true, next: [nightly] };
  expect(renderStoppedSchedules(one, { nowMs: NOW_MS, canStart: false })).toEqual([
    'warning: 1 Temporal Schedule will not run while the stack is down: nightly (next 2026-11-29T06:00:00Z, in 22h 00m)',
  ]);
});
