/**
 * The disk that output is written to. While it is full, output waits, and the command waits too: its guest gets no
 * credit for more output.
 */
export interface PumpDisk {
  /** Returns false while the remaining room is reserved for messages. */
  hasRoomForOutput(): boolean;
  /** Returns true for a failure that more room would have prevented. */
  isFull(error: unknown): boolean;
  /** The time in milliseconds that output waits before its stage fails. */
  readonly limitMs: number;
}
