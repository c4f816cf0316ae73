import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createGate } from './create-gate.ts';

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
