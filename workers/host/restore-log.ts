/**
 * A power cut may remove the last lines of a log with durability `process`, while the server's database still has the
 * same stages as ended. No workflow repeats them, so readers would see these stages run for ever. When a worker starts,
 * it writes the results of ended calls again from the server's history. It also writes the events that the workflow
 * sent with these calls.
 */
import { defaultPayloadConverter, isGrpcServiceError, type Client } from '@temporalio/client';
import { createAdmittedRuns, type AdmittedRun } from '../../activities/admission/admitted-run.ts';
import { createAskEvent } from '../../activities/decisions/approvals.ts';
import { filterProven } from '../../activities/decisions/answer-proofs.ts';
import { checkEvents } from '../../activities/calls/events.ts';
import { readAskRequest } from '../../activities/calls/read-requests.ts';
import type { EventLog } from '../../activities/ports/event-log.ts';
import type { HostMarks } from '../../activities/ports/host-marks.ts';
import type { RunReader } from '../../activities/ports/run-reader.ts';
import type { RunRecords } from '../../activities/ports/run-records.ts';
import { stageAt } from '../../domain/pipeline/item-plan.ts';
import { PLAN_LIMITS } from '../../domain/plan/plan.ts';
import { formatAttempt, parseExecKey } from '../../domain/run/attempt.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent, RunEventBody } from '../../domain/run/event.ts';
import { findEventProblem } from '../../domain/run/event-limits.ts';
import { type InstancePath, findInstanceProblem, formatInstance, readInstance } from '../../domain/run/instance.ts';
import { readStageResult } from '../../domain/run/read-stage-result.ts';
import { ITEMS_WORKFLOW_TYPE } from '../../workflows/messages.ts';
import { textOf, type Log } from '../log.ts';

/** Events of one append. */
const BATCH_EVENTS = 200;
/** Exec keys in one message. */
const NAMED_RESULTS = 20;
/** The most windows of one run whose calls are read; a run usually has far fewer. */
const MOST_WINDOWS = 1_000;
/** The limit for one run. A slower server is not waited for: the run continues, and the next start tries again. */
const LIMIT_MS = 15_000;
/** The gRPC status of an unknown workflow. */
const NOT_FOUND = 5;

