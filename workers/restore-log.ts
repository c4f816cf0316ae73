/**
 * A power cut may take the last lines of a log that was written with durability `process`, and leave the server's database with
 * the same stages ended. Nothing asks for those again, so readers would see them run for ever. What the server remembers of
 * calls that ended is written again when a worker starts: results, and the events that the workflow had sent with its calls.
 */
import { defaultPayloadConverter, isGrpcServiceError, type Client } from '@temporalio/client';
import { createAdmittedRuns, type AdmittedRun } from '../activities/admitted-run.ts';
import { checkedEvents } from '../activities/call-events.ts';
import type { EventLog } from '../activities/ports/event-log.ts';
import type { RunReader } from '../activities/ports/run-reader.ts';
import type { RunRecords } from '../activities/ports/run-records.ts';
import { execKeyOf } from '../domain/pipeline/draft.ts';
import { planIndex } from '../domain/pipeline/plan-index.ts';
import { EVENT_ID } from '../domain/run/event-id.ts';
import type { NewRunEvent } from '../domain/run/event.ts';
import { eventProblem } from '../domain/run/event-limits.ts';
import type { StoredStageResult } from '../domain/run/stage-result.ts';
import { textOf, type Log } from './log.ts';

/** Events of one append. */
const BATCH_EVENTS = 200;
/** For one run. A server that is slower is not waited for: the run goes on, and the next start looks again. */
const LIMIT_MS = 15_000;
/** Of gRPC. */
const NOT_FOUND = 5;

export interface RestoreOptions {
  readonly client: Client;
  readonly events: EventLog;
  readonly reader: RunReader;
  readonly records: RunRecords;
  readonly log: Log;
  readonly now?: () => number;
}

/** Failures about one run are logged and keep no other from being looked at. */
export async function restoreLogs(options: RestoreOptions, runIds: readonly string[]): Promise<void> {
  for (const runId of runIds) {
    try {
      const restored = await options.client.withDeadline(Date.now() + LIMIT_MS, () => restoreLog(options, runId));
      if (restored.length > 0)
        options.log(
          'warning',
          `run ${runId}: results of ${restored.join(', ')} were missing in its log and are written again`,
        );
    } catch (error) {
      // The janitor ends such a run.
      if (isGrpcServiceError(error) && error.code === NOT_FOUND) continue;
      options.log(
        'warning',
        `run ${runId}: its log could not be compared with what the server remembers: ${textOf(error)}`,
      );
    }
  }
}

/** @returns exec keys whose results were missing */
async function restoreLog(
  { client, events, reader, records, now = Date.now }: RestoreOptions,
  runId: string,
): Promise<readonly string[]> {
  const known = new Set<string>();
  for await (const { id } of reader.read(runId, 0, { output: false })) known.add(id);
  const run = await createAdmittedRuns(records).get(runId);
  const missing: NewRunEvent[] = [];
  const restored: string[] = [];
  for await (const call of endedCalls(client, runId)) {
    for (const event of eventsOf(run, call, known)) {
      if (known.has(event.id)) continue;
      known.add(event.id);
      missing.push(event);
      if (event.body.type === 'stage-finished') restored.push(event.body.execKey);
    }
  }
  if (missing.length === 0) return [];
  for (let from = 0; from < missing.length; from += BATCH_EVENTS)
    await events.append(runId, missing.slice(from, from + BATCH_EVENTS));
  await events.append(runId, [
    {
      id: EVENT_ID.runRestored(known.size),
      atMs: now(),
      body: { type: 'notice', level: 'warning', message: describe(restored) },
    },
  ]);
  return restored;
}

function describe(execKeys: readonly string[]): string {
  const named = execKeys.slice(0, 20).join(', ');
  const rest = execKeys.length > 20 ? ` and ${execKeys.length - 20} more` : '';
  const what = execKeys.length === 0 ? 'events' : `results of ${named}${rest}`;
  return `the log lacked ${what} that the server remembers, as after a power cut; they are written again, and what those stages printed last may be missing`;
}

