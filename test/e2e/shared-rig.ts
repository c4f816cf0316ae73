/** One rig for all tests of a file that need no stack of their own: a start of one costs seconds of a CPU. */
import { afterAll, afterEach, beforeAll } from 'vitest';
import { Rig } from './rig.ts';

/**
 * Each test has run ids of its own, and leaves nothing of its runs. One that fails takes its rig with it, so that the
 * next one does not meet what it left.
 * @returns the rig of the test that asks
 */
export function useRig(variables: Readonly<Record<string, string>> = {}): () => Rig {
  let rig: Rig;
  beforeAll(() => {
    rig = new Rig(variables);
  });
  afterEach(async ({ task }) => {
    try {
      if (task.result?.state === 'fail') throw new Error('the rig of a test that failed is not used again');
      await rig.assertNoRunLeft();
    } catch (error) {
      await rig[Symbol.asyncDispose]();
      rig = new Rig(variables);
      // The failure of the test says more.
      if (task.result?.state !== 'fail') throw error;
    }
  });
  afterAll(async () => {
    try {
      await rig.assertNothingLeft();
    } finally {
      await rig[Symbol.asyncDispose]();
    }
  });
  return () => rig;
}
