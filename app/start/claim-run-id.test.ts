import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, expect, test } from 'vitest';
import type { RunRecords } from '../../activities/ports/run-records.ts';
import { readOwnIdentity } from '../../files/process-identity.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import { claimRunId } from './claim-run-id.ts';

let records: RunRecords;
beforeEach(() => {
  ({ records } = openMemoryStores(new MemoryPlace()));
});

/** The identity of a process before the last boot of this machine. */
const DEAD = readOwnIdentity().replace(/^([^|]*)\|[^|]*/, '$1|an-earlier-boot');
const ELSEWHERE = readOwnIdentity().replace(/^[^|]*/, 'another-machine');

test('one start holds the id at a time, and the next one after it was released', async () => {
  const claim = await claimRunId(records, 'r');
  expect(claim).not.toBeNull();
  expect(await claimRunId(records, 'r')).toBeNull();
  expect(await claimRunId(records, 'other')).not.toBeNull();
  await claim?.release();
  expect(await records.get('r', 'start')).toBeNull();
  expect(await claimRunId(records, 'r')).not.toBeNull();
});

test('a start of a process that cannot be seen from here holds the id', async () => {
  await records.put('r', 'start', { process: ELSEWHERE, nonce: 'x' });
  expect(await claimRunId(records, 'r')).toBeNull();
});

test('a claim of a dead process is taken over by one of many starts, and nothing of it is left', async () => {
  await records.put('r', 'start', { process: DEAD, nonce: 'x' });
  const claims = await Promise.all(Array.from({ length: 20 }, () => claimRunId(records, 'r')));
  const [claim, ...others] = claims.filter((each) => each !== null);
  expect(others).toEqual([]);
  await claim?.release();
  expect([await records.get('r', 'start'), await records.get('r', 'start-x')]).toEqual([null, null]);
});

test('a successor that died too is taken over', async () => {
  await records.put('r', 'start', { process: DEAD, nonce: 'x' });
  await records.put('r', 'start-x', { process: DEAD, nonce: 'y' });
  const claim = await claimRunId(records, 'r');
  expect(await claimRunId(records, 'r')).toBeNull();
  await claim?.release();
  for (const name of ['start', 'start-x', 'start-y']) expect(await records.get('r', name)).toBeNull();
});

test('a claim of this process that gave up without a release is free', async () => {
  await records.put('r', 'start', { process: readOwnIdentity(), nonce: 'x' });
  expect(await claimRunId(records, 'r')).not.toBeNull();
});

test('at most one start of many holds the id, whatever they interleave', async () => {
  let holders = 0;
  let most = 0;
  let rounds = 0;
  const pause = (): Promise<void> => sleep(Math.random() * 2);
  const slow: typeof records = {
    ...records,
    create: async (...all) => (await pause(), await records.create(...all)),
    get: async (...all) => (await pause(), await records.get(...all)),
    drop: async (...all) => (await pause(), await records.drop(...all)),
  };
  await records.put('r', 'start', { process: DEAD, nonce: 'x' });
  const tryOften = async (): Promise<void> => {
    for (let tries = 0; tries < 40; tries += 1) {
      const claim = await claimRunId(slow, 'r');
      if (claim === null) continue;
      rounds += 1;
      holders += 1;
      most = Math.max(most, holders);
      await pause();
      holders -= 1;
      if (Math.random() < 0.5) await claim.release();
      // Its process dies: the record stays, and names a process that is gone.
      else await records.put('r', 'start', { process: DEAD, nonce: `dead-${rounds}` });
    }
  };
  await Promise.all(Array.from({ length: 6 }, tryOften));
  expect(most).toBe(1);
  expect(rounds).toBeGreaterThan(5);
});