interface EndedCall {
  readonly activity: string;
  readonly argument: unknown;
  readonly result: unknown;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
}

/** What the log has to hold of it. What cannot be of this run is left out: anybody who reaches the server can end an activity. */
function eventsOf(
  run: AdmittedRun,
  { activity, argument, result, startedAtMs, endedAtMs }: EndedCall,
  known: ReadonlySet<string>,
): readonly NewRunEvent[] {
  if (typeof argument !== 'object' || argument === null) return [];
  const call = argument as Readonly<Record<string, unknown>>;
  if (activity === 'appendEvents') return checkedEvents(run, call['events']);
  const { stage: given, attempt } = call;
  const stage = typeof given === 'object' && given !== null ? (given as { readonly id?: unknown }).id : given;
  if (typeof stage !== 'string' || planIndex(run.machine).stageById(stage) === undefined) return [];
  if (typeof attempt !== 'number' || !Number.isSafeInteger(attempt) || attempt < 1) return [];
  const execKey = execKeyOf(stage, attempt);
  const { stage: ofStage, execKey: ofKey } = (result ?? {}) as Partial<StoredStageResult>;
  if (ofStage !== stage || ofKey !== execKey) return [];
  const sent = checkedEvents(run, call['events']);
  const finishedId = EVENT_ID.attempt(execKey, 'finished');
  if (known.has(finishedId)) return sent;
  const finished: NewRunEvent = {
    id: finishedId,
    atMs: endedAtMs,
    body: { type: 'stage-finished', stage, execKey, result: result as StoredStageResult },
  };
  if (eventProblem(finished) !== null) return sent;
  return [
    ...sent,
    {
      id: EVENT_ID.attempt(execKey, 'started'),
      atMs: startedAtMs,
      body: { type: 'stage-started', stage, execKey, attempt },
    },
    finished,
  ];
}

/** Calls of the run's workflow that its history says have succeeded and whose events the log has to hold, in the order of their ends. */
async function* endedCalls(
  { workflowService, options: { namespace } }: Client,
  workflowId: string,
): AsyncGenerator<EndedCall> {
  const scheduled = new Map<string, Pick<EndedCall, 'activity' | 'argument' | 'startedAtMs'>>();
  let nextPageToken: Uint8Array | null = null;
  do {
    const page: Awaited<ReturnType<typeof workflowService.getWorkflowExecutionHistory>> =
      await workflowService.getWorkflowExecutionHistory({
        namespace,
        execution: { workflowId },
        nextPageToken,
      });
    for (const {
      eventId,
      eventTime,
      activityTaskScheduledEventAttributes: asked,
      activityTaskCompletedEventAttributes: ended,
    } of page.history?.events ?? []) {
      const atMs = Number(eventTime?.seconds ?? 0) * 1_000 + Math.floor((eventTime?.nanos ?? 0) / 1_000_000);
      const activity = asked?.activityType?.name;
      if (activity === 'runStage' || activity === 'appendEvents')
        scheduled.set(String(eventId), { activity, argument: first(asked?.input?.payloads), startedAtMs: atMs });
      const call = scheduled.get(String(ended?.scheduledEventId));
      if (call === undefined) continue;
      scheduled.delete(String(ended?.scheduledEventId));
      yield { ...call, result: first(ended?.result?.payloads), endedAtMs: atMs };
    }
    nextPageToken =
      page.nextPageToken !== null && page.nextPageToken !== undefined && page.nextPageToken.length > 0
        ? page.nextPageToken
        : null;
  } while (nextPageToken !== null);
}

function first(payloads: Parameters<typeof defaultPayloadConverter.fromPayload>[0][] | null | undefined): unknown {
  const payload = payloads?.[0];
  return payload === undefined ? undefined : defaultPayloadConverter.fromPayload(payload);
}
