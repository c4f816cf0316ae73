import { expect, test } from 'vitest';
import { Phases } from './phases.ts';

test('phases add up, also those that fail, and one that never came is not named', async () => {
  const phases = new Phases();
  expect(await phases.of('up', async () => await Promise.resolve('up'))).toBe('up');
  await expect(phases.of('finish', async () => await Promise.reject(new Error('no end')))).rejects.toThrow('no end');
  expect(Object.keys(phases.spentMs())).toEqual(['up', 'finish']);
  const first = phases.spentMs().up!;
  await phases.of('up', async () => await new Promise((resolve) => setTimeout(resolve, 20)));
  expect(phases.spentMs().up! - first).toBeGreaterThanOrEqual(15);
});
