/** Where output waits while the host's disk is full: the command does too, by the credit that its guest gets. */
export interface PumpDisk {
  /** False while what room is left is for messages. */
  hasRoomForOutput(): boolean;
  /** True for the failure that more room would have prevented. */
  isFull(error: unknown): boolean;
  /** How long output waits before its stage fails. */
  readonly limitMs: number;
}
