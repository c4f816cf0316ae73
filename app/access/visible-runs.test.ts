import { expect, test } from 'vitest';
import type { Stores } from '../../store/stores.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import { createTokenCaller } from '../../test/rig/access/token-caller.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import type { Machine } from '../machine.ts';
import type { Caller } from './authenticate.ts';
import { limitToVisible } from './visible-runs.ts';

function machineWith(stores: Stores): Machine {
  return createTestMachine(stores);
}

function callerFor(runs: readonly string[]): Caller {
  return createTokenCaller({ scopes: ['read'], runs });
}

async function leaveRuns(count: number, nameOf: (at: number) => string): Promise<Stores> {
  const stores = openMemoryStores(new MemoryPlace());
  for (let at = 0; at < count; at += 1)
    await stores.events.append(nameOf(at), [
      { id: 'n', atMs: at + 1, body: { type: 'notice', level: 'info', message: 'begins' } },
    ]);
  return stores;
}

test('pages of visible runs name each of them once, in order', async () => {
  const stores = await leaveRuns(60, (at) => `${at % 3 === 0 ? 'a' : 'b'}-${at}`);
  const { index } = await limitToVisible(machineWith(stores), callerFor(['a-*'])).stores();
  const seen: (string | null)[] = [];
  let before;
  for (;;) {
    const page = await index.list({ limit: 7, ...(before === undefined ? {} : { before }) });
    expect(page.runs.length).toBeLessThanOrEqual(7);
    seen.push(...page.runs.map(({ runId }) => runId));
    if (page.next === null) break;
    before = page.next;
  }
  expect(seen).toEqual(Array.from({ length: 20 }, (_, at) => `a-${57 - 3 * at}`));
});

test('a page reads a bounded number of pages of the index, and the next one continues there', async () => {
  const stores = await leaveRuns(50, (at) => (at === 0 ? 'a-0' : `b-${at}`));
  const { index } = await limitToVisible(machineWith(stores), callerFor(['a-*'])).stores();
  const first = await index.list({ limit: 2 });
  expect(first.runs).toEqual([]);
  const second = await index.list({ limit: 2, before: first.next! });
  expect(second.runs.map(({ runId }) => runId)).toEqual(['a-0']);
});

test('the owner, and a token without patterns, see the index itself', async () => {
  const machine = machineWith(await leaveRuns(1, () => 'x'));
  expect(limitToVisible(machine, { kind: 'owner' })).toBe(machine);
  expect(limitToVisible(machine, callerFor([]))).toBe(machine);
});
