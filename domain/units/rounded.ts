/** Whether a number that was read is perhaps not the one that was written: a whole number beyond 2^53, or too large for any. */
export function isRounded(value: number): boolean {
  return !Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value));
}
