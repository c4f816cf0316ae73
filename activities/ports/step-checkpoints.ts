/** The checkpoints of shared VMs on this host: their disks after finished steps, in the folder of their run. */
import type { HeldAttempt } from '../../domain/run/vm-lease.ts';
import type { StepCheckpoint } from '../../domain/run/step-checkpoint.ts';
import type { VmKey } from './sandbox.ts';

/** The shared scope of a run, or of one of its items. */
export type SavedScope = Omit<VmKey, 'generation'>;

export const STEP_CHECKPOINT_LIMITS = {
  /** All checkpoints of a run together. */
  runBytes: 2 * 1024 ** 3,
  /** The newest ones of a scope, from which the next VM of a lost one may begin. */
  newest: 2,
  /** All of a scope of the run itself: from older ones, the VM of a later run may begin. */
  perScope: 16,
  /** All checkpoints together of the runs that have ended on this host. */
  endedBytes: 4 * 1024 ** 3,
} as const;

/** A checkpoint that another run takes over. */
export interface TakenCheckpoint {
  readonly number: number;
  /** Replaces the attempts that its record names. */
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
  /**
   * Returns the folder for the next checkpoint, which does not exist, and removes what a dead worker left. The run does not
   * count as ended any longer.
   */
  prepare(scope: SavedScope): Promise<{ readonly number: number; readonly dir: string }>;
  /**
   * Makes a checkpoint count, after its folder was written. Then deletes others of its scope and of the run beyond the
   * limits: first those that are neither among the newest of their scope nor the newest after their step, then the
   * oldest.
   * @throws CodedError `store/io`
   */
  keep(scope: SavedScope, checkpoint: StepCheckpoint): Promise<void>;
  /** Records further VMs that continue the disk. */
  update(scope: SavedScope, checkpoint: StepCheckpoint): Promise<void>;
  delete(scope: SavedScope, number: number): Promise<void>;
  /** Deletes all checkpoints of a scope. Idempotent. */
  dropScope(scope: SavedScope): Promise<void>;
  /**
   * Gives checkpoints of another run to a scope, as its only ones. The other run may be deleted from then on.
   * @param taken  the newest first. An older one that is not whole is left out
   * @returns the reason why the newest cannot be taken over; null: it was taken over
   */
  takeOver(source: SavedScope, scope: SavedScope, taken: readonly TakenCheckpoint[]): Promise<string | null>;
  /**
   * Keeps the checkpoints of a run that has ended for later runs, except those of items. Deletes the checkpoints of the
   * runs that ended first, beyond the limit. If the disk is nearly full, it keeps no checkpoint. Each call does all of this.
   */
  endRun(runId: string): Promise<void>;
  /** Deletes checkpoints of runs that have ended while the disk is nearly full, those of the earliest run first. */
  makeRoom(): Promise<void>;
  /** Deletes all checkpoints of a run. Idempotent. */
  dropRun(runId: string): Promise<void>;
}
