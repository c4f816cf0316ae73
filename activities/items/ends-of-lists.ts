/**
 * Remembers the results of items of nested lists that this worker wrote. A run may have thousands of such lists, and
 * each ends on its own. Reading the whole log for each list would cost more than all other work of a worker.
 */
import type { DataRef } from '../../domain/plan/plan.ts';
import { formatAttempt, parseExecKey } from '../../domain/run/attempt.ts';
import type { NewRunEvent, RunEventBody } from '../../domain/run/event.ts';
import type { VmFacts } from '../../domain/run/stage-result.ts';
import type { EventLog } from '../ports/event-log.ts';

/** The most items of all lists together; a further item drops the list that began first. */
const MOST_KEPT_ITEMS = 50_000;

export interface SucceededItem {
  readonly output: DataRef | null;
  readonly vm: VmFacts | null;
}

export interface EndsOfList {
  readonly startedAtMs: number;
  /** The items that succeeded. A success is final, whatever other workers wrote. */
  readonly succeeded: ReadonlyMap<number, SucceededItem>;
}

interface OpenList extends EndsOfList {
  readonly succeeded: Map<number, SucceededItem>;
}

export interface EndsOfLists {
  /** The log that records the events that it sees. */
  readonly events: EventLog;
  /**
   * Returns null if the list belongs to the run itself, was begun by another worker, or was dropped. Items may be
   * missing.
   */
  take(runId: string, execKey: string): EndsOfList | null;
}

export function createEndsOfLists(events: EventLog, mostKeptItems = MOST_KEPT_ITEMS): EndsOfLists {
  /** The open lists by run and exec key, in the order in which they began. */
  const open = new Map<string, OpenList>();
  let kept = 0;
  const drop = (key: string): void => {
    kept -= open.get(key)?.succeeded.size ?? 0;
    open.delete(key);
  };
  const recordEvent = (runId: string, { atMs, body }: NewRunEvent): void => {
    if (body.type === 'stage-started' && body.items !== undefined && isNested(body.execKey)) {
      drop(keyOf(runId, body.execKey));
      open.set(keyOf(runId, body.execKey), { startedAtMs: atMs, succeeded: new Map() });
    }
    const end = endIn(body);
    const list = end === null ? undefined : open.get(keyOf(runId, end.list));
    if (end === null || list === undefined || list.succeeded.has(end.item)) return;
    list.succeeded.set(end.item, end);
    kept += 1;
    for (const oldest of open.keys()) {
      if (kept <= mostKeptItems) break;
      drop(oldest);
    }
  };
  return {
    events: {
      find: (runId, id) => events.find(runId, id),
      outputCursor: (runId, execKey, stream) => events.outputCursor(runId, execKey, stream),
      append(runId, sent, writer) {
        const appended = events.append(runId, sent, writer);
        const [event, ...more] = sent;
        // The log does not report which of several events were new.
        if (event === undefined || more.length > 0 || !isOfInterest(event.body)) return appended;
        return appended.then((count) => {
          if (count === 1) recordEvent(runId, event);
          return count;
        });
      },
    },
    take(runId, execKey) {
      const key = keyOf(runId, execKey);
      const list = open.get(key) ?? null;
      drop(key);
      return list;
    },
  };
}

function isOfInterest(body: RunEventBody): boolean {
  return body.type === 'stage-finished' || (body.type === 'stage-started' && body.items !== undefined);
}

function isNested(execKey: string): boolean {
  return (parseExecKey(execKey)?.instance.length ?? 0) > 0;
}

function endIn(body: RunEventBody): (SucceededItem & { readonly list: string; readonly item: number }) | null {
  if (body.type !== 'stage-finished') return null;
  const instance = parseExecKey(body.execKey)?.instance ?? [];
  const step = instance.at(-1);
  if (step === undefined || instance.length < 2 || step.part !== body.stage) return null;
  const { outcome, output, vm } = body.result;
  const list = formatAttempt({ stage: body.stage, instance: instance.slice(0, -1), attempt: step.attempt ?? 1 });
  return outcome === 'succeeded' ? { list, item: step.item, output, vm } : null;
}

function keyOf(runId: string, execKey: string): string {
  return `${runId} ${execKey}`;
}
