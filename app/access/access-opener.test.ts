import { expect, test } from 'vitest';
import type { AccessStore } from '../../store/access.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { createAccessOpener, type AccessUse } from './access-opener.ts';

const hasDatabase = () => true;

test('all requests share one store, which is opened when the first of them needs it', async () => {
  let opened = 0;
  const openStore = () => Promise.resolve(((opened += 1), createMemoryAccess()));
  const access = createAccessOpener({ openStore, hasDatabase });
  expect(opened).toBe(0);
  const [one, two] = await Promise.all([access.open('find'), access.open('make')]);
  expect(one).toBe(two);
  expect(opened).toBe(1);
});

test('without a database there is no token, and nothing is opened until one is made', async () => {
  const uses: AccessUse[] = [];
  const access = createAccessOpener({
    openStore: (use) => Promise.resolve((uses.push(use), createMemoryAccess())),
    hasDatabase: () => uses.length > 0,
  });
  const { tokens, audit } = await access.open('find');
  expect([await tokens.list(), await tokens.find(new Uint8Array(32)), await tokens.revoke('ci', 1)]).toEqual([
    [],
    null,
    null,
  ]);
  expect(await audit.list({ limit: 1 })).toEqual([]);
  expect(uses).toEqual([]);
  const made = await access.open('make');
  expect(await access.open('find')).toBe(made);
  expect(uses).toEqual(['make']);
});

test('a failure is the answer for five seconds, and then the store is opened again', async () => {
  let nowMs = 1_000;
  let tries = 0;
  const access = createAccessOpener({
    openStore: () =>
      (tries += 1) === 1 ? Promise.reject(new Error('no room')) : Promise.resolve(createMemoryAccess()),
    hasDatabase,
    nowMs: () => nowMs,
  });
  await expect(access.open('find')).rejects.toThrow('no room');
  nowMs += 4_999;
  await expect(access.open('find')).rejects.toThrow('no room');
  expect(tries).toBe(1);
  nowMs += 1;
  await access.open('find');
  expect(tries).toBe(2);
});

test('a new token does not wait after a request that could not fetch what is missing', async () => {
  const uses: AccessUse[] = [];
  const access = createAccessOpener({
    openStore: (use) => {
      uses.push(use);
      return use === 'find' ? Promise.reject(new Error('a piece is missing')) : Promise.resolve(createMemoryAccess());
    },
    hasDatabase,
    nowMs: () => 1_000,
  });
  await expect(access.open('find')).rejects.toThrow('a piece is missing');
  await access.open('make');
  await access.open('find');
  expect(uses).toEqual(['find', 'make']);
});

test('a store is closed if it was opened', async () => {
  let closed = 0;
  const store: AccessStore = { ...createMemoryAccess(), close: () => Promise.resolve(void (closed += 1)) };
  const openStore = () => Promise.resolve(store);
  await createAccessOpener({ openStore, hasDatabase }).close();
  expect(closed).toBe(0);
  const failed = createAccessOpener({ openStore: () => Promise.reject(new Error('no room')), hasDatabase });
  await expect(failed.open('find')).rejects.toThrow('no room');
  await failed.close();
  const access = createAccessOpener({ openStore, hasDatabase });
  await access.open('find');
  await access.close();
  expect(closed).toBe(1);
});
