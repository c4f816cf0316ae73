/**
 * Guest memory of one host, given out in the order of asking, while its disk has room. A VM's disk is sparse, so what
 * it may grow to is not set aside; but none is started on a disk that is nearly full. Idempotent by VM key: a VM that is counted
 * already (re-attached, or found alive at the worker's start) costs nothing more.
 */
import { CodedError } from '../domain/errors/coded-error.ts';
import { vmKeyText } from '../domain/run/vm-key.ts';
import { formatBytes } from '../domain/units/bytes.ts';
import type { VmKey } from './ports/sandbox.ts';

/** How long a waiting VM keeps its place without asking again. */
const TICKET_LIFETIME_MS = 15_000;
const ASK_AGAIN_MS = 2_000;

export interface Capacity {
  /** @throws CodedError `vm/no-capacity` (ask again) or `vm/too-large` */
  reserve(key: VmKey, memoryMib: number): void;
  release(key: VmKey): void;
  /** Counts a VM that lives already. `name` is `run/scope/generation`. */
  countLive(name: string, memoryMib: number): void;
}

export interface HostDiskRoom {
  readonly availableBytes: number;
  /** No VM is started with less than this. */
  readonly floorBytes: number;
}

export interface CapacityOptions {
  /** What a VM costs beside its guest's memory: the VMM, its keeper. */
  readonly overheadMib: number;
  /** Memory that all VMs together may take. */
  readonly budgetMib: number;
  /** Memory that the host could give now. */
  readonly availableMib: () => number;
  /** Room on the disk that VMs and runs are on. */
  readonly disk: () => HostDiskRoom;
  readonly now?: () => number;
}

export function createCapacity(options: CapacityOptions): Capacity {
  const now = options.now ?? Date.now;
  const { overheadMib } = options;
  const reserved = new Map<string, number>();
  /** Waiting keys in ticket order, with the time of their last asking. */
  const waiting = new Map<string, number>();

  return {
    reserve(key, memoryMib) {
      const name = vmKeyText(key);
      if (reserved.has(name)) return;
      const needMib = memoryMib + overheadMib;
      if (needMib > options.budgetMib) {
        throw new CodedError(
          'vm/too-large',
          `scope ${key.scope} needs ${needMib} MiB (${memoryMib} MiB of guest memory and ${overheadMib} MiB for the VM itself), the host has ${options.budgetMib} MiB for VMs: ${remedy(options.budgetMib - overheadMib)}`,
        );
      }
      for (const [other, askedAt] of waiting) if (now() - askedAt > TICKET_LIFETIME_MS) waiting.delete(other);
      if (!waiting.has(name)) waiting.set(name, now());
      const first = waiting.keys().next().value === name;
      const used = [...reserved.values()].reduce((sum, mib) => sum + mib, 0);
      const fits = used + needMib <= options.budgetMib && (reserved.size === 0 || needMib <= options.availableMib());
      if (!first || !fits) {
        waiting.set(name, now());
        throw new CodedError(
          'vm/no-capacity',
          `scope ${key.scope} waits for ${needMib} MiB: ${used} of ${options.budgetMib} MiB are given to ${reserved.size} VMs`,
          { nextRetryDelayMs: ASK_AGAIN_MS },
        );
      }
      const room = options.disk();
      if (room.availableBytes < room.floorBytes) {
        waiting.set(name, now());
        throw new CodedError(
          'vm/no-capacity',
          `scope ${key.scope} waits for room on the disk: ${formatBytes(room.availableBytes)} are free where VMs and runs are, and none is started with less than ${formatBytes(room.floorBytes)}: make room (voidbox prune)`,
          { nextRetryDelayMs: ASK_AGAIN_MS },
        );
      }
      waiting.delete(name);
      reserved.set(name, needMib);
    },
    release: (key) => void reserved.delete(vmKeyText(key)),
    countLive: (name, memoryMib) => void reserved.set(name, memoryMib + overheadMib),
  };
}

/** Below it no guest boots: the least that a spec may say. */
const LEAST_GUEST_MIB = 128;

function remedy(roomMib: number): string {
  return roomMib < LEAST_GUEST_MIB ? 'run on a host with more memory' : `lower memory_mb to ${roomMib} or less`;
}
