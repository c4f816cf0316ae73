/** Parts of events about stages, with the place of each stage among the others. */
import type { AgentSkill } from '../plan/plan.ts';
import { parseExecKey, stageNameOf } from '../run/attempt.ts';
import type { RunEventBody } from '../run/event.ts';
import type { EventPart } from './event.ts';
import type { ResultProblem } from './result-rule.ts';

/** The facts about a run that one of its events does not have. */
export interface EventContext {
  readonly runId: string;
  /** The start through this API; null: another client started the run. */
  readonly started: { readonly atMs: number; readonly file: string } | null;
  /** The admission of the run; null: it is not admitted. */
  readonly admitted: Admission | null;
  /** The agent skills of each agent, by stage. */
  readonly skills: ReadonlyMap<string, readonly AgentSkill[]>;
  /** Why a run that succeeded has failed for clients of this API; null: it has not. */
  readonly resultProblem: ResultProblem | null;
  /** The reason of a cancel; null: the cancel named none. */
  readonly cancelReason: string | null;
}

export interface Admission {
  readonly name: string;
  readonly kind: string;
  readonly stages: readonly { readonly id: string; readonly dependsOn: readonly string[] }[];
}

type BodyOf<Type extends RunEventBody['type']> = Extract<RunEventBody, { readonly type: Type }>;

export type Place = Pick<EventPart, 'stage_name' | 'group_id' | 'box_name'>;

export function findPlace(owner: { readonly stage: string; readonly execKey?: string }, context: EventContext): Place {
  const { stage, execKey } = owner;
  const { admitted } = context;
  const hasBox = admitted?.kind === 'agent' || admitted?.kind === 'pipeline';
  return {
    stage_name: execKey === undefined ? stage : stageNameOf({ stage, execKey }),
    group_id: findGroup(stage, admitted),
    box_name: hasBox ? stage : null,
  };
}

const groups = new WeakMap<Admission, ReadonlyMap<string, number>>();

function findGroup(stage: string, admitted: Admission | null): string {
  if (admitted === null) return 'g0';
  const known = groups.get(admitted) ?? computeGroups(admitted.stages);
  groups.set(admitted, known);
  return `g${known.get(stage) ?? 0}`;
}

/** The group of a stage is the longest way to it from a first stage, as Void-Box counts it. */
export function computeGroups(stages: Admission['stages']): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  // Each round settles at least the next group; plans have no cycles.
  for (let round = 0; round < stages.length; round += 1) {
    let isSettled = true;
    for (const { id, dependsOn } of stages) {
      const group = dependsOn.reduce((most, other) => Math.max(most, (found.get(other) ?? 0) + 1), 0);
      if (found.get(id) === group) continue;
      found.set(id, group);
      isSettled = false;
    }
    if (isSettled) break;
  }
  return found;
}

export function createQueued(stage: string, context: EventContext): EventPart {
  const dependsOn = context.admitted?.stages.find(({ id }) => id === stage)?.dependsOn ?? [];
  const message = `stage '${stage}' queued`;
  return { ...findPlace({ stage }, context), type: 'stage.queued', message, payload: { depends_on: dependsOn } };
}

export function createBegun(
  body: BodyOf<'stage-started'> | BodyOf<'stage-asking'> | BodyOf<'stage-sleeping'>,
  context: EventContext,
): EventPart {
  const place = findPlace(body, context);
  const { attempt } = body;
  const message = `stage '${place.stage_name}' started (attempt ${attempt})`;
  return { ...place, type: 'stage.started', message, payload: { stage_attempt: attempt } };
}

interface End {
  readonly durationMs?: number;
  readonly exitCode?: number;
  readonly attempt: number;
}

export function createCompleted(place: Place, { durationMs = 0, exitCode = 0, attempt }: End): EventPart {
  return {
    ...place,
    type: 'stage.completed',
    message: `stage '${place.stage_name}' succeeded in ${durationMs}ms`,
    payload: { duration_ms: durationMs, exit_code: exitCode, stage_attempt: attempt },
  };
}

export function createFailed(
  place: Place,
  { durationMs = 0, exitCode = -1, attempt, error }: End & { readonly error: string },
): EventPart {
  return {
    ...place,
    type: 'stage.failed',
    level: 'error',
    message: `stage '${place.stage_name}' failed: ${error}`,
    payload: { duration_ms: durationMs, exit_code: exitCode, error, stage_attempt: attempt },
  };
}

export function createSkipped(place: Place, reason: string): EventPart {
  return {
    ...place,
    type: 'stage.skipped',
    level: 'warn',
    message: `stage '${place.stage_name}' skipped: ${reason}`,
    payload: { reason, stage_attempt: 1 },
  };
}

export function readAttempt({ execKey }: { readonly execKey: string }): number {
  return parseExecKey(execKey)?.attempt ?? 1;
}
