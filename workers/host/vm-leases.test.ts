import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { expect, test } from 'vitest';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { RunRecords } from '../../activities/ports/run-records.ts';
import { countLiving, keepLeases, renewalIntervalMs, renewLeases, type VmLeasesOptions } from './vm-leases.ts';

const NEED = { memoryMib: 256, vcpus: 1, diskMib: 1_024 };

type Answer = 'RUNNING' | 'TERMINATED' | 'COMPLETED' | 'unknown' | 'unreachable';

/** A server that reports for each run the state in `answers`. */
function clientThatSays(answers: Readonly<Record<string, Answer>>): Client {
  const describe = async (runId: string): Promise<unknown> => {
    const answer = answers[runId] ?? 'unknown';
    if (answer === 'unreachable') throw new Error('UNAVAILABLE: connection refused');
    if (answer === 'unknown') throw new WorkflowNotFoundError('no such workflow', runId, undefined);
    return { status: { name: answer }, startTime: new Date(0) };
  };
  return { workflow: { getHandle: (runId: string) => ({ describe: () => describe(runId) }) } } as unknown as Client;
}

function options(answers: Readonly<Record<string, Answer>>, more: Partial<VmLeasesOptions> = {}) {
  const kept: string[] = [];
  const counted: unknown[] = [];
  const said: string[] = [];
  const vms = Object.keys(answers).map((runId) => ({
    key: { runId, scope: 's', instance: [], generation: 0 },
    alive: true,
    need: NEED,
  }));
  const all: VmLeasesOptions = {
    client: clientThatSays(answers),
    records: {
      get: async (runId: string) => ({ serverId: runId.startsWith('foreign') ? 'there' : 'here', hostId: 'any' }),
    } as unknown as RunRecords,
    serverId: 'here',
    listVms: async () => vms,
    leases: { renew: async ({ runId, scope }, need) => void counted.push([runId, scope, need]) },
    keepAlive: async ({ runId }) => {
      kept.push(runId);
    },
    log: (_, message) => void said.push(message),
    ...more,
  };
  return { all, kept, counted, said };
}

const RUNS = {
  open: 'RUNNING',
  terminated: 'TERMINATED',
  done: 'COMPLETED',
  gone: 'unknown',
  foreign: 'RUNNING',
} as const;

test('leases of VMs of open runs are renewed; leases of ended, unknown and foreign runs are not', async () => {
  const { all, kept } = options(RUNS);
  await renewLeases(all);
  expect(kept).toEqual(['open']);
});

test('no lease is renewed while the server does not answer, so that a VM ends with its lease', async () => {
  const { all, kept, said } = options({ open: 'unreachable' });
  await renewLeases(all);
  expect(kept).toEqual([]);
  expect(said).toEqual([
    'run open: its VMs are not kept, because it is not known to be running: UNAVAILABLE: connection refused',
  ]);
});

test('the server decides about the VMs of a run whose admission cannot be read; the log reports an admission that is not damaged', async () => {
  const { all, kept, said } = options({ damaged: 'RUNNING', unreadable: 'RUNNING', ended: 'COMPLETED' });
  const records = {
    get: async (runId: string) => {
      throw new CodedError(runId === 'damaged' ? 'store/damaged' : 'store/io', `${runId}: no admission`);
    },
  } as unknown as RunRecords;
  await renewLeases({ ...all, records });
  expect(kept.toSorted()).toEqual(['damaged', 'unreadable']);
  expect(said.toSorted()).toEqual([
    'run ended: the server decides whether its VMs are kept: ended: no admission',
    'run unreadable: the server decides whether its VMs are kept: unreadable: no admission',
  ]);
});

test('dead VMs are not asked, and one that does not answer keeps no other from being renewed', async () => {
  const vm = (scope: string, alive: boolean) => ({
    key: { runId: 'open', scope, instance: [], generation: 0 },
    alive,
    need: NEED,
  });
  const kept: string[] = [];
  const { all, said } = options(
    { open: 'RUNNING' },
    {
      listVms: async () => [vm('dead', false), vm('stuck', true), vm('first', true), vm('idle', true)],
      keepAlive: async ({ scope }) => {
        if (scope === 'stuck') throw new Error('The operation was aborted due to timeout');
        kept.push(scope);
      },
    },
  );
  await renewLeases(all);
  expect(kept).toEqual(['first', 'idle']);
  expect(said).toEqual([
    'run open: the lease of its VM stuck/0 was not renewed: The operation was aborted due to timeout',
  ]);
});

test('every VM that lives takes room, whatever the server says of its run; one that is not counted costs no other', async () => {
  const { all, counted, said } = options({ ...RUNS, away: 'unreachable' });
  const living = await all.listVms();
  const leases: typeof all.leases = {
    renew: async (key, need) => {
      if (key.runId === 'done') throw new Error('connection refused');
      await all.leases.renew(key, need);
    },
  };
  await countLiving({ ...all, leases, listVms: async () => [...living, { ...living[0]!, alive: false }] });
  const others = ['open', 'terminated', 'gone', 'foreign', 'away'];
  expect(counted).toEqual(others.map((runId) => [runId, 's', NEED]));
  expect(said).toEqual(['run done: the room of its VM s/0 was not renewed: connection refused']);
});

test('a server that does not answer keeps no living VM from being counted', async () => {
  const { all, counted } = options({ open: 'RUNNING' });
  const silent = { workflow: { getHandle: () => ({ describe: () => new Promise(() => undefined) }) } };
  const stop = keepLeases({ ...all, client: silent as unknown as Client }, 10);
  try {
    await expect.poll(() => counted.length).toBeGreaterThan(2);
  } finally {
    stop();
  }
});

test('a lease is renewed several times in its length, and once a minute at least', () => {
  expect(renewalIntervalMs(null)).toBe(60_000);
  expect(renewalIntervalMs(10_000)).toBe(2_500);
  expect(renewalIntervalMs(1)).toBe(1_000);
});
