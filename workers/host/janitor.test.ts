import { type Client, TerminatedFailure, WorkflowFailedError } from '@temporalio/client';
import { expect, test } from 'vitest';
import type { EventLog } from '../../activities/ports/event-log.ts';
import type { HostVariables } from '../../activities/ports/host-variables.ts';
import type { IndexedRun, RunIndex } from '../../activities/ports/run-index.ts';
import type { RunRecords } from '../../activities/ports/run-records.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { cleanUp } from './janitor.ts';
import { createOpenRuns } from './open-runs.ts';

const SERVER = 'here';

/** Every run was terminated at the server. */
const client = {
  workflow: {
    getHandle: () => ({
      describe: async () => ({ status: { name: 'TERMINATED' }, startTime: new Date(0) }),
      result: () => {
        throw new WorkflowFailedError('terminated', new TerminatedFailure('by hand'), 'NON_RETRYABLE_FAILURE' as never);
      },
    }),
  },
} as unknown as Client;

/** Records, logs and index that two hosts share: by run, the host that admitted it. */
function sharedStore(admitted: Readonly<Record<string, string>>) {
  const logs = new Map<string, NewRunEvent[]>(Object.keys(admitted).map((runId) => [runId, []]));
  const events = {
    append: async (runId: string, written: readonly NewRunEvent[]) => {
      logs.get(runId)?.push(...written);
      return written.length;
    },
    find: async (runId: string, id: string) => logs.get(runId)?.find((event) => event.id === id) ?? null,
  } as unknown as EventLog;
  const index = {
    list: async () => ({
      runs: [...logs].map(
        ([runId, log]) => ({ runId, problem: null, endedAtMs: log.length > 0 ? 1 : null }) as unknown as IndexedRun,
      ),
      next: null,
    }),
  } as unknown as RunIndex;
  const records = {
    get: async (runId: string) => (runId in admitted ? { serverId: SERVER, hostId: admitted[runId] } : null),
  } as unknown as RunRecords;
  return { events, index, records, logs };
}

test('each of two hosts with shared records ends its own runs, and its own VMs of any run', async () => {
  const { events, index, records, logs } = sharedStore({ 'of-a': 'a', 'of-b': 'b' });
  const released: string[] = [];
  const dropped: string[] = [];
  const forgotten: string[] = [];
  const asked: string[] = [];
  const round = (hostId: string): Promise<void> =>
    cleanUp({
      client,
      openRuns: createOpenRuns({ events, index, records, serverId: SERVER, hostId, log: () => undefined }),
      records,
      hostVariables: {
        drop: async (runId: string) => void forgotten.push(`${hostId}: ${runId}`),
      } as unknown as HostVariables,
      serverId: SERVER,
      hostId,
      // This host's disk also has a VM of the other host's run, as its lease shows.
      listVms: async () =>
        ['of-a', 'of-b'].map((runId) => ({
          key: { runId, scope: 's', instance: [], generation: 0 },
          alive: true,
          need: { memoryMib: 1, vcpus: 1, diskMib: 1 },
        })),
      release: async ({ runId }) => void released.push(`${hostId}: ${runId}`),
      dropMounts: async (runId) => void dropped.push(`${hostId}: ${runId}`),
      endSessions: async (runId) => {
        asked.push(`${hostId}: ${runId}`);
        expect(released, 'its VM ends behind its sessions').not.toContain(`${hostId}: ${runId}`);
        return [];
      },
      log: () => undefined,
    });
  const ended = (): readonly string[] => [...logs].filter(([, log]) => log.length > 0).map(([runId]) => runId);

  await round('a');
  expect(released).toEqual(['a: of-a', 'a: of-b']);
  expect(dropped, 'what this host keeps of a run').toEqual(['a: of-a', 'a: of-b']);
  expect(forgotten).toEqual(['a: of-a', 'a: of-b']);
  expect(ended(), 'the last event is written by the owner').toEqual(['of-a']);
  expect(asked, 'the sessions of a run are its owner’s to end').toEqual(['a: of-a']);
  await round('b');
  expect(ended()).toEqual(['of-a', 'of-b']);
  expect(logs.get('of-b')?.map(({ body }) => body.type)).toEqual(['run-finished']);
});
