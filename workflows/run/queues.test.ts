import { describe, expect, test } from 'vitest';
import type { Placement } from '../../activities/contract.ts';
import { queuesOf, releaseQueue, stageQueue } from './queues.ts';

const HOST_ONLY: Placement = { hostId: 'a', hostQueue: 'voidbox-host:a' };

test('an admission that names only the queue of its host sends every call to it', () => {
  expect(queuesOf(HOST_ONLY)).toEqual({ host: 'voidbox-host:a', store: 'voidbox-host:a', lease: 'voidbox-host:a' });
});

test.each(['hostQueue', 'storeQueue', 'leaseQueue'] as const)(
  'a run whose %s is not a queue name fails, and the failure names it',
  (name) => {
    for (const queue of ['', 5, null, 'q'.repeat(1_001)])
      expect(() => queuesOf({ ...HOST_ONLY, [name]: queue })).toThrow(/the admission names .* as a task queue/);
  },
);

describe('with queues of their own for leases and the store', () => {
  const queues = queuesOf({ ...HOST_ONLY, storeQueue: 'store', leaseQueue: 'leases' });

  test('a stage uses the queue of its VM', () => {
    expect(stageQueue(queues, { vmKey: 'r/s/0', queue: 'voidbox-host:b', host: 'b' })).toBe('voidbox-host:b');
    expect(stageQueue(queues, { vmKey: 'r/s/0' })).toBe('voidbox-host:a');
    expect(stageQueue(queues, null)).toBe('voidbox-host:a');
  });

  test('the release of a VM uses the queue of the VM, or else the queue of the call for it', () => {
    expect(releaseQueue(queues, { vmKey: 'r/s/0', queue: 'voidbox-host:b' }, true)).toBe('voidbox-host:b');
    expect(releaseQueue(queues, null, true)).toBe('leases');
    expect(releaseQueue(queues, null, false)).toBe('voidbox-host:a');
  });
});
