/**
 * Maps the events of a run to those of Void-Box's API. `EVENT_TABLE` has a row for each event of a run. Pure, so that each reader gets the same events with the same ids.
 */
import { stageNameOf } from '../run/attempt.ts';
import type { RunEvent, RunEventBody, RunOutcome } from '../run/event.ts';
import type { StageResult } from '../run/stage-result.ts';
import { type ApiVersion, createEvent, type EventPart, type EventType, type VoidBoxEvent } from './event.ts';
import {
  readAttempt,
  createBegun,
  createCompleted,
  createFailed,
  createQueued,
  createSkipped,
  type EventContext,
  type Place,
  findPlace,
} from './event-parts.ts';
import { nameSkill } from './skill-names.ts';

type BodyOf<Type extends RunEventBody['type']> = Extract<RunEventBody, { readonly type: Type }>;

interface Row<Body> {
  /** The types that the event becomes. */
  readonly types: readonly EventType[];
  readonly map: (body: Body, context: EventContext) => readonly EventPart[];
}

const NO_EVENT: Row<RunEventBody> = { types: [], map: () => [] };

/** Each event of a run with the events that it becomes here. */
export const EVENT_TABLE: { readonly [Type in RunEventBody['type']]: Row<BodyOf<Type>> } = {
  'run-admitted': {
    types: ['run.started', 'run.spec.loaded', 'workflow.planned', 'box.started', 'skill.mounted', 'stage.queued'],
    map: mapAdmission,
  },
  'run-finished': {
    types: ['run.started', 'spec.parse_failed', 'run.finished', 'run.failed', 'run.cancelled'],
    map: ({ outcome }, context) => convertEnd(outcome, context),
  },
  'vm-ready': {
    types: ['env.provisioned'],
    map: ({ scope, vmKey, vmm }) => [
      { type: 'env.provisioned', message: `VM ${scope} is ready`, environment_id: vmKey, mode: vmm },
    ],
  },
  'scope-restarted': {
    types: ['stage.queued'],
    map: ({ stages }, context) => stages.map((stage) => createQueued(stage, context)),
  },
  'loop-visited': {
    types: ['stage.queued'],
    map: ({ stages }, context) => stages.map((stage) => createQueued(stage, context)),
  },
  'stage-given': {
    types: ['stage.completed'],
    map: (body, context) => [createCompleted(findPlace(body, context), { durationMs: 0, exitCode: 0, attempt: 1 })],
  },
  'stage-started': { types: ['stage.started'], map: (body, context) => [createBegun(body, context)] },
  'stage-asking': { types: ['stage.started'], map: (body, context) => [createBegun(body, context)] },
  'stage-sleeping': { types: ['stage.started'], map: (body, context) => [createBegun(body, context)] },
  'stage-finished': {
    types: ['log.closed', 'stage.completed', 'stage.failed', 'stage.skipped'],
    map: convertResult,
  },
  'stage-failed': {
    types: ['stage.failed'],
    map: (body, context) => [
      createFailed(findPlace(body, context), { error: body.failure.message, attempt: readAttempt(body) }),
    ],
  },
  'stage-retrying': {
    types: ['stage.queued'],
    map: (body, context) => [createQueued(stageNameOf(body), context)],
  },
  'stage-answered': { types: ['stage.completed', 'stage.failed'], map: (body, context) => [mapWait(body, context)] },
  'stage-woken': { types: ['stage.completed', 'stage.failed'], map: (body, context) => [mapWait(body, context)] },
  'stage-skipped': {
    types: ['stage.skipped'],
    map: (body, context) => [createSkipped(findPlace(body, context), body.reason)],
  },
  'stage-passed': {
    types: ['stage.skipped'],
    map: (body, context) => [createSkipped(findPlace(body, context), UNMET)],
  },
  'stage-published': {
    types: ['run.output_ready'],
    map: (body, context) => [
      { ...findPlace(body, context), type: 'run.output_ready', message: 'service output published' },
    ],
  },
  output: { types: ['log.chunk'], map: (body, context) => [mapOutput(body, context)] },
  'run-resumed': NO_EVENT,
  'vm-starting': NO_EVENT,
  'vm-lost': NO_EVENT,
  'vm-stopped': NO_EVENT,
  'checkpoint-made': NO_EVENT,
  'checkpoint-failed': NO_EVENT,
  'stage-reattached': NO_EVENT,
  'stage-resumed': NO_EVENT,
  'stage-progress': NO_EVENT,
  network: NO_EVENT,
  'agent-text': NO_EVENT,
  'agent-tool': NO_EVENT,
  'agent-tool-output': NO_EVENT,
  'agent-asked': NO_EVENT,
  'agent-usage': NO_EVENT,
  'skill-step': NO_EVENT,
  notice: NO_EVENT,
};

const UNMET = 'its condition does not hold';

/** Returns the event that comes before all events of the run; empty if another client started it. */
export function mapStart({ runId, started }: EventContext, version: ApiVersion): readonly VoidBoxEvent[] {
  if (started === null) return [];
  const { atMs, file } = started;
  return [createEvent(createStarted(file), { runId, atMs, seq: 0, index: 0 }, version)];
}

