/**
 * The cause of an `exec.end` as the keeper stores it, for this worker or one that takes over, whose build may differ.
 */
import type { StopCause } from '../../activities/ports/sandbox.ts';
import { toErrorCode } from '../../domain/errors/error-code.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';

/** Even with every character escaped, a cause stays below the keeper's limit of 4 KiB. */
const WORDS_CHARACTERS = 600;

export function writeStopCause(cause: StopCause): object {
  if (cause.kind === 'cancel') return cause;
  return { ...cause, words: sanitizeLine(cause.words).slice(0, WORDS_CHARACTERS) };
}

/**
 * Returns null if no `exec.end` interrupted the command. A cause of a later build never means success, so it counts as
 * a cancel.
 */
export function readStopCause(cause: Readonly<Record<string, unknown>> | null): StopCause | null {
  if (cause === null) return null;
  const { kind, code, words } = cause;
  if (kind !== 'failure' || typeof code !== 'string' || typeof words !== 'string') return { kind: 'cancel' };
  return { kind, code: toErrorCode(code), words: sanitizeLine(words) };
}
