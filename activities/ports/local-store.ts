/** What a store can do whose data lies on a disk of this host. A store elsewhere has none of it. */

export interface DiskRoom {
  readonly availableBytes: number;
  readonly sizeBytes: number;
  /** With less than this no VM is started: 512 MiB, or 5 % of a file system where that is less. */
  readonly floorBytes: number;
  readonly isLow: boolean;
}

/** Room on the disk that is held back, so that messages, results and last events can be written when the disk is full. */
export interface Ballast {
  /**
   * Checks the disk: releases the ballast or makes it, and returns what was done.
   * @param atOnce  a full disk is believed at the first check, not at the third
   */
  look(atOnce?: boolean): 'made' | 'released' | null;
  /** False while what is left is for messages: output then waits for room. */
  hasRoomForOutput(): boolean;
}

export interface LocalStore {
  /** Names the disk in messages. */
  readonly name: string;
  /**
   * True if a power cut can take the last events of a log that the server's history still has: a worker then writes them again
   * when it starts.
   */
  readonly canLoseEvents: boolean;
  readonly ballast: Ballast;
  readRoom(): DiskRoom;
  /** Where the files of a run lie, for a user who reads them. @throws CodedError `store/io` for a text that is no run id */
  folderOf(runId: string): string;
  /** Hosts that the admissions of the runs name, newest first. Damaged records name none. */
  admittingHosts(): Iterable<string>;
}
