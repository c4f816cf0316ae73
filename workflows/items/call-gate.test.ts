import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { CallGate } from './call-gate.ts';

/** Makes calls that end on demand. */
function callsOf(gate: CallGate, count: number) {
  const begun: number[] = [];
  const ends = new Map<number, { readonly ok: () => void; readonly fail: () => void }>();
  const results = Array.from({ length: count }, (_, call) =>
    gate.run(
      () =>
        new Promise<number>((resolve, reject) => {
          begun.push(call);
          ends.set(call, { ok: () => resolve(call), fail: () => reject(new Error(`call ${call}`)) });
        }),
    ),
  );
  for (const result of results) result.catch(() => undefined);
  return { begun, ends, results };
}

test('no more calls than the limit are under way, and each other call follows one that ended', async () => {
  const { begun, ends, results } = callsOf(new CallGate(3), 8);
  await turn();
  expect(begun).toEqual([0, 1, 2]);
  ends.get(1)!.ok();
  await turn();
  expect(begun).toEqual([0, 1, 2, 3]);
  // One that failed has ended as well.
  ends.get(0)!.fail();
  ends.get(3)!.ok();
  await turn();
  expect(begun).toEqual([0, 1, 2, 3, 4, 5]);
  for (const call of [2, 4, 5]) ends.get(call)!.ok();
  await turn();
  for (const call of [6, 7]) ends.get(call)!.ok();
  const settled = await Promise.allSettled(results);
  expect(settled.map(({ status }) => status)).toEqual(['rejected', ...Array.from({ length: 7 }, () => 'fulfilled')]);
});

test('a place is free again if no call waited for it', async () => {
  const gate = new CallGate(2);
  const first = callsOf(gate, 2);
  await turn();
  for (const { ok } of first.ends.values()) ok();
  await Promise.all(first.results);
  const next = callsOf(gate, 3);
  await turn();
  expect(next.begun).toEqual([0, 1]);
});

test('the bound of a window is 800, of the 2,000 that the server allows', async () => {
  const { begun, ends } = callsOf(new CallGate(), 1_000);
  await turn();
  expect(begun).toHaveLength(800);
  ends.get(5)!.ok();
  await turn();
  expect(begun).toHaveLength(801);
});
