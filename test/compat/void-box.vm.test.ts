/** Those of Void-Box's examples that need nothing but commands run unchanged. */
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Rig } from '../e2e/rig.ts';

const SPECS = join(dirname(fileURLToPath(import.meta.url)), 'void-box', 'specs');

let rig: Rig;
beforeAll(() => {
  rig = new Rig();
});
afterAll(async () => {
  try {
    await rig.assertNothingLeft();
  } finally {
    await rig[Symbol.asyncDispose]();
  }
});

test.each([
  // Its `sandbox.mode` asks for no VM.
  ['workflow.yaml', 'HELLO FROM WORKFLOW\n', ['none', 'none']],
  ['startup_cross_check.yaml', '', ['microvm']],
])('%s', async (file, outputText, isolations) => {
  const { code, stdout, stderr } = await rig.cli('run', join(SPECS, file), '--json');
  expect(code, `${stdout}\n${stderr}`).toBe(0);
  const run = JSON.parse(stdout) as { stages: readonly { state: string; isolation: string | null }[] };
  expect(run).toMatchObject({ state: 'succeeded', outputText });
  expect(run.stages.map(({ state, isolation }) => ({ state, isolation }))).toEqual(
    isolations.map((isolation) => ({ state: 'succeeded', isolation })),
  );
});
