/** Finds runs whose data is damaged, and moves them out of the way. */
import type { CodedError } from '../../domain/errors/coded-error.ts';

export interface DamagedRun {
  /** Null if the id cannot be read. */
  readonly runId: string | null;
  /** The id, or else the store's name of the run. */
  readonly label: string;
  /** The place of the run's data, for a user who repairs it. */
  readonly place: string;
  /** The damage and its place; there may be further damage. */
  readonly problem: CodedError;
}

export interface RunInspector {
  /**
   * Returns every damaged run, sorted by the store's names. Changes nothing.
   * @throws CodedError `store/io` if the runs cannot be listed
   */
  findDamaged(): Promise<readonly DamagedRun[]>;
  /**
   * Checks the records that a run as a whole depends on.
   * @param events  how many events the run has
   * @throws CodedError `store/damaged`, `store/io`
   */
  checkMainRecords(runId: string, events: number): Promise<void>;
  /**
   * Returns true if the run may be intact and still has to write its first event, which waits while the disk is full.
   * Its data looks like the data of a run that has lost all of its events.
   */
  mayBeBeginning(run: DamagedRun): Promise<boolean>;
  /**
   * Moves a damaged run out of the way in one step, and deletes none of its data. Until a user removes it from there,
   * every use of the run's id fails with `store/damaged`.
   * @returns the new place of its data
   * @throws CodedError `store/io`
   */
  setAside(run: DamagedRun): Promise<string>;
  /** @throws CodedError `store/damaged` if a run with this id was set aside */
  refuseSetAside(runId: string): Promise<void>;
}
