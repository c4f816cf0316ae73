/** The positions of pages, as texts that clients pass back unread. */
import type { RunPosition } from '../../activities/ports/run-index.ts';
import { createRequestError } from '../problems.ts';

export function writeCursor({ startedAtMs, label }: RunPosition): string {
  return Buffer.from(JSON.stringify([startedAtMs, label])).toString('base64url');
}

/** @throws AppError `api/invalid-request` */
export function readCursor(text: string): RunPosition {
  const [startedAtMs, label] = readParts(text);
  if (typeof startedAtMs === 'number' && typeof label === 'string') return { startedAtMs, label };
  throw createCursorError();
}

/** Writes the position in a list that is ordered by names. */
export function writeNameCursor(name: string): string {
  return Buffer.from(JSON.stringify([name])).toString('base64url');
}

/** @throws AppError `api/invalid-request` */
export function readNameCursor(text: string): string {
  const [name, ...rest] = readParts(text);
  if (typeof name === 'string' && rest.length === 0) return name;
  throw createCursorError();
}

function readParts(text: string): readonly unknown[] {
  try {
    const parts: unknown = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
    return Array.isArray(parts) ? parts : [];
  } catch {
    return [];
  }
}

function createCursorError(): Error {
  return createRequestError('api/invalid-request', '`cursor` is not the `next` of a page');
}
