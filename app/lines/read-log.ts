/** The events of a run and the lines of its log, by the filters of `voidbox logs`. */
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { RunEvent, RunOutcome } from '../../domain/run/event.ts';
import { createEventSelection, createLogPrinter, type LogFilter, type LogLook, type LogPlace } from './log-lines.ts';
import type { Machine } from '../machine.ts';
import { requireStage, toLogPlace } from './log-place.ts';
import { readRepairedViews } from '../runs/repair-runs.ts';
import type { RunFeeds } from '../runs/run-feeds.ts';
import { followSelected, type PieceMaker, readSelected, type SelectedPieces, type Selection } from './select-events.ts';

const NO_PIECES: readonly never[] = [];

export interface LogRequest {
  readonly runId: string;
  readonly filter: LogFilter;
  /** The reader has the events up to this `seq`. */
  readonly after: number;
  readonly tail: number | null;
  readonly signal: AbortSignal;
}

export interface EventRequest extends LogRequest {
  /** Output of stages, besides other events, or instead of them. */
  readonly output: 'with' | 'without' | 'only';
}

export interface LogSource {
  /** Follows the run; null: reads only what exists now. */
  readonly feeds: RunFeeds | null;
}

/**
 * Selects events. With `grep`, these are the events that complete a line which `voidbox logs` prints and which contains
 * the text.
 * @throws AppError for a stage that the run does not have
 */
export async function selectEvents(
  request: EventRequest,
  source: LogSource,
  context: Machine,
): Promise<AsyncGenerator<SelectedPieces<RunEvent>>> {
  const { filter, output, after } = request;
  const nowMs = context.now().getTime();
  const isByLine = filter.grep !== undefined;
  const place = await findPlace(request, isByLine, context);
  const { afterSeq, isWanted, isInTime } = createEventSelection(filter, nowMs);
  const createMaker = (): PieceMaker<RunEvent> => {
    const printer = isByLine ? createLogPrinter(filter, place, { nowMs }) : null;
    return {
      push(event) {
        const isMeant = printer === null || printer.push(event).length > 0;
        if (!isMeant || !isWanted(event) || !isInTime(event.atMs)) return NO_PIECES;
        const isOutput = event.body.type === 'output';
        return output === 'with' || isOutput === (output === 'only') ? [event] : NO_PIECES;
      },
      flush: () => NO_PIECES,
    };
  };
  const from = isByLine ? afterSeq : Math.max(after, afterSeq);
  return await select({ ...request, from, output: output !== 'without' || isByLine, createMaker }, source, context);
}

/**
 * Selects lines, each without its line feed.
 * @throws AppError for a stage that the run does not have
 */
export async function selectLines(
  request: LogRequest & { readonly look: LogLook },
  source: LogSource,
  context: Machine,
): Promise<AsyncGenerator<SelectedPieces<string>>> {
  const { filter, look } = request;
  const nowMs = context.now().getTime();
  const place = await findPlace(request, true, context);
  const createMaker = (): PieceMaker<string> => createLogPrinter(filter, place, { ...look, nowMs });
  // A line may begin before the event after which the reader resumes.
  const { afterSeq: from } = createEventSelection(filter, nowMs);
  return await select({ ...request, from, output: true, createMaker }, source, context);
}

async function select<T>(
  selection: Selection<T>,
  { feeds }: LogSource,
  context: Machine,
): Promise<AsyncGenerator<SelectedPieces<T>>> {
  const { reader } = await context.stores();
  if (feeds === null) return readSelected(selection, reader);
  return followSelected(selection, reader, (...args) => feeds.follow(...args));
}

/** Reads the run only if the filter needs it. */
async function findPlace(
  { runId, filter: { stage } }: LogRequest,
  isByLine: boolean,
  context: Machine,
): Promise<LogPlace> {
  if (stage === undefined && !isByLine) return toLogPlace(undefined);
  const [view] = await readRepairedViews([runId], context);
  if (stage !== undefined && view !== undefined) await requireStage(stage, view, context);
  return toLogPlace(view);
}

/** Returns the state of a run that has ended; null for another one. */
export async function readEndState(runId: string, context: Machine): Promise<RunOutcome['state'] | null> {
  const event = await (await context.stores()).events.find(runId, EVENT_ID.runFinished);
  return event?.body.type === 'run-finished' ? event.body.outcome.state : null;
}
