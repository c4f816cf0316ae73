/** The events that the workflow of a run makes, and no others: what stages, VMs and the run's end come to is written by activities alone. */
import { CodedError } from '../domain/errors/coded-error.ts';
import { execKeyOf } from '../domain/pipeline/draft.ts';
import { planIndex } from '../domain/pipeline/plan-index.ts';
import { lastAttempt, lastGeneration } from '../domain/pipeline/reach.ts';
import type { MachinePlan, MachineStage } from '../domain/pipeline/machine-plan.ts';
import { EVENT_ID, lastNumber } from '../domain/run/event-id.ts';
import type { NewRunEvent, RunEventBody } from '../domain/run/event.ts';
import { type AdmittedRun, quoted } from './admitted-run.ts';
import { type Fields, fieldsOf, readFailure } from './call-values.ts';

/** Of a text in an event. The run machine's are shorter; that of a notice is what a failure says. */
const TEXT_CHARACTERS = 8 * 1024;
/** As often as a stage can be looked at again, and far beyond. */
const MOST_SKIPS = 9_999;

/**
 * The events, made anew of what was checked.
 * @throws CodedError `call/refused` for an event that the workflow does not make, under an id that is not that event's
 */
export function checkedEvents(run: AdmittedRun, value: unknown): readonly NewRunEvent[] {
  if (!Array.isArray(value))
    throw new CodedError('call/refused', `run ${run.runId}: the events of a call have to be a list`);
  return value.map((each: unknown) => {
    const { id, atMs, body: given } = fieldsOf(each, 'an event');
    const body = typeof id === 'string' ? bodyOf(run.machine, id, fieldsOf(given, 'the body of an event')) : null;
    if (body !== null && typeof atMs === 'number' && Number.isFinite(atMs)) return { id: id as string, atMs, body };
    throw new CodedError('call/refused', `run ${run.runId}: its workflow makes no event ${quoted(id)} like this`);
  });
}

function bodyOf(plan: MachinePlan, id: string, given: Fields): RunEventBody | null {
  switch (given['type']) {
    case 'scope-restarted':
      return scopeRestarted(plan, id, given);
    case 'stage-retrying':
      return stageRetrying(plan, id, given);
    case 'stage-asking':
      return stageAsking(plan, id, given);
    case 'stage-answered':
      return stageAnswered(plan, id, given);
    case 'stage-skipped':
      return stageSkipped(plan, id, given);
    case 'notice':
      return notice(plan, id, given);
    default:
      return null;
  }
}

function scopeRestarted(plan: MachinePlan, id: string, { scope, reason, stages }: Fields): RunEventBody | null {
  if (
    !isText(scope) ||
    !isText(reason) ||
    !Array.isArray(stages) ||
    !isOfGeneration(plan, id, EVENT_ID.scopeRestarted, scope)
  )
    return null;
  return areOpenAgain(plan, scope, stages)
    ? { type: 'scope-restarted', scope, reason, stages: [...(stages as string[])] }
    : null;
}

/** Stages of the scope, and such as were skipped because one of these had not failed, each after what it waits for. */
function areOpenAgain(plan: MachinePlan, scope: string, stages: readonly unknown[]): boolean {
  const own = new Set<unknown>(plan.scopes.find(({ id }) => id === scope)!.stages);
  const skipped = new Set<string>();
  return stages.every((stage) => {
    if (own.has(stage)) return true;
    const after = plan.stages.find(({ id }) => id === stage)?.after ?? [];
    const isOpen = after.some((edge) => skipped.has(edge.stage) || (own.has(edge.stage) && edge.on === 'failure'));
    if (isOpen) skipped.add(stage as string);
    return isOpen;
  });
}

function stageRetrying(
  plan: MachinePlan,
  id: string,
  { stage: name, execKey, reason, delayMs }: Fields,
): RunEventBody | null {
  const stage = isText(name) ? plan.stages[planIndex(plan).stageById(name) ?? -1] : undefined;
  if (stage === undefined || !isText(execKey) || !isText(reason) || id !== EVENT_ID.attempt(execKey, 'retrying'))
    return null;
  if (attemptOf(stage, execKey) === null) return null;
  return delayMs === 0 || delayMs === stage.retry.backoffMs
    ? { type: 'stage-retrying', stage: stage.id, execKey, reason, delayMs }
    : null;
}

