import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createFairGate, createGate } from './create-gate.ts';

test('at most two tasks run at once, in their order, also after one has failed', async () => {
  const gate = createGate(2);
  const begun: number[] = [];
  const ends: (() => void)[] = [];
  const tasks = [0, 1, 2, 3].map((index) =>
    gate(async () => {
      begun.push(index);
      await new Promise<void>((resolve) => (ends[index] = resolve));
      if (index === 0) throw new Error('failed');
      return index;
    }),
  );
  const failure = tasks[0]!.catch((error: unknown) => String(error));
  await nextTurn();
  expect(begun).toEqual([0, 1]);
  ends[0]!();
  expect(await failure).toBe('Error: failed');
  await nextTurn();
  expect(begun).toEqual([0, 1, 2]);
  ends[1]!();
  ends[2]!();
  await nextTurn();
  await nextTurn();
  ends[3]!();
  expect(await Promise.all(tasks.slice(1))).toEqual([1, 2, 3]);
  expect(await gate(() => Promise.resolve('later'))).toBe('later');
});

test('a key that fills the gate with slow tasks leaves room for tasks of other keys', async () => {
  const gate = createFairGate(2);
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  const run = (key: string): Promise<void> =>
    gate(key, async () => {
      begun.push(key);
      await new Promise<void>((resolve) => ends.push(resolve));
    });
  const tasks = [run('hostile'), run('hostile'), run('hostile'), run('ci')];
  await nextTurn();
  expect(begun).toEqual(['hostile', 'ci']);
  const third = run('other');
  await nextTurn();
  expect(begun).toHaveLength(2);
  ends[1]!();
  await nextTurn();
  expect(begun).toEqual(['hostile', 'ci', 'other']);
  for (let at = 0; at < 5; at += 1) {
    ends[at]?.();
    await nextTurn();
    await nextTurn();
  }
  ends.forEach((end) => end());
  await Promise.all([...tasks, third]);
  expect(begun).toEqual(['hostile', 'ci', 'other', 'hostile', 'hostile']);
});
