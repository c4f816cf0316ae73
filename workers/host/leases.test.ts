import { describe, expect, test } from 'vitest';
import { keepPromise, LEASES_PROMISES, NEED } from '../../test/conformance/leases.ts';
import { createHostLeases, type HostLeasesOptions, LEASE_LIFETIME_MS } from './leases.ts';

const key = (scope: string) => ({ runId: 'r', scope, instance: [], generation: 0 });
const full = { code: 'vm/no-capacity', nextRetryDelayMs: expect.any(Number) };

const OVERHEAD_MIB = 150;
const HOST: HostLeasesOptions = {
  placement: { hostId: 'h', hostQueue: 'voidbox-host:h' },
  overheadMib: OVERHEAD_MIB,
  budgetMib: 2 * (NEED.memoryMib + OVERHEAD_MIB),
  availableMib: () => 10_000,
  disk: () => ({ availableBytes: 1, floorBytes: 1 }),
};

describe('the leases of one host', () => {
  test.each(LEASES_PROMISES.map((promise) => [promise.name, promise] as const))('%s', async (_, promise) => {
    const open = async (now: () => number) => ({
      ...HOST.placement,
      lifetimeMs: LEASE_LIFETIME_MS,
      leases: createHostLeases({ ...HOST, now }),
      // It keeps nothing: what lives is renewed.
      reopen: async () => createHostLeases({ ...HOST, now }),
      close: async () => undefined,
    });
    await keepPromise({ open }, promise);
  });
});

test('a request that can never fit is rejected, and the error says what would fit', async () => {
  await expect(createHostLeases(HOST).grant(key('huge'), { ...NEED, memoryMib: 5_000 })).rejects.toMatchObject({
    message:
      'scope huge needs 5150 MiB (5000 MiB of guest memory and 150 MiB for the VM itself), the host has 500 MiB for VMs: lower memory_mb to 350 or less',
  });
});

test('memory that others use on the host counts, but the only VM may try', async () => {
  const leases = createHostLeases({ ...HOST, budgetMib: 4_000, availableMib: () => 50 });
  await leases.grant(key('a'), NEED);
  await expect(leases.grant(key('b'), NEED)).rejects.toMatchObject(full);
});

test('vCPUs and disks bound nothing: the first are shared by time, the second are sparse', async () => {
  const leases = createHostLeases(HOST);
  await leases.grant(key('a'), { ...NEED, vcpus: 10_000, diskMib: 1_000_000_000 });
  await leases.grant(key('b'), { ...NEED, vcpus: 10_000, diskMib: 1_000_000_000 });
});

test('no VM is started on a disk that is nearly full, and those that live are not asked about it', async () => {
  let availableBytes = 10_000_000;
  const leases = createHostLeases({
    ...HOST,
    budgetMib: 4_000,
    disk: () => ({ availableBytes, floorBytes: 5_000_000 }),
  });
  await leases.grant(key('a'), NEED);
  availableBytes = 4_999_999;
  await leases.grant(key('a'), NEED);
  await expect(leases.grant(key('b'), NEED)).rejects.toMatchObject({
    ...full,
    message: expect.stringContaining('waits for disk space'),
  });
  availableBytes = 5_000_000;
  await leases.grant(key('b'), NEED);
});
