/**
 * Leases of one host, which its worker keeps in memory. Only memory is bounded: that of the guests, and the overhead of
 * each VM. A disk is sparse, so its possible growth is not reserved, but no VM starts on a nearly full disk. VMs share
 * vCPUs by time: more vCPUs than the host has make VMs slower.
 */
import type { Placement } from '../../activities/contract.ts';
import type { Leases, VmNeed } from '../../activities/ports/leases.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { formatVmKey } from '../../domain/run/vm-key.ts';
import { formatBytes } from '../../domain/units/bytes.ts';

/** How long a waiting VM keeps its place without asking again. */
const TICKET_LIFETIME_MS = 15_000;
const ASK_AGAIN_MS = 2_000;
/** The longest delay of a renewal that began before its VM ended. */
const RELEASE_REMEMBERED_MS = 15 * 60_000;
/**
 * The lifetime of a lease. The worker renews the leases of living VMs once a minute, so an expired lease belongs to a
 * VM that ended without a release.
 */
export const LEASE_LIFETIME_MS = 15 * 60_000;

export interface HostDiskRoom {
  readonly availableBytes: number;
  /** No VM is started with less than this. */
  readonly floorBytes: number;
}

export interface HostLeasesOptions {
  /** Where VMs that get a lease are. */
  readonly placement: Pick<Placement, 'hostId' | 'hostQueue'>;
  /** The memory that a VM needs in addition to its guest's memory: for the VMM and its keeper. */
  readonly overheadMib: number;
  /** Memory that all VMs together may take. */
  readonly budgetMib: number;
  /** Memory that the host could give now. */
  readonly availableMib: () => number;
  /** Room on the disk that VMs and runs are on. */
  readonly disk: () => HostDiskRoom;
  /** Milliseconds from any moment on. By default a clock that stands still while the host sleeps, as its VMs do. */
  readonly now?: () => number;
}

interface HeldLease {
  readonly need: VmNeed;
  readonly renewedAtMs: number;
}

export function createHostLeases(options: HostLeasesOptions): Leases {
  const now = options.now ?? (() => performance.now());
  const { overheadMib, budgetMib } = options;
  const { hostId: host, hostQueue: queue } = options.placement;
  const held = new Map<string, HeldLease>();
  /** Waiting keys in ticket order, with the time of their last request. */
  const waiting = new Map<string, number>();
  /** Keys that were released, with the time, oldest first. */
  const released = new Map<string, number>();

  return {
    async grant(key, need) {
      const vmKey = formatVmKey(key);
      const lease = { vmKey, queue, host };
      const before = held.get(vmKey);
      if (before !== undefined) {
        held.set(vmKey, { ...before, renewedAtMs: now() });
        return lease;
      }
      const needMib = need.memoryMib + overheadMib;
      if (needMib > budgetMib) {
        throw new CodedError(
          'vm/too-large',
          `scope ${key.scope} needs ${needMib} MiB (${need.memoryMib} MiB of guest memory and ${overheadMib} MiB for the VM itself), the host has ${budgetMib} MiB for VMs: ${remedy(budgetMib - overheadMib)}`,
        );
      }
      for (const [other, { renewedAtMs }] of held) if (now() - renewedAtMs > LEASE_LIFETIME_MS) held.delete(other);
      for (const [other, askedAt] of waiting) if (now() - askedAt > TICKET_LIFETIME_MS) waiting.delete(other);
      if (!waiting.has(vmKey)) waiting.set(vmKey, now());
      const first = waiting.keys().next().value === vmKey;
      const usedMib = [...held.values()].reduce((sum, { need: { memoryMib } }) => sum + memoryMib + overheadMib, 0);
      const fits = usedMib + needMib <= budgetMib && (held.size === 0 || needMib <= options.availableMib());
      if (!first || !fits) {
        waiting.set(vmKey, now());
        throw new CodedError(
          'vm/no-capacity',
          `scope ${key.scope} waits for ${needMib} MiB: ${usedMib} of ${budgetMib} MiB are given to ${held.size} VMs`,
          { nextRetryDelayMs: ASK_AGAIN_MS },
        );
      }
      const room = options.disk();
      if (room.availableBytes < room.floorBytes) {
        waiting.set(vmKey, now());
        throw new CodedError(
          'vm/no-capacity',
          `scope ${key.scope} waits for disk space: ${formatBytes(room.availableBytes)} are free where VMs and runs are stored, and no VM starts with less than ${formatBytes(room.floorBytes)}: free space (voidbox prune)`,
          { nextRetryDelayMs: ASK_AGAIN_MS },
        );
      }
      waiting.delete(vmKey);
      released.delete(vmKey);
      held.set(vmKey, { need, renewedAtMs: now() });
      return lease;
    },
    async renew(key, need) {
      const vmKey = formatVmKey(key);
      waiting.delete(vmKey);
      if (!released.has(vmKey)) held.set(vmKey, { need, renewedAtMs: now() });
    },
    async release(key) {
      const vmKey = formatVmKey(key);
      waiting.delete(vmKey);
      held.delete(vmKey);
      for (const [other, atMs] of released) {
        if (now() - atMs <= RELEASE_REMEMBERED_MS) break;
        released.delete(other);
      }
      released.delete(vmKey);
      released.set(vmKey, now());
    },
  };
}

/** The smallest memory that a spec may set, because no guest boots with less. */
const LEAST_GUEST_MIB = 128;

function remedy(roomMib: number): string {
  return roomMib < LEAST_GUEST_MIB ? 'run on a host with more memory' : `lower memory_mb to ${roomMib} or less`;
}
