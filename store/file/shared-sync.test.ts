import { expect, test } from 'vitest';
import { SharedSync } from './shared-sync.ts';

function controlled(): {
  readonly sync: SharedSync;
  readonly started: () => number;
  end(error?: Error): Promise<void>;
} {
  const ends: ((error?: Error) => void)[] = [];
  let started = 0;
  const sync = new SharedSync(() => {
    started += 1;
    return new Promise((resolve, reject) => ends.push((error) => (error === undefined ? resolve() : reject(error))));
  });
  return {
    sync,
    started: () => started,
    async end(error) {
      ends.shift()!(error);
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

/** Whether it has settled by now. */
function watch(promise: Promise<void>): { state: 'waiting' | 'done' | 'failed' } {
  const seen: { state: 'waiting' | 'done' | 'failed' } = { state: 'waiting' };
  promise.then(
    () => (seen.state = 'done'),
    () => (seen.state = 'failed'),
  );
  return seen;
}

test('callers that come while a sync runs wait for the next, all of them for the same', async () => {
  const { sync, started, end } = controlled();
  const first = watch(sync.run());
  const later = [watch(sync.run()), watch(sync.run()), watch(sync.run())];
  expect(started()).toBe(1);
  await end();
  expect(first.state).toBe('done');
  expect(later.map(({ state }) => state)).toEqual(['waiting', 'waiting', 'waiting']);
  expect(started()).toBe(2);
  const last = watch(sync.run());
  await end();
  expect(later.map(({ state }) => state)).toEqual(['done', 'done', 'done']);
  expect(last.state).toBe('waiting');
  await end();
  expect(last.state).toBe('done');
  expect(started()).toBe(3);
});

test('a failed sync rejects the callers that waited for it, and the next sync tries again', async () => {
  const { sync, started, end } = controlled();
  const first = watch(sync.run());
  const second = watch(sync.run());
  await end(new Error('EIO'));
  expect([first.state, second.state]).toEqual(['failed', 'waiting']);
  await end();
  expect(second.state).toBe('done');
  expect(started()).toBe(2);
});
