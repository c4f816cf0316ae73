import { expect, test } from 'vitest';
import type { AccessStore } from '../../store/access.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { createAccessOpener } from './access-opener.ts';

test('all requests share one store, which is opened when the first of them needs it', async () => {
  let opened = 0;
  const access = createAccessOpener(() => Promise.resolve(((opened += 1), createMemoryAccess())));
  expect(opened).toBe(0);
  const [one, two] = await Promise.all([access.open(), access.open()]);
  expect(one).toBe(two);
  expect(opened).toBe(1);
});

test('a failure is the answer for five seconds, and then the store is opened again', async () => {
  let nowMs = 1_000;
  let tries = 0;
  const access = createAccessOpener(
    () => ((tries += 1) === 1 ? Promise.reject(new Error('no room')) : Promise.resolve(createMemoryAccess())),
    () => nowMs,
  );
  await expect(access.open()).rejects.toThrow('no room');
  nowMs += 4_999;
  await expect(access.open()).rejects.toThrow('no room');
  expect(tries).toBe(1);
  nowMs += 1;
  await access.open();
  expect(tries).toBe(2);
});

test('a store is closed if it was opened', async () => {
  let closed = 0;
  const store: AccessStore = { ...createMemoryAccess(), close: () => Promise.resolve(void (closed += 1)) };
  await createAccessOpener(() => Promise.resolve(store)).close();
  expect(closed).toBe(0);
  const failed = createAccessOpener(() => Promise.reject(new Error('no room')));
  await expect(failed.open()).rejects.toThrow('no room');
  await failed.close();
  const access = createAccessOpener(() => Promise.resolve(store));
  await access.open();
  await access.close();
  expect(closed).toBe(1);
});
