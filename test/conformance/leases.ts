/**
 * Every promise of the Leases port, as a table that each authority is tested against. Each authority has limits of its
 * own; the rows need an authority with room for exactly two VMs of `NEED`.
 */
import assert from 'node:assert/strict';
import type { Leases, VmNeed } from '../../activities/ports/leases.ts';
import type { VmKey } from '../../activities/ports/sandbox.ts';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import { formatVmKey } from '../../domain/run/vm-key.ts';

/** The need of a VM in the rows. */
export const NEED: VmNeed = { memoryMib: 100, vcpus: 1, diskMib: 64 };
/** Fits on an empty host, and next to no other VM. */
const ALONE: VmNeed = { ...NEED, memoryMib: 150 };
const NEVER: VmNeed = { ...NEED, memoryMib: 100_000 };

export interface LeasesSubject {
  /**
   * An authority of its own with room for two VMs of `NEED`, not for a third, and for only one VM of 1.5 times its
   * memory.
   */
  open(now: () => number): Promise<OpenLeases>;
}

export interface OpenLeases {
  readonly leases: Leases;
  readonly hostId: string;
  readonly hostQueue: string;
  /** How long a lease lasts without a renewal. */
  readonly lifetimeMs: number;
  /** Opens the same authority again, like a worker that has just started. */
  reopen(): Promise<Leases>;
  close(): Promise<void>;
}

interface Row extends OpenLeases {
  /** Lets time pass. */
  pass(ms: number): void;
}

export interface LeasesPromise {
  readonly name: string;
  run(row: Row): Promise<void>;
}

/** Longer than a waiting key keeps its place without a request. */
const SILENCE_MS = 60_000;

const key = (scope: string): VmKey => ({ runId: 'r', scope, instance: [], generation: 0 });

export async function keepPromise(subject: LeasesSubject, { run }: LeasesPromise): Promise<void> {
  let atMs = 1_000;
  const open = await subject.open(() => atMs);
  try {
    await run({ ...open, pass: (ms) => void (atMs += ms) });
  } finally {
    await open.close();
  }
}

async function refusal(work: Promise<unknown>): Promise<{ readonly code: string; readonly again: boolean }> {
  const error: unknown = await work.then(
    () => assert.fail('a lease was granted'),
    (reason: unknown) => reason,
  );
  if (!isCodedError(error)) throw error;
  return { code: error.code, again: (error.nextRetryDelayMs ?? 0) > 0 };
}

async function waits(work: Promise<unknown>): Promise<void> {
  assert.deepEqual(await refusal(work), { code: 'vm/no-capacity', again: true });
}

