/** The log of a run as `voidbox logs` prints it: which events are selected, and their lines. */
import type { RunEvent } from '../../domain/run/event.ts';
import type { Since } from '../../domain/run/since.ts';
import { createEventPrinter, type EventPrinter, type ToolLines } from './event-lines.ts';
import { type LineStyle, UNSTYLED } from './line-style.ts';
import { isOfStage } from './log-stage.ts';

/** The lines that a tail has at most, each of at most 16,384 characters. */
export const MAX_TAIL_LINES = 10_000;

export interface LogFilter {
  /** With the name of an item, `resize[3]`, only that item. Absent: every stage. */
  readonly stage?: string | undefined;
  readonly stream: 'stdout' | 'stderr' | 'both';
  readonly since?: Since | undefined;
  /** Only lines whose own text contains this text. */
  readonly grep?: string | undefined;
  /** Only events of the doors of VMs. */
  readonly network?: boolean | undefined;
  /** Without the lines about states of stages and VMs. */
  readonly outputOnly?: boolean | undefined;
}

/** Which events a filter selects, apart from `grep`, which selects lines. */
export interface EventSelection {
  /** Events up to this `seq` are not needed. */
  readonly afterSeq: number;
  /** By everything but its time: a line of an event may have begun in an earlier one. */
  isWanted(event: RunEvent): boolean;
  isInTime(atMs: number): boolean;
}

/** @param nowMs  the moment before which an age of `since` lies */
export function createEventSelection(filter: LogFilter, nowMs: number): EventSelection {
  const afterSeq = seqOf(filter.since);
  const fromMs = momentOf(filter.since, nowMs);
  return {
    afterSeq,
    isInTime: (atMs) => atMs >= fromMs,
    isWanted({ body, seq }) {
      if (seq <= afterSeq) return false;
      if (filter.network) return body.type === 'network';
      if (filter.stage !== undefined && !isOfStage(body, filter.stage)) return false;
      return body.type !== 'output' || filter.stream === 'both' || filter.stream === body.stream;
    },
  };
}

/** The known parts of a run when its log is read. */
export interface LogPlace {
  /** In the order of the spec. */
  readonly stages: readonly string[];
  /** Stages whose work is an agent. */
  readonly agents: readonly string[];
  /** Stages that are done for each item of a list. */
  readonly itemsOf: ReadonlySet<string>;
}

export interface LogLook {
  /** Absent: without colours. */
  readonly style?: LineStyle;
  readonly timestamps?: boolean | undefined;
  /** Absent: `short`. */
  readonly tools?: ToolLines | undefined;
}

/** Makes lines of the events that the filter selects; other events may be pushed, too. */
export function createLogPrinter(
  filter: LogFilter,
  { stages, agents, itemsOf }: LogPlace,
  { style = UNSTYLED, timestamps = false, tools = 'short', nowMs }: LogLook & { readonly nowMs: number },
): EventPrinter {
  const { stage, grep } = filter;
  const { isWanted, isInTime } = createEventSelection(filter, nowMs);
  const printer = createEventPrinter({
    style,
    // If the stage has items, each line names its item.
    prefix: stage === undefined || [...itemsOf].some((id) => id === stage || stage.startsWith(`${id}.`)),
    states: () => stage === undefined && filter.outputOnly !== true,
    everyRefusal: filter.network ?? false,
    stream: filter.stream,
    timestamps,
    tools,
    isWanted: ({ text, atMs }) => isInTime(atMs) && (grep === undefined || text.includes(grep)),
    stages,
    agents,
  });
  return { ...printer, push: (event) => (isWanted(event) ? printer.push(event) : []) };
}

function seqOf(since: Since | undefined): number {
  return since !== undefined && 'seq' in since ? since.seq : 0;
}

function momentOf(since: Since | undefined, nowMs: number): number {
  if (since === undefined || 'seq' in since) return Number.NEGATIVE_INFINITY;
  return 'atMs' in since ? since.atMs : nowMs - since.agoMs;
}
