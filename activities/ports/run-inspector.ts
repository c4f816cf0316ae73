/** Finds runs whose data is not what was written, and moves them out of the way. */
import type { CodedError } from '../../domain/errors/coded-error.ts';

export interface DamagedRun {
  /** Null if the id cannot be read. */
  readonly runId: string | null;
  /** The id, else what the store calls the run. */
  readonly label: string;
  /** Where its data lies, for a user who repairs it. */
  readonly place: string;
  /** What is wrong and where; one reason of possibly several. */
  readonly problem: CodedError;
}

export interface RunInspector {
  /** Every damaged run, sorted by the store's names. Changes nothing. @throws CodedError `store/io` if the runs cannot be listed */
  findDamaged(): Promise<readonly DamagedRun[]>;
  /**
   * Checks the records that a run as a whole depends on.
   * @param events  how many events the run has
   * @throws CodedError `store/damaged`, `store/io`
   */
  checkMainRecords(runId: string, events: number): Promise<void>;
  /**
   * True for a run that may be well and about to write its first event, which waits for as long as the disk is full: its data does
   * not distinguish it from a run that has lost all of its events.
   */
  mayBeBeginning(run: DamagedRun): Promise<boolean>;
  /**
   * Moves a damaged run out of the way, in one step, and deletes nothing of it. Until it is removed from there, whatever uses the
   * run's id is refused with `store/damaged`.
   * @returns where its data lies now
   * @throws CodedError `store/io`
   */
  setAside(run: DamagedRun): Promise<string>;
  /** @throws CodedError `store/damaged` if a run with this id was set aside */
  refuseSetAside(runId: string): Promise<void>;
}
