const WHOLE = /^[0-9a-f]{64}$/;
const BEGINNING = /^[0-9a-f]{8,64}$/;

/** A SHA-256 as artifacts, records and the code of skills are named by it: it leads out of no folder. */
export function isSha256(text: string): boolean {
  return WHOLE.test(text);
}

/** As much of one as people type. */
export function isSha256Beginning(text: string): boolean {
  return BEGINNING.test(text);
}
