import { expect, test } from 'vitest';
import { createAdmitted, createAskedMachine } from '../../test/rig/runs/asked-machine.ts';
import { listRuns } from './list-runs.ts';

test.each([
  ['with a state', { limit: 10, state: 'running' } as const],
  ['of any state', { limit: 10 }],
])('a list of runs %s asks the server once about each open run', async (_what, query) => {
  const { machine, stores, asked } = createAskedMachine();
  for (const runId of ['a', 'b']) await stores.events.append(runId, [createAdmitted()]);
  const { views } = await listRuns(query, machine);
  expect(views.map(({ runId }) => runId).toSorted()).toEqual(['a', 'b']);
  expect(asked.toSorted()).toEqual(['describe a', 'describe b']);
});
