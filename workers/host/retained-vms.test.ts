import type { Client } from '@temporalio/client';
import { expect, test } from 'vitest';
import type { VmKey } from '../../activities/ports/sandbox.ts';
import type { Retention } from '../../domain/run/retained-vm.ts';
import { cleanUp, type HostVm } from './janitor.ts';
import { createRetainedVms, createRetentionWatch } from './retained-vms.ts';
import { renewLeases } from './vm-leases.ts';

const keyOf = (runId: string): VmKey => ({ runId, scope: 's', instance: [], generation: 0 });

function vmOf(runId: string, retainedAtMs: number | null, alive = true): HostVm {
  const retention: Retention | null =
    retainedAtMs === null
      ? null
      : { stage: 's', execKey: 's/0/1', retainedAtMs, env: {}, untilMs: retainedAtMs + 1_000 };
  return { key: keyOf(runId), alive, need: { memoryMib: 1, vcpus: 1, diskMib: 1 }, retention };
}

test('only living kept VMs are listed, oldest first', async () => {
  const vms = [vmOf('new', 2), vmOf('running', null), vmOf('dead', 0, false), vmOf('old', 1)];
  const { list } = createRetainedVms(
    () => Promise.resolve(vms),
    () => Promise.resolve(),
  );
  expect((await list()).map(({ key }) => key.runId)).toEqual(['old', 'new']);
});

test('VMs that wait for room list the kept VMs once in 2 s, and again after one has ended', async () => {
  let listings = 0;
  let nowMs = 0;
  const ended: string[] = [];
  const vms = createRetainedVms(
    async () => {
      listings += 1;
      return [vmOf('old', 1), vmOf('new', 2)].filter(({ key }) => !ended.includes(key.runId));
    },
    async ({ runId }) => void ended.push(runId),
    () => nowMs,
  );
  const oldest = async (): Promise<string | undefined> => (await vms.recent())[0]?.key.runId;
  expect(await Promise.all(Array.from({ length: 100 }, oldest))).toEqual(Array.from({ length: 100 }, () => 'old'));
  const once = listings;
  nowMs = 2_000;
  expect([await oldest(), listings]).toEqual(['old', once]);
  await vms.end(keyOf('old'));
  expect(await oldest()).toBe('new');
  nowMs = 4_001;
  await oldest();
  expect(listings).toBe(3 * once);
});

test('a host that cannot be listed for a moment is asked again', async () => {
  let fails = true;
  const vms = createRetainedVms(
    async () => {
      if (fails) throw new Error('no keeper');
      return [vmOf('left', 1)];
    },
    () => Promise.resolve(),
    () => 0,
  );
  await expect(vms.recent()).rejects.toThrow('no keeper');
  fails = false;
  expect(await vms.recent()).toHaveLength(1);
});

test('the room of one that has ended is given back once, also where another process ended it', async () => {
  let vms: readonly HostVm[] = [vmOf('a', 1), vmOf('b', 2)];
  const released: string[] = [];
  const watch = createRetentionWatch(
    createRetainedVms(
      () => Promise.resolve(vms),
      () => Promise.resolve(),
    ),
    { release: async ({ runId }) => void released.push(runId) },
  );
  await watch();
  expect(released).toEqual([]);
  vms = [vmOf('a', 1)];
  await watch();
  await watch();
  expect(released).toEqual(['b']);
  vms = [];
  await watch();
  expect(released).toEqual(['b', 'a']);
});

/** The server: every run was completed. */
const client = {
  workflow: {
    getHandle: () => ({ describe: async () => ({ status: { name: 'COMPLETED' }, startTime: new Date(0) }) }),
  },
} as unknown as Client;
const records = { get: async () => ({ serverId: 'here', hostId: 'another' }) } as never;

test('the clean-up of a run that has ended leaves it, and ends its other VMs', async () => {
  const released: string[] = [];
  await cleanUp({
    client,
    records,
    openRuns: { list: async () => [] } as never,
    hostVariables: { drop: async () => undefined } as never,
    serverId: 'here',
    hostId: 'h',
    listVms: () => Promise.resolve([vmOf('left', 1), vmOf('forgotten', null)]),
    release: async ({ runId }) => void released.push(runId),
    dropMounts: async () => undefined,
    endSessions: async () => [],
    log: () => undefined,
  });
  expect(released).toEqual(['forgotten']);
});

test('a worker does not renew the lease of a kept VM', async () => {
  const renewed: string[] = [];
  const going = {
    workflow: {
      getHandle: () => ({ describe: async () => ({ status: { name: 'RUNNING' }, startTime: new Date(0) }) }),
    },
  } as unknown as Client;
  await renewLeases({
    client: going,
    records,
    serverId: 'here',
    listVms: () => Promise.resolve([vmOf('left', 1), vmOf('idle', null)]),
    leases: { renew: async () => undefined },
    keepAlive: async ({ runId }) => {
      renewed.push(runId);
    },
    log: () => undefined,
  });
  expect(renewed).toEqual(['idle']);
});
