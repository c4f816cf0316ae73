/** The checkpoints of shared VMs on this host: their disks after finished steps, in the folder of their run. */
import type { HeldAttempt } from '../../domain/run/vm-lease.ts';
import type { VmKey } from './sandbox.ts';

/** The shared scope of a run, or of one of its items. */
export type SavedScope = Omit<VmKey, 'generation'>;

/** The limits of all checkpoints of a run together, and of one scope. */
export const STEP_CHECKPOINT_LIMITS = { runBytes: 2 * 1024 ** 3, perScope: 2 } as const;

export interface StepCheckpoint {
  /** From 1, in the order in which they were made. */
  readonly number: number;
  /** The id of the checkpoint's own record. */
  readonly id: string;
  readonly usedBytes: number;
  /** The step after which it was made. */
  readonly after: string;
  /** The VMs whose disk it continues: the one in which it was made, and each that began with it or with a later one. */
  readonly generations: readonly number[];
  /** The attempts whose work it holds, in the order of their ends. */
  readonly holds: readonly HeldAttempt[];
}

export interface StepCheckpoints {
  /** The whole checkpoints of the scope, the newest first. Damaged ones are deleted, and their problems are returned. */
  list(scope: SavedScope): Promise<{
    readonly whole: readonly (StepCheckpoint & { readonly dir: string })[];
    readonly problems: readonly string[];
  }>;
  /**
   * Explains why no checkpoint can be made now; null: it can be made.
   * @param diskBytes  the room that the disk of the VM uses; null: not known
   */
  findObstacle(diskBytes: number | null): string | null;
  /** Returns the folder for the next checkpoint, which does not exist, and removes what a dead worker left. */
  prepare(scope: SavedScope): Promise<{ readonly number: number; readonly dir: string }>;
  /**
   * Makes a checkpoint count, after its folder was written. Then deletes the oldest ones of its scope and of the run
   * beyond the limits.
   * @throws CodedError `store/io`
   */
  keep(scope: SavedScope, checkpoint: StepCheckpoint): Promise<void>;
  /** Records further VMs that continue the disk. */
  update(scope: SavedScope, checkpoint: StepCheckpoint): Promise<void>;
  delete(scope: SavedScope, number: number): Promise<void>;
  /** Deletes all checkpoints of a scope. Idempotent. */
  dropScope(scope: SavedScope): Promise<void>;
  /** Deletes all checkpoints of a run that has ended. Idempotent. */
  dropRun(runId: string): Promise<void>;
}
