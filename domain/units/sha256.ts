const WHOLE = /^[0-9a-f]{64}$/;
const BEGINNING = /^[0-9a-f]{8,64}$/;

/**
 * Whether a text is a SHA-256, as in names of artifacts, records and code of skills. Such a name cannot lead out of a
 * folder.
 */
export function isSha256(text: string): boolean {
  return WHOLE.test(text);
}

/** Whether a text is as much of a SHA-256 as people type. */
export function isSha256Beginning(text: string): boolean {
  return BEGINNING.test(text);
}
