/**
 * Reads a run by a filter: its events, or the lines of its log. Each reader with the same filter gets the same pieces,
 * so a reader can resume after any event.
 */
import type { RunReader } from '../../activities/ports/run-reader.ts';
import type { RunEvent } from '../../domain/run/event.ts';
import { createTurns } from './work-turns.ts';

/** Makes pieces of one event after the other. A later event may complete a piece. */
export interface PieceMaker<T> {
  push(event: RunEvent): readonly T[];
  /** Returns the pieces that no further event completes. */
  flush(): readonly T[];
}

export interface SelectedPieces<T> {
  /** The event that completed the pieces. */
  readonly seq: number;
  /** At least one. */
  readonly pieces: readonly T[];
}

export interface Selection<T> {
  readonly runId: string;
  /** The reader has the pieces of the events up to this `seq`. */
  readonly after: number;
  /** The maker gets the events after this `seq`: 0 if pieces may begin before `after`. */
  readonly from: number;
  /** Begins with this many of the last pieces that exist now; null: with all. */
  readonly tail: number | null;
  /** False: the maker needs no output. */
  readonly output: boolean;
  readonly signal: AbortSignal;
  /** Each maker makes the same pieces of the same events. */
  createMaker(): PieceMaker<T>;
}

export type FollowEvents = (runId: string, after: number, signal: AbortSignal) => AsyncIterable<RunEvent>;

/** Yields the pieces that exist now. */
export async function* readSelected<T>(selection: Selection<T>, reader: RunReader): AsyncGenerator<SelectedPieces<T>> {
  const { runId, from, output } = selection;
  const skipped = await countSkipped(selection, reader, true);
  yield* makePieces(selection, reader.read(runId, from, { output }), skipped);
}

/** Yields the pieces that exist now, then those of later events, until the end of the run or the signal. */
export async function* followSelected<T>(
  selection: Selection<T>,
  reader: RunReader,
  follow: FollowEvents,
): AsyncGenerator<SelectedPieces<T>> {
  const { runId, from, signal } = selection;
  const skipped = await countSkipped(selection, reader, false);
  yield* makePieces(selection, follow(runId, from, signal), skipped);
}

/**
 * Counts the pieces before the tail. So the log is read twice, and no reader holds a tail in memory.
 * @param isWhole  the pieces of the flush count also for a run that has not ended
 */
async function countSkipped<T>(selection: Selection<T>, reader: RunReader, isWhole: boolean): Promise<number> {
  const { runId, after, from, output, signal, tail } = selection;
  if (tail === null) return 0;
  const maker = selection.createMaker();
  const takeTurn = createTurns();
  let count = 0;
  let hasEnded = false;
  for await (const event of reader.read(runId, from, { output })) {
    await takeTurn();
    if (signal.aborted) return 0;
    const { length } = maker.push(event);
    if (event.seq > after) count += length;
    hasEnded = event.body.type === 'run-finished';
  }
  if (isWhole || hasEnded) count += maker.flush().length;
  return Math.max(0, count - tail);
}

async function* makePieces<T>(
  { after, signal, createMaker }: Selection<T>,
  events: AsyncIterable<RunEvent>,
  skipped: number,
): AsyncGenerator<SelectedPieces<T>> {
  const maker = createMaker();
  const takeTurn = createTurns();
  let left = skipped;
  const skip = (pieces: readonly T[]): readonly T[] => {
    const rest = pieces.slice(left);
    left -= pieces.length - rest.length;
    return rest;
  };
  let seq = after;
  for await (const event of events) {
    await takeTurn();
    if (signal.aborted) return;
    const pieces = maker.push(event);
    if (event.seq <= after) continue;
    seq = event.seq;
    const kept = skip(pieces);
    if (kept.length > 0) yield { seq, pieces: kept };
  }
  const rest = skip(maker.flush());
  if (rest.length > 0) yield { seq, pieces: rest };
}