export const LEASES_PROMISES: readonly LeasesPromise[] = [
  {
    name: 'a lease says its VM, and where that is',
    run: async ({ leases, hostId, hostQueue }) => {
      const lease = await leases.grant(key('a'), NEED);
      assert.deepEqual(lease, { vmKey: formatVmKey(key('a')), queue: hostQueue, host: hostId });
    },
  },
  {
    name: 'asking again gives the same lease and takes no more room',
    run: async ({ leases }) => {
      const first = await leases.grant(key('a'), NEED);
      for (let again = 0; again < 5; again += 1) assert.deepEqual(await leases.grant(key('a'), NEED), first);
      await leases.grant(key('b'), NEED);
      await waits(leases.grant(key('c'), NEED));
      await leases.grant(key('a'), NEED);
    },
  },
  {
    name: 'two that ask for one key at once get one lease',
    run: async ({ leases }) => {
      const [one, other] = await Promise.all([leases.grant(key('a'), NEED), leases.grant(key('a'), NEED)]);
      assert.deepEqual(one, other);
      await leases.grant(key('b'), NEED);
    },
  },
  {
    name: 'fifty VMs that ask at once get only the leases that have room',
    run: async ({ leases }) => {
      const asked = Array.from({ length: 50 }, (_, index) => leases.grant(key(`vm-${index}`), NEED));
      const settled = await Promise.allSettled(asked);
      assert.equal(settled.filter(({ status }) => status === 'fulfilled').length, 2);
    },
  },
  {
    name: 'room is given in the order of asking, even when a later one would fit',
    run: async ({ leases }) => {
      await leases.grant(key('a'), NEED);
      await waits(leases.grant(key('large'), ALONE));
      await waits(leases.grant(key('small'), NEED));
      await leases.release(key('a'));
      await waits(leases.grant(key('small'), NEED));
      await leases.grant(key('large'), ALONE);
    },
  },
  {
    name: 'one that stopped asking does not hold up the others',
    run: async ({ leases, pass }) => {
      await leases.grant(key('a'), NEED);
      await waits(leases.grant(key('gone'), ALONE));
      pass(SILENCE_MS);
      await leases.grant(key('b'), NEED);
    },
  },
  {
    name: 'nor does one whose wait was ended',
    run: async ({ leases }) => {
      await leases.grant(key('a'), NEED);
      await waits(leases.grant(key('cancelled'), ALONE));
      await leases.release(key('cancelled'));
      await leases.grant(key('b'), NEED);
    },
  },
  {
    name: 'what will never fit is refused at once, and holds up no other',
    run: async ({ leases }) => {
      assert.deepEqual(await refusal(leases.grant(key('huge'), NEVER)), { code: 'vm/too-large', again: false });
      await leases.grant(key('a'), NEED);
    },
  },
  {
    name: 'a release gives the room back once, however often it is asked for',
    run: async ({ leases }) => {
      await leases.release(key('unknown'));
      await leases.grant(key('a'), NEED);
      await leases.grant(key('b'), NEED);
      for (let again = 0; again < 3; again += 1) await leases.release(key('a'));
      await leases.grant(key('c'), NEED);
      await waits(leases.grant(key('d'), NEED));
    },
  },
  {
    name: 'a living VM counts even if another worker launched it, and beyond the room that there is',
    run: async ({ leases }) => {
      for (const scope of ['a', 'b', 'c']) await leases.renew(key(scope), NEED);
      await leases.release(key('a'));
      await waits(leases.grant(key('d'), NEED));
      await leases.release(key('b'));
      await leases.grant(key('d'), NEED);
    },
  },
  {
    name: 'renewing what holds a lease takes no more room',
    run: async ({ leases }) => {
      await leases.grant(key('a'), NEED);
      for (let again = 0; again < 3; again += 1) await leases.renew(key('a'), NEED);
      await leases.grant(key('b'), NEED);
    },
  },
  {
    name: 'a lease of a VM that is renewed outlasts any silence of its stages',
    run: async ({ leases, pass }) => {
      await leases.grant(key('a'), NEED);
      await leases.grant(key('b'), NEED);
      for (let minute = 0; minute < 60; minute += 1) {
        pass(60_000);
        for (const scope of ['a', 'b']) await leases.renew(key(scope), NEED);
      }
      await waits(leases.grant(key('c'), NEED));
    },
  },
  {
    name: 'room that no release gave back comes back when nothing renews its lease',
    run: async ({ leases, pass, lifetimeMs }) => {
      for (const scope of ['a', 'b']) await leases.grant(key(scope), NEED);
      pass(lifetimeMs / 2);
      await leases.renew(key('a'), NEED);
      pass(lifetimeMs / 2);
      await waits(leases.grant(key('c'), NEED));
      pass(1);
      await leases.grant(key('c'), NEED);
      await waits(leases.grant(key('d'), NEED));
    },
  },
  {
    name: 'a renewal that comes behind the release takes no room',
    run: async ({ leases }) => {
      for (const scope of ['a', 'b']) await leases.grant(key(scope), NEED);
      await leases.release(key('a'));
      await leases.renew(key('a'), NEED);
      await leases.grant(key('c'), NEED);
    },
  },
  {
    name: 'a worker that starts and renews what lives gives no room twice',
    run: async ({ leases, reopen }) => {
      const before = await leases.grant(key('a'), NEED);
      const again = await reopen();
      await again.renew(key('a'), NEED);
      assert.deepEqual(await again.grant(key('a'), NEED), before);
      await again.grant(key('b'), NEED);
      await waits(again.grant(key('c'), NEED));
    },
  },
];
