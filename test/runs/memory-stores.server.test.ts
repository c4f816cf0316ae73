/** A whole run whose stores are in memory, through a real Temporal server and the real activities; only the VM is a mock. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { answerStage, listAskingStages } from '../../client/runs/answers.ts';
import { startRun } from '../../client/runs/runs.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { MemoryPlace, openMemoryStores } from '../rig/runs/memory-stores.ts';
import { useTestRuns } from '../rig/servers/test-runs.ts';

const LARGE = 'x'.repeat(5_000);
const backend = createMockBackend({
  programs: {
    large: async ({ write }) => {
      await write('stdout', LARGE);
      return 0;
    },
    fail: async () => 3,
  },
});
const place = new MemoryPlace();
const runs = useTestRuns(backend, { recorded: [], stores: openMemoryStores(place) });

const SPEC = `
kind: workflow
name: in-memory
sandbox: { mode: mock, isolation: none }
workflow:
  output_step: publish
  steps:
    - { name: make, run: { program: large } }
    - { name: each, depends_on: [make], for_each: [a, b, c], run: { program: echo, args: [item] } }
    - { name: wrong, continue_on_error: true, run: { program: fail } }
    - { name: release, depends_on: [each], approval: { message: Release it? } }
    - { name: publish, depends_on: [release], run: { program: cat, stdin_from: make } }
    - { name: clean, finally: true, when: 'stages.wrong.state != "succeeded"', run: { program: echo, args: [cleaned] } }
`;

test('a run with items, an approval, a failed stage and a large output ends as on files, also over a new worker', async () => {
  await startRun(runs.client, { runId: 'memory', request: { spec: SPEC }, summary: 'test memory' });
  while ((await listAskingStages(runs.client, 'memory')).length === 0) await sleep(20);
  expect(await runs.stack.stores.index.openRuns()).toEqual(['memory']);
  // The next worker knows only what the stores contain of the run.
  await runs.stopWorker();
  await runs.startWorker();
  await answerStage(runs.client, 'memory', { stage: 'release', decision: 'approve', by: 'ada' });
  const outcome = await runs.outcomeOf('memory');
  expect(outcome).toMatchObject({ state: 'succeeded', failedStage: null });
  expect(await runs.textOf(outcome)).toBe(LARGE);

  const view = await runs.viewOf('memory');
  expect(Object.fromEntries(view.stages.map(({ id, state }) => [id, state]))).toEqual({
    make: 'succeeded',
    each: 'succeeded',
    wrong: 'failed',
    release: 'succeeded',
    publish: 'succeeded',
    clean: 'succeeded',
  });
  const { index, records, hostVariables, pruner } = runs.stack.stores;
  expect((await index.list({ limit: 10 })).runs).toMatchObject([
    { runId: 'memory', name: 'in-memory', state: 'succeeded' },
  ]);
  expect(await records.get('memory', 'manifest')).not.toBeNull();
  expect(await hostVariables.get('memory')).toEqual({});
  // None of it is in a file.
  for (const folder of ['runs', 'artifacts']) expect(existsSync(join(runs.stack.stateDir, folder))).toBe(false);

  const pruned = await pruner.prune({
    olderThanMs: 0,
    keepLast: null,
    dryRun: false,
    nowMs: Date.now() + 9 * 86_400_000,
  });
  expect(pruned.runs).toEqual(['memory']);
  expect(place.runs.size).toBe(0);
  expect(place.artifacts.size).toBe(0);
});
