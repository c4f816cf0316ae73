import { type Client, TerminatedFailure, WorkflowFailedError } from '@temporalio/client';
import { expect, test } from 'vitest';
import type { EventLog } from '../../activities/ports/event-log.ts';
import type { HostVariables } from '../../activities/ports/host-variables.ts';
import type { IndexedRun, RunIndex } from '../../activities/ports/run-index.ts';
import type { RunRecords } from '../../activities/ports/run-records.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { announceResumed, cleanUp } from './janitor.ts';
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

const UNREADABLE = new CodedError('store/io', 'cannot open admission.json: EMFILE: too many open files');
const DAMAGED = new CodedError('store/damaged', 'admission.json is damaged: it is no JSON');

test('a round ends the VMs of an ended run with a damaged admission, and reports a run whose admission cannot be read', async () => {
  const released: string[] = [];
  const logged: string[] = [];
  const runIds = ['damaged', 'unreadable'];
  const unused = async (): Promise<never> => {
    throw new Error('a run without a known owner has none of these');
  };
  await cleanUp({
    client,
    openRuns: { list: async () => [], events: {} as EventLog, ended: () => undefined },
    records: {
      get: async (runId: string) => {
        throw runId === 'damaged' ? DAMAGED : UNREADABLE;
      },
    } as unknown as RunRecords,
    hostVariables: { drop: unused } as unknown as HostVariables,
    serverId: SERVER,
    hostId: 'a',
    listVms: async () =>
      runIds.map((runId) => ({
        key: { runId, scope: 's', instance: [], generation: 0 },
        alive: true,
        need: { memoryMib: 1, vcpus: 1, diskMib: 1 },
      })),
    release: async ({ runId }) => void released.push(runId),
    dropMounts: unused,
    endSessions: unused,
    log: (level, message) => void logged.push(`${level}: ${message}`),
  });
  expect(released).toEqual(['damaged']);
  expect(logged.filter((line) => line.startsWith('warning'))).toEqual([
    `warning: could not maintain run unreadable: ${UNREADABLE.message}`,
  ]);
});

test('a worker starts although a log does not accept that it resumes a run, and reports that log unless it is damaged', async () => {
  const written: string[] = [];
  const logged: string[] = [];
  const append = async (runId: string): Promise<number> => {
    if (runId === 'damaged') throw DAMAGED;
    if (runId === 'unreadable') throw UNREADABLE;
    return written.push(runId);
  };
  const runIds = ['damaged', 'unreadable', 'open'];
  await announceResumed(
    { append },
    { runIds, by: 'w', log: (level, message) => void logged.push(`${level}: ${message}`) },
  );
  expect(written).toEqual(['open']);
  expect(logged).toEqual([
    `warning: run unreadable: its log does not accept that this worker has resumed it: ${UNREADABLE.message}`,
  ]);
});
