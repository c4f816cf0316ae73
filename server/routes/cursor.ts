/** The position of a page of runs, as a text that clients pass back unread. */
import type { RunPosition } from '../../activities/ports/run-index.ts';
import { createRequestError } from '../problems.ts';

export function writeCursor({ startedAtMs, label }: RunPosition): string {
  return Buffer.from(JSON.stringify([startedAtMs, label])).toString('base64url');
}

/** @throws AppError `api/invalid-request` */
export function readCursor(text: string): RunPosition {
  try {
    const [startedAtMs, label] = JSON.parse(Buffer.from(text, 'base64url').toString('utf8')) as readonly unknown[];
    if (typeof startedAtMs === 'number' && typeof label === 'string') return { startedAtMs, label };
  } catch {
    // Refused below, like every other text.
  }
  throw createRequestError('api/invalid-request', '`cursor` is not the `next` of a page');
}