function stageAsking(plan: MachinePlan, id: string, { stage, execKey, attempt }: Fields): RunEventBody | null {
  const asked = askedBy(plan, stage, execKey);
  if (asked === null || asked.attempt !== attempt || id !== EVENT_ID.attempt(asked.execKey, 'asking')) return null;
  return { type: 'stage-asking', ...asked };
}

function stageAnswered(plan: MachinePlan, id: string, given: Fields): RunEventBody | null {
  const asked = askedBy(plan, given['stage'], given['execKey']);
  if (asked === null || id !== EVENT_ID.attempt(asked.execKey, 'answered')) return null;
  const { stage, execKey } = asked;
  const failure = given['failure'] === null ? null : readFailure(given['failure']);
  switch (given['outcome']) {
    case 'succeeded':
    case 'cancelled':
      return given['failure'] === null
        ? { type: 'stage-answered', stage, execKey, outcome: given['outcome'], failure: null }
        : null;
    case 'failed':
      return failure === null ? null : { type: 'stage-answered', stage, execKey, outcome: 'failed', failure };
    default:
      return null;
  }
}

/** An attempt of a stage that asks; null for others. */
function askedBy(
  plan: MachinePlan,
  name: unknown,
  execKey: unknown,
): { readonly stage: string; readonly execKey: string; readonly attempt: number } | null {
  const stage = isText(name) ? plan.stages[planIndex(plan).stageById(name) ?? -1] : undefined;
  const attempt = stage === undefined || stage.doing !== 'ask' ? null : attemptOf(stage, execKey);
  return attempt === null ? null : { stage: stage!.id, execKey: execKey as string, attempt };
}

/** Null for a key that the machine gives to no attempt of the stage. */
function attemptOf(stage: MachineStage, execKey: unknown): number | null {
  if (!isText(execKey)) return null;
  const attempt = Number(execKey.slice(execKey.lastIndexOf('/') + 1));
  const isOne = Number.isSafeInteger(attempt) && attempt >= 1 && attempt <= lastAttempt(stage);
  return isOne && execKey === execKeyOf(stage.id, attempt) ? attempt : null;
}

function stageSkipped(plan: MachinePlan, id: string, { stage, reason }: Fields): RunEventBody | null {
  if (!isText(stage) || !isText(reason) || planIndex(plan).stageById(stage) === undefined) return null;
  const times = id === EVENT_ID.skipped(stage, 1) ? 1 : lastNumber(id);
  if (!(times >= 1 && times <= MOST_SKIPS) || id !== EVENT_ID.skipped(stage, times)) return null;
  return { type: 'stage-skipped', stage, reason };
}

/** That a VM could not be released. */
function notice(plan: MachinePlan, id: string, { level, message }: Fields): RunEventBody | null {
  const scope = /^run\/release-failed\/([^/]+)\/\d+$/.exec(id)?.[1];
  if (
    level !== 'warning' ||
    typeof message !== 'string' ||
    scope === undefined ||
    !isOfGeneration(plan, id, EVENT_ID.releaseFailed, scope)
  )
    return null;
  return { type: 'notice', level, message: message.slice(0, TEXT_CHARACTERS) };
}

function isOfGeneration(
  plan: MachinePlan,
  id: string,
  idOf: (scope: string, generation: number) => string,
  scopeId: string,
): boolean {
  const index = planIndex(plan);
  const scope = plan.scopes[index.scopeById(scopeId) ?? -1];
  if (scope === undefined) return false;
  const generation = lastNumber(id);
  const last = lastGeneration(scope, (stage) => plan.stages[index.stageById(stage)!]);
  return generation <= last && id === idOf(scopeId, generation);
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= TEXT_CHARACTERS;
}
