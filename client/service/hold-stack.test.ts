import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { type HeldStack, holdStack } from './hold-stack.ts';

let notes: string[];
let calls: string[];
let state: { isUp: boolean; isStopped: boolean; canStart: boolean };
const stack: HeldStack = {
  use: () => {
    calls.push('use');
    return Promise.resolve();
  },
  isUp: () => Promise.resolve(state.isUp),
  isStopped: () => state.isStopped,
  start: () => {
    calls.push('start');
    if (!state.canStart) return Promise.reject(new Error('no disk'));
    state.isUp = true;
    return Promise.resolve();
  },
};

beforeEach(() => {
  vi.useFakeTimers();
  [notes, calls, state] = [[], [], { isUp: true, isStopped: false, canStart: true }];
});
afterEach(() => void vi.useRealTimers());

const hold = () => holdStack(stack, { note: (line) => notes.push(line), lookMs: 1_000, useMs: 5_000 });

test('a service uses its stack regularly, and less often than it looks for the stack', async () => {
  const holding = hold();
  await vi.advanceTimersByTimeAsync(15_000);
  holding.dispose();
  expect(calls).toEqual(['use', 'use', 'use']);
  await vi.advanceTimersByTimeAsync(15_000);
  expect(calls).toHaveLength(3);
});

test('a stack that died is started again, and a failure is a note once', async () => {
  const holding = hold();
  state = { isUp: false, isStopped: false, canStart: false };
  await vi.advanceTimersByTimeAsync(3_000);
  expect([calls, notes]).toEqual([['start', 'start', 'start'], ['the embedded stack: no disk']]);
  state.canStart = true;
  await vi.advanceTimersByTimeAsync(2_000);
  holding.dispose();
  expect(calls.filter((call) => call === 'start')).toHaveLength(4);
});

test('a stack that was stopped stays down, with one note for each stop', async () => {
  const holding = hold();
  state = { isUp: false, isStopped: true, canStart: true };
  await vi.advanceTimersByTimeAsync(3_000);
  expect([calls, notes]).toEqual([[], [expect.stringContaining('was stopped')]]);
  state.isUp = true;
  await vi.advanceTimersByTimeAsync(1_000);
  state.isUp = false;
  await vi.advanceTimersByTimeAsync(1_000);
  holding.dispose();
  expect(notes).toHaveLength(2);
});
