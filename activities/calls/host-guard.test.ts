import { MockActivityEnvironment } from '@temporalio/testing';
import { expect, test } from 'vitest';
import type { Activities } from '../contract.ts';
import { guardByHost } from './host-guard.ts';
import type { RunRecords } from '../ports/run-records.ts';

function recordsOf(admitted: readonly string[], reads: string[]): RunRecords {
  return {
    get: (runId: string) => {
      reads.push(runId);
      return Promise.resolve(admitted.includes(runId) ? { hostId: 'h' } : null);
    },
  } as unknown as RunRecords;
}

const calls: string[] = [];
const activities = new Proxy({} as Activities, {
  get: (_target, name: string) => (request: { readonly runId: string }) => {
    calls.push(`${name} ${request.runId}`);
    return Promise.resolve(name);
  },
});

test("works on runs that were admitted here, and fails calls for another host's runs with a retry", async () => {
  const reads: string[] = [];
  const own = guardByHost(activities, recordsOf(['mine'], reads), 'h');
  const request = (runId: string): never => ({ runId }) as never;
  const calledBy = (
    workflowId: string,
    activity: (request: never) => Promise<unknown>,
    runId = workflowId,
  ): Promise<unknown> =>
    new MockActivityEnvironment({ workflowExecution: { workflowId, runId: 'r' } }).run(() => activity(request(runId)));
  for (const name of ['acquireVm', 'runStage', 'releaseVm', 'appendEvents', 'finishRun'] as const) {
    expect(await calledBy('mine', own[name])).toBe(name);
    await expect(calledBy('theirs', own[name])).rejects.toMatchObject({
      type: 'host/elsewhere',
      nonRetryable: false,
      nextRetryDelay: 100,
    });
  }
  expect(calls).toEqual(['acquireVm mine', 'runStage mine', 'releaseVm mine', 'appendEvents mine', 'finishRun mine']);
  // No host has the run of a foreign workflow: the activity itself refuses the call.
  expect(await calledBy('a-stranger', own.runStage, 'theirs')).toBe('runStage');
  expect(calls.pop()).toBe('runStage theirs');
  // Later stages of a run do not read the disk again.
  expect(reads.filter((runId) => runId === 'mine')).toHaveLength(1);
});

test('admits a run that no host has admitted yet', async () => {
  const own = guardByHost(activities, recordsOf([], []), 'h');
  expect(await own.admit({ runId: 'new' } as never)).toBe('admit');
});

test('only the host that admitted a run works on it, if two hosts read the same records', async () => {
  const called = (records: RunRecords, hostId: string): Promise<unknown> =>
    new MockActivityEnvironment({ workflowExecution: { workflowId: 'r', runId: 'x' } }).run(() =>
      guardByHost(activities, records, hostId).finishRun({ runId: 'r' } as never),
    );
  expect(await called(recordsOf(['r'], []), 'h')).toBe('finishRun');
  await expect(called(recordsOf(['r'], []), 'other')).rejects.toMatchObject({ type: 'host/elsewhere' });
});
