import { beforeEach, describe, expect, test } from 'vitest';
import type { RunOutcome } from '../../domain/run/event.ts';
import type { DeliveryRow } from '../../store/triggers.ts';
import type { Stores } from '../../store/stores.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import { awaitHookAnswer, MOST_ANSWER_BYTES } from './await-answer.ts';

let stores: Stores;
let rows: Map<string, Partial<DeliveryRow>>;

beforeEach(async () => {
  stores = openMemoryStores(new MemoryPlace());
  rows = new Map([['d', { state: 'started', runId: 'run', into: null }]]);
  await stores.events.append('run', [{ id: 'n', atMs: 1, body: { type: 'notice', level: 'info', message: 'begins' } }]);
});

async function end(change: Partial<RunOutcome>): Promise<void> {
  const outcome = { state: 'succeeded', failedStage: null, failure: null, output: null, ...change } as const;
  await stores.events.append('run', [{ id: 'run/finished', atMs: 2, body: { type: 'run-finished', outcome } }]);
}

async function* chunksOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(bytes);
}

async function ask(waitMs = 5_000, signal = new AbortController().signal, output: string | null = null) {
  const deliveries = { find: (id: string) => Promise.resolve((rows.get(id) as DeliveryRow | undefined) ?? null) };
  return await awaitHookAnswer('d', { waitMs, output }, { deliveries, signal }, createTestMachine(stores));
}

describe('the answer of a webhook that waits', () => {
  test.each([
    ['{"a":1}', 'application/json'],
    ['<script>', 'text/plain; charset=utf-8'],
    [new Uint8Array([0xff]), 'application/octet-stream'],
  ])('is the output %j as %s', async (bytes, contentType) => {
    await end({ output: await stores.artifacts.put(chunksOf(Buffer.from(bytes)), 'text/html') });
    expect(await ask()).toMatchObject({ kind: 'output', contentType, bytes: Buffer.from(bytes) });
  });

  test('is empty for a run without an output', async () => {
    await end({});
    expect(await ask()).toMatchObject({ kind: 'output', bytes: new Uint8Array() });
  });

  test('is the failure of the run, or an output that is too large', async () => {
    await end({ output: await stores.artifacts.put(chunksOf(Buffer.alloc(MOST_ANSWER_BYTES + 1)), 'text/plain') });
    expect(await ask()).toEqual({ kind: 'failed', runId: 'run', reason: 'the output has more than 1 MiB' });
  });

  test('is the failure of the run', async () => {
    await end({ state: 'failed', failedStage: 'a' });
    expect(await ask()).toEqual({ kind: 'failed', runId: 'run', reason: 'the run has failed' });
  });

  test('comes once the delivery is decided and its run has ended', async () => {
    rows.set('d', { state: 'accepted', runId: null, into: null });
    const asked = ask();
    setTimeout(() => rows.set('d', { state: 'started', runId: 'run', into: null }), 30);
    setTimeout(() => void end({ output: null }), 60);
    expect(await asked).toMatchObject({ kind: 'output' });
  });

  test('is the output of the run of another delivery, which replaces this one', async () => {
    rows.set('d', { state: 'merged', runId: null, into: 'e' });
    rows.set('e', { state: 'started', runId: 'run', into: null });
    await end({});
    expect(await ask()).toMatchObject({ kind: 'output' });
  });

  test('does not follow a circle', async () => {
    rows.set('d', { state: 'merged', runId: null, into: 'd' });
    expect(await ask()).toEqual({ kind: 'open', state: 'merged' });
  });

  test('is open without a run, and if the run has not ended in time', async () => {
    expect(await ask(20)).toEqual({ kind: 'open', state: 'started' });
    for (const state of ['filtered', 'refused', 'failed', 'deduplicated'] as const) {
      rows.set('d', { state, runId: null, into: null });
      expect(await ask()).toEqual({ kind: 'open', state });
    }
    rows.set('d', { state: 'held', runId: null, into: null });
    expect(await ask(20)).toEqual({ kind: 'open', state: 'held' });
  });

  test('ends when the sender goes, and the run continues', async () => {
    const gone = new AbortController();
    setTimeout(() => gone.abort(), 20);
    const startedMs = performance.now();
    expect(await ask(60_000, gone.signal)).toEqual({ kind: 'open', state: 'started' });
    expect(performance.now() - startedMs).toBeLessThan(5_000);
  });
});
