/** Functions of a store whose data is on a disk of this host. Other stores do not have them. */

export interface DiskRoom {
  readonly availableBytes: number;
  readonly sizeBytes: number;
  /** Below this value no VM starts: 512 MiB, or 5 % of a file system if that is less. */
  readonly floorBytes: number;
  readonly isLow: boolean;
}

/**
 * A file that reserves room on the disk, so that messages, results and last events can be written when the disk is
 * full.
 */
export interface Ballast {
  /**
   * Checks the disk, releases or creates the ballast, and returns which of these happened.
   * @param atOnce true if the first check of a full disk counts, instead of the third
   */
  look(atOnce?: boolean): 'made' | 'released' | null;
  /** Returns false while the remaining room is reserved for messages: output then waits for room. */
  hasRoomForOutput(): boolean;
}

export interface LocalStore {
  /** Names the disk in messages. */
  readonly name: string;
  /**
   * True if a power cut can remove the last events of a log that the server's history still contains. A worker then
   * writes them again when it starts.
   */
  readonly canLoseEvents: boolean;
  readonly ballast: Ballast;
  readRoom(): DiskRoom;
  /**
   * Returns the folder of a run's files, for a user who reads them.
   * @throws CodedError `store/io` for a text that is not a run id
   */
  folderOf(runId: string): string;
  /** Yields the hosts in the admissions of the runs, newest first. Damaged records yield no host. */
  admittingHosts(): Iterable<string>;
}