/** @param event  the events of a run in their order give its events here in their order */
export function mapEvent(event: RunEvent, context: EventContext, version: ApiVersion): readonly VoidBoxEvent[] {
  const { atMs, seq, body } = event;
  return mapParts(body, context).map((part, index) =>
    createEvent(part, { runId: context.runId, atMs, seq, index }, version),
  );
}

function mapParts(body: RunEventBody, context: EventContext): readonly EventPart[] {
  // A later build may write an event that this one does not know.
  if (!Object.hasOwn(EVENT_TABLE, body.type)) return [];
  return (EVENT_TABLE[body.type] as Row<RunEventBody>).map(body, context);
}

function createStarted(file: string): EventPart {
  return { type: 'run.started', message: `run created for ${file}` };
}

function mapAdmission(body: BodyOf<'run-admitted'>, context: EventContext): readonly EventPart[] {
  const { name, kind, stages } = body;
  const boxes = kind === 'pipeline' ? stages : [];
  return [
    ...(context.started === null ? [createStarted(name)] : []),
    { type: 'run.spec.loaded', message: `loaded ${kind} spec '${name}'`, mode: kind },
    ...(kind === 'workflow'
      ? [{ type: 'workflow.planned' as const, message: `workflow has ${stages.length} steps` }]
      : []),
    ...boxes.map(({ id }): EventPart => ({ type: 'box.started', message: `box '${id}' prepared`, box_name: id })),
    ...stages.flatMap(({ id }) => mapSkills(id, context)),
    ...stages.map(({ id }) => createQueued(id, context)),
  ];
}

function mapSkills(stage: string, { skills }: EventContext): readonly EventPart[] {
  return (skills.get(stage) ?? []).map((skill): EventPart => {
    const { type, id } = nameSkill(skill);
    const message = `mounted agent skill ${type}:${id}`;
    return { type: 'skill.mounted', message, skill_id: id, skill_type: type, box_name: stage, stage_name: stage };
  });
}

function convertEnd(outcome: RunOutcome, context: EventContext): readonly EventPart[] {
  const { started, admitted } = context;
  return [
    ...(started === null && admitted === null ? [createStarted(context.runId)] : []),
    ...(admitted === null && isSpecMistake(outcome)
      ? [
          {
            type: 'spec.parse_failed' as const,
            level: 'warn' as const,
            message: `failed to parse spec before run: ${outcome.failure?.message ?? ''}`,
          },
        ]
      : []),
    mapOutcome(outcome, context),
  ];
}

/** The spec was not found, could not be read, or has mistakes. */
function isSpecMistake({ failure }: RunOutcome): boolean {
  return failure !== null && (failure.code === 'spec/invalid' || failure.code === 'cli/usage');
}

function mapOutcome({ state, failure }: RunOutcome, { resultProblem, cancelReason }: EventContext): EventPart {
  if (state === 'succeeded' && resultProblem === null) return { type: 'run.finished', message: 'run completed' };
  if (state === 'cancelled') return { type: 'run.cancelled', level: 'warn', message: cancelReason ?? 'run cancelled' };
  const why =
    state === 'succeeded' && resultProblem !== null
      ? `structured output ${resultProblem.kind}: ${resultProblem.message}`
      : (failure?.message ?? `the run was ${state}`);
  return { type: 'run.failed', level: 'error', message: `run failed: ${why}` };
}

function convertResult(body: BodyOf<'stage-finished'>, context: EventContext): readonly EventPart[] {
  const place = findPlace(body, context);
  const { result } = body;
  return [...closeStreams(result, place), mapStageEnd(result, place)];
}

function closeStreams({ command }: StageResult, place: Place): readonly EventPart[] {
  const streams = [
    ...((command?.stdoutBytes ?? 0) > 0 ? ['stdout'] : []),
    ...((command?.stderrBytes ?? 0) > 0 ? ['stderr'] : []),
  ];
  return streams.map((stream) => ({ ...place, type: 'log.closed', message: `${stream} stream closed`, stream }));
}

function mapStageEnd({ outcome, failure, durationMs, command, attempt }: StageResult, place: Place): EventPart {
  const exitCode = command?.exitCode ?? null;
  switch (outcome) {
    case 'succeeded':
      return createCompleted(place, { durationMs, exitCode: exitCode ?? 0, attempt });
    case 'passed':
      return createSkipped(place, UNMET);
    case 'failed':
    case 'cancelled': {
      const error = failure?.message ?? (outcome === 'cancelled' ? 'run cancelled' : 'stage failed');
      return createFailed(place, { durationMs, exitCode: exitCode ?? -1, error, attempt });
    }
  }
}

function mapWait(body: BodyOf<'stage-answered'> | BodyOf<'stage-woken'>, context: EventContext): EventPart {
  const place = findPlace(body, context);
  const attempt = readAttempt(body);
  if (body.outcome === 'succeeded') return createCompleted(place, { durationMs: 0, exitCode: 0, attempt });
  const failure = body.type === 'stage-answered' ? body.failure : null;
  return createFailed(place, { error: failure?.message ?? 'run cancelled', attempt });
}

function mapOutput({ stream, encoding, data, ...owner }: BodyOf<'output'>, context: EventContext): EventPart {
  const payload = encoding === 'utf8' ? { data } : { data, encoding };
  return { ...findPlace(owner, context), type: 'log.chunk', message: 'stream chunk', stream, payload };
}