export interface RestoreOptions {
  readonly client: Client;
  readonly events: EventLog;
  readonly reader: RunReader;
  readonly records: RunRecords;
  readonly marks: HostMarks;
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
          `run ${runId}: results of ${namesOf(restored)} were missing in its log and are written again`,
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
  { client, events, reader, records, marks, now = Date.now }: RestoreOptions,
  runId: string,
): Promise<readonly string[]> {
  const known = new Set<string>();
  const done = new Set<string>();
  for await (const { id, body } of reader.read(runId, 0, { output: false })) {
    known.add(id);
    const item = itemDoneIn(body);
    if (item !== null) done.add(item);
  }
  const run = await createAdmittedRuns(records).get(runId);
  // Any client can start a workflow with the id of a command's run, so its history proves nothing.
  if (run.command !== null) return [];
  const deps = { marks, runOf: () => Promise.resolve(run) };
  const missing: NewRunEvent[] = [];
  const restored: string[] = [];
  for await (const call of callsOf(client, runId, done)) {
    for (const event of await filterProven(deps, runId, eventsOf(run, call, known))) {
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
  const what = execKeys.length === 0 ? 'events' : `results of ${namesOf(execKeys)}`;
  return `the log lacked ${what} that the server remembers, as after a power cut; they are written again, and what those stages printed last may be missing`;
}

function namesOf(execKeys: readonly string[]): string {
  const more = execKeys.length - NAMED_RESULTS;
  return `${execKeys.slice(0, NAMED_RESULTS).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** The item that has succeeded by this event, as text: nothing of it is missing. */
function itemDoneIn(body: RunEventBody): string | null {
  if (body.type !== 'stage-finished' || body.result.outcome !== 'succeeded') return null;
  const path = parseExecKey(body.execKey)?.instance ?? [];
  // If the stage is a part, only the end of the whole item counts, and that event comes last.
  return path.at(-1)?.part === body.stage ? formatInstance(path) : null;
}

interface EndedCall {
  readonly activity: string;
  readonly argument: unknown;
  /** The result; for a failed stage, the details of its failure. */
  readonly result: unknown;
  readonly hasFailed: boolean;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
}

/**
 * Returns the events that the log must have for a call. It drops events that cannot belong to this run, because any
 * client that reaches the server can end an activity.
 */
function eventsOf(
  run: AdmittedRun,
  { activity, argument, result, hasFailed, startedAtMs, endedAtMs }: EndedCall,
  known: ReadonlySet<string>,
): readonly NewRunEvent[] {
  if (typeof argument !== 'object' || argument === null) return [];
  const call = argument as Readonly<Record<string, unknown>>;
  // Events that could not be appended are sent again with another call.
  if (activity === 'appendEvents') return hasFailed ? [] : checkEvents(run, call['events']);
  // A condition that could not be decided, or an invalid time, is a failed call, and its events were written first.
  if (activity === 'evaluateCondition' || activity === 'findTime') return checkEvents(run, call['events']);
  if (activity === 'askApproval') return hasFailed ? [] : eventsOfQuestion(run, call, endedAtMs);
  const { stage: given, attempt } = call;
  const stage = typeof given === 'object' && given !== null ? (given as { readonly id?: unknown }).id : given;
  const instance = instanceOf(run, stage, call['instance'], activity !== 'runStage');
  if (typeof stage !== 'string' || instance === null || stageAt(run.machine, stage, instance) === null) return [];
  if (typeof attempt !== 'number' || !Number.isSafeInteger(attempt) || attempt < 1) return [];
  const execKey = formatAttempt({ stage, instance, attempt });
  const begun = { id: EVENT_ID.attempt(execKey, 'started'), atMs: startedAtMs };
  if (activity === 'beginItems' && !hasFailed) {
    const items = itemsIn(result);
    const body = { type: 'stage-started', stage, execKey, attempt } as const;
    return items === null
      ? []
      : [...checkEvents(run, call['events']), { ...begun, atMs: endedAtMs, body: { ...body, items } }];
  }
  const answered = readStageResult(result, stage, execKey);
  if (answered === null || (hasFailed && answered.outcome !== 'failed')) return [];
  // The end of a stage with items has no events.
  const sent = checkEvents(run, call['events'] ?? []);
  const finishedId = EVENT_ID.attempt(execKey, 'finished');
  if (known.has(finishedId)) return sent;
  const finished: NewRunEvent = {
    id: finishedId,
    atMs: endedAtMs,
    body: { type: 'stage-finished', stage, execKey, result: answered },
  };
  if (findEventProblem(finished) !== null) return sent;
  return [...sent, { ...begun, body: { type: 'stage-started', stage, execKey, attempt } }, finished];
}

/** @param isList  of a stage with items: where their list is, and not one of them */
function instanceOf(run: AdmittedRun, stage: unknown, given: unknown, isList: boolean): InstancePath | null {
  // A call for the list of a stage of the run names no instance.
  const path = given === undefined ? [] : readInstance(given);
  if (typeof stage !== 'string' || path === null || !path.every(({ item }) => item < PLAN_LIMITS.items)) return null;
  const found = stageAt(run.machine, stage, path);
  return found !== null && (found.each !== undefined) === isList ? path : null;
}

function itemsIn(result: unknown): number | null {
  const count = typeof result === 'object' && result !== null ? (result as { readonly count?: unknown }).count : null;
  return isCount(count, PLAN_LIMITS.items) ? count : null;
}

function isCount(value: unknown, most: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= most;
}

function eventsOfQuestion(
  run: AdmittedRun,
  call: Readonly<Record<string, unknown>>,
  askedAtMs: number,
): readonly NewRunEvent[] {
  try {
    const request = readAskRequest(run, call);
    return [...request.events, createAskEvent(request, askedAtMs)];
  } catch {
    // The call does not belong to this run's workflow.
    return [];
  }
}

/**
 * Reads the calls of the run's workflow, then of its windows and their windows, if the log may lack some of their
 * events.
 */
async function* callsOf(client: Client, runId: string, done: ReadonlySet<string>): AsyncGenerator<EndedCall> {
  const windows: Execution[] = [];
  const onWindow = (window: Execution, request: unknown): void => {
    if (windows.length < MOST_WINDOWS && !isDone(request, done)) windows.push(window);
  };
  yield* readEndedCalls(client, { workflowId: runId }, onWindow);
  // The list grows during the loop.
  for (const window of windows) yield* readEndedCalls(client, window, onWindow);
}

/** Whether all of a window's items have succeeded: its history, which is long, need not be read. */
function isDone(request: unknown, done: ReadonlySet<string>): boolean {
  const { stage, instance = [], from, to } = (request ?? {}) as Readonly<Record<string, unknown>>;
  const { id } = (stage ?? {}) as { readonly id?: unknown };
  const around = readInstance(instance);
  if (typeof id !== 'string' || !isCount(from, PLAN_LIMITS.items) || !isCount(to, PLAN_LIMITS.items)) return false;
  if (around === null || findInstanceProblem([...around, { part: id, item: 0 }]) !== null) return false;
  for (let item = from; item < to; item += 1)
    if (!done.has(formatInstance([...around, { part: id, item }]))) return false;
  return true;
}

interface Execution {
  readonly workflowId: string;
  /** The execution; absent: the latest. */
  readonly runId?: string;
}

/** Calls of activities whose events the log has to hold. */
const CALLS: ReadonlySet<string | null | undefined> = new Set([
  'runStage',
  'appendEvents',
  'askApproval',
  'evaluateCondition',
  'findTime',
  'beginItems',
  'endItems',
]);

/**
 * Reads the calls of a workflow that have ended in its history and whose events the log must have, in the order of
 * their ends.
 * @param onWindow  for each child that was started for items, with its argument
 */
async function* readEndedCalls(
  { workflowService, options: { namespace } }: Client,
  execution: Execution,
  onWindow: (window: Execution, request: unknown) => void,
): AsyncGenerator<EndedCall> {
  const requests = new Map<string, unknown>();
  const scheduled = new Map<string, Pick<EndedCall, 'activity' | 'argument' | 'startedAtMs'>>();
  let nextPageToken: Uint8Array | null = null;
  do {
    const page: Awaited<ReturnType<typeof workflowService.getWorkflowExecutionHistory>> =
      await workflowService.getWorkflowExecutionHistory({
        namespace,
        execution,
        nextPageToken,
      });
    for (const {
      eventId,
      eventTime,
      activityTaskScheduledEventAttributes: asked,
      activityTaskCompletedEventAttributes: completed,
      activityTaskFailedEventAttributes: failed,
      startChildWorkflowExecutionInitiatedEventAttributes: child,
      childWorkflowExecutionStartedEventAttributes: begun,
    } of page.history?.events ?? []) {
      const atMs = Number(eventTime?.seconds ?? 0) * 1_000 + Math.floor((eventTime?.nanos ?? 0) / 1_000_000);
      if (child?.workflowType?.name === ITEMS_WORKFLOW_TYPE)
        requests.set(String(eventId), decodeFirst(child.input?.payloads));
      const { workflowId, runId } = begun?.workflowExecution ?? {};
      const initiated = String(begun?.initiatedEventId);
      if (typeof workflowId === 'string' && typeof runId === 'string' && requests.has(initiated))
        onWindow({ workflowId, runId }, requests.get(initiated));
      const activity = asked?.activityType?.name;
      if (typeof activity === 'string' && CALLS.has(activity))
        scheduled.set(String(eventId), { activity, argument: decodeFirst(asked?.input?.payloads), startedAtMs: atMs });
      const ended = completed ?? failed;
      const call = scheduled.get(String(ended?.scheduledEventId));
      if (call === undefined) continue;
      scheduled.delete(String(ended?.scheduledEventId));
      const answer = completed?.result ?? failed?.failure?.applicationFailureInfo?.details;
      yield { ...call, result: decodeFirst(answer?.payloads), hasFailed: ended !== completed, endedAtMs: atMs };
    }
    nextPageToken =
      page.nextPageToken !== null && page.nextPageToken !== undefined && page.nextPageToken.length > 0
        ? page.nextPageToken
        : null;
  } while (nextPageToken !== null);
}

function decodeFirst(
  payloads: Parameters<typeof defaultPayloadConverter.fromPayload>[0][] | null | undefined,
): unknown {
  const payload = payloads?.[0];
  return payload === undefined ? undefined : defaultPayloadConverter.fromPayload(payload);
}
