/** Reads runs, their events and their stages for Void-Box's API. */
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { RunEvent } from '../../domain/run/event.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { fromWire, type PlanWire } from '../../domain/plan/wire.ts';
import { mockOf, needsVm, skillsOf } from '../../domain/plan/work.ts';
import { type ApiVersion, readEventId, type VoidBoxEvent } from '../../domain/void-box/event.ts';
import type { EventContext } from '../../domain/void-box/event-parts.ts';
import { mapEvent, mapStart } from '../../domain/void-box/map-events.ts';
import { mustLeaveResult, type ResultProblem } from '../../domain/void-box/result-rule.ts';
import type { RunView } from '../../store/run-view.ts';
import type { Machine } from '../machine.ts';
import { resultText } from '../runs/result-text.ts';
import type { FoundRun } from './find-run.ts';
import { readCancelReason } from './records.ts';
import { readStageFiles, type StageFiles } from './results.ts';
import { findProblem, NO_FACTS, type RunState, type StateFacts, toRunState } from './run-state.ts';

/** The most events in the state of a run; the latest are kept. The list of events has all of them. */
const MOST_STATE_EVENTS = 10_000;

/** Reads the whole state of a run. Its events lack the output of stages, which the list of events has. */
export async function readRunState(found: FoundRun, version: ApiVersion, context: Machine): Promise<RunState> {
  const { runId, place } = found;
  const events = await createEventContext(found, context);
  const shown: VoidBoxEvent[] = [...mapStart(events, version)];
  if (place.kind !== 'stored') return toRunState(found, { ...NO_FACTS, events: shown });
  const { reader, artifacts } = await context.stores();
  let updatedAtMs: number | null = null;
  for await (const event of readSafely(reader.read(runId, 0, { output: false }), place.view)) {
    updatedAtMs = event.atMs;
    shown.push(...mapEvent(event, events, version));
    if (shown.length > 2 * MOST_STATE_EVENTS) shown.splice(0, shown.length - MOST_STATE_EVENTS);
  }
  const { outcome } = place.view;
  // Clients ask for an open run again and again, so the outputs of its stages are not read each time.
  const files = outcome === null && !hasPublished(place.view) ? null : await readFiles(place.view, context);
  return toRunState(found, {
    files,
    resultProblem: events.resultProblem,
    cancelReason: events.cancelReason,
    outputText: outcome === null || outcome.output === null ? null : await resultText(outcome.output, artifacts),
    terminalEventId: await findTerminalId(found, events, context),
    updatedAtMs,
    events: shown.slice(-MOST_STATE_EVENTS),
  });
}

/** Reads the state of a run without its events, its output and its artifacts, for lists. */
export async function readShortState(found: FoundRun, context: Machine): Promise<RunState> {
  if (found.place.kind !== 'stored' || found.place.view.damage !== null) return toRunState(found, NO_FACTS);
  const events = await createEventContext(found, context, 'without-skills');
  const facts: StateFacts = {
    ...NO_FACTS,
    resultProblem: events.resultProblem,
    cancelReason: events.cancelReason,
    terminalEventId: await findTerminalId(found, events, context),
  };
  return toRunState(found, facts);
}

function hasPublished({ stages }: RunView): boolean {
  return stages.some(({ published }) => published !== undefined);
}

/** A damaged run is shown as far as it can be read. */
async function* readSafely(events: AsyncIterable<RunEvent>, { damage }: RunView): AsyncGenerator<RunEvent> {
  try {
    yield* events;
  } catch (error) {
    if (damage === null) throw error;
  }
}

async function readFiles(view: RunView, context: Machine): Promise<readonly StageFiles[]> {
  return view.damage === null ? await readStageFiles(view, context) : [];
}

async function findTerminalId(
  { runId, place }: FoundRun,
  events: EventContext,
  context: Machine,
): Promise<string | null> {
  if (place.kind !== 'stored' || place.view.outcome === null || place.view.damage !== null) return null;
  const end = await (await context.stores()).events.find(runId, EVENT_ID.runFinished);
  return end === null ? null : (mapEvent(end, events, 'v1').at(-1)?.event_id ?? null);
}

/**
 * Reads the facts that the mapping of events needs.
 * @param detail  without agent skills, the plan is read only if the rule for results needs it
 */
async function createEventContext(
  found: FoundRun,
  context: Machine,
  detail: 'all' | 'without-skills' = 'all',
): Promise<EventContext> {
  const { runId, started, place } = found;
  const base = { runId, started, admitted: null, skills: new Map(), resultProblem: null, cancelReason: null };
  if (place.kind !== 'stored' || place.view.damage !== null) return base;
  const { events } = await context.stores();
  const admission = await events.find(runId, EVENT_ID.runAdmitted);
  const plan = detail === 'all' ? await readPlan(runId, context) : null;
  return {
    ...base,
    admitted: admission?.body.type === 'run-admitted' ? admission.body : null,
    skills: new Map((plan?.stages ?? []).map(({ id, work }) => [id, skillsOf(work)])),
    resultProblem: await readProblem(found, context),
    cancelReason: place.view.state === 'cancelled' ? await readCancelReason(runId, context) : null,
  };
}

/** @returns null for a plan that cannot be read */
export async function readPlan(runId: string, context: Machine): Promise<Plan | null> {
  const wire = await (await context.stores()).records.get(runId, 'plan').catch(() => null);
  return wire === null || wire === undefined ? null : fromWire(wire as PlanWire);
}

async function readProblem(found: FoundRun, context: Machine): Promise<ResultProblem | null> {
  const { started, place } = found;
  if (started === null || place.kind !== 'stored') return null;
  const { view } = place;
  if (view.state !== 'succeeded' || !mustLeaveResult(view.kind, view.stages.length)) return null;
  const plan = await readPlan(found.runId, context);
  const isWork = new Map((plan?.stages ?? []).map(({ id, work }) => [id, needsVm(work) || mockOf(work) !== null]));
  const stages = view.stages.map(({ id }) => id).filter((id) => isWork.get(id) ?? true);
  return findProblem(found, await readStageFiles(view, context), stages);
}

export interface WantedEvents {
  /** The id of the last event that the reader has; null, or an unknown id: it gets all. */
  readonly after: string | null;
  readonly version: ApiVersion;
}

/** Yields the events until now. */
export async function* readEvents(
  found: FoundRun,
  { after, version }: WantedEvents,
  context: Machine,
): AsyncGenerator<VoidBoxEvent> {
  const { runId } = found;
  const facts = await createEventContext(found, context);
  const { reader } = await context.stores();
  const marker = after === null ? null : await findMarker(after, facts, context);
  if (marker === null) yield* mapStart(facts, version);
  if (found.place.kind !== 'stored') return;
  for await (const event of reader.read(runId, Math.max(0, (marker?.seq ?? 0) - 1))) {
    const mapped = mapEvent(event, facts, version);
    yield* event.seq === marker?.seq ? mapped.slice(marker.index + 1) : mapped;
  }
}

/** @returns the place of an event, which the run has */
async function findMarker(
  eventId: string,
  facts: EventContext,
  context: Machine,
): Promise<{ readonly seq: number; readonly index: number } | null> {
  const { runId } = facts;
  const place = readEventId(eventId, runId);
  if (place === null) return null;
  if (place.seq === 0) return mapStart(facts, 'v1')[place.index]?.event_id === eventId ? place : null;
  for await (const event of (await context.stores()).reader.read(runId, place.seq - 1))
    return mapEvent(event, facts, 'v1')[place.index]?.event_id === eventId ? place : null;
  return null;
}
