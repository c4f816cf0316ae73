/** Tests each part that can be missing for `GET /ready`. `server/open-work.test.ts` has the server and the store. */
import type { Client } from '@temporalio/client';
import { expect, test } from 'vitest';
import type { DiskRoom } from '../../activities/ports/local-store.ts';
import type { ServerLink } from '../../client/temporal/server-link.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import { checkReadiness, type Readiness } from './readiness.ts';

const NOW_MS = 1_000_000_000;
const MIB = 1024 * 1024;
const ROOM: DiskRoom = { availableBytes: 5_000 * MIB, sizeBytes: 10_000 * MIB, floorBytes: 512 * MIB, isLow: false };

/** @param polledMs  when a worker asked the server last; null: none did; an error: the server answers with it */
async function check(polledMs: number | null | Error, room = ROOM): Promise<Readiness> {
  const pollers =
    polledMs === null || polledMs instanceof Error
      ? []
      : [{ identity: 'w', lastAccessTime: { seconds: polledMs / 1_000, nanos: 0 } }];
  const client = {
    options: { namespace: 'default' },
    withDeadline: (_untilMs: number, call: () => Promise<unknown>) => call(),
    workflowService: {
      describeTaskQueue: () => (polledMs instanceof Error ? Promise.reject(polledMs) : Promise.resolve({ pollers })),
      listWorkers: () => Promise.resolve({ workersInfo: [] }),
    },
  } as unknown as Client;
  const link = { isEmbedded: true, client: () => client } as unknown as ServerLink;
  const change = { stackLink: () => Promise.resolve(link), now: () => new Date(NOW_MS) };
  return await checkReadiness(createTestMachine(openMemoryStores(new MemoryPlace()), change), () => room);
}

test('a service is ready while a worker asks for runs', async () => {
  expect(await check(NOW_MS - 80_000)).toEqual({ isReady: true, missing: [] });
});

test.each([
  ['no worker has asked', null],
  ['the last worker has not asked for 90 s', NOW_MS - 90_000],
])('if %s, the worker is missing', async (_what, polledMs) => {
  const problem = 'no worker asks the Temporal server for runs';
  expect(await check(polledMs)).toEqual({ isReady: false, missing: [{ part: 'worker', problem }] });
});

test('if the server does not answer, it is missing with its error', async () => {
  const problem = 'the Temporal server does not answer: went away';
  expect(await check(new Error('went away'))).toEqual({ isReady: false, missing: [{ part: 'server', problem }] });
});

test('if no VM could start on the disk, the disk is missing too', async () => {
  const full = { ...ROOM, availableBytes: 100 * MIB, isLow: true };
  const problem = expect.stringMatching(/^the disk of the state folder has 100 .*; VMs start with 512 /) as string;
  expect((await check(null, full)).missing).toEqual([
    { part: 'worker', problem: expect.any(String) },
    { part: 'disk', problem },
  ]);
  expect((await check(NOW_MS, full)).isReady).toBe(false);
});
