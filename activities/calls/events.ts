/**
 * Accepts only the events that the workflow of a run makes. Only activities write the results of stages, VMs and the
 * run itself.
 */
import { CodedError } from '../../domain/errors/coded-error.ts';
import { planIndex } from '../../domain/pipeline/plan-index.ts';
import { stageAt } from '../../domain/pipeline/item-plan.ts';
import { lastAttempt, lastGeneration } from '../../domain/pipeline/reach.ts';
import type { MachinePlan, MachineStage } from '../../domain/pipeline/machine-plan.ts';
import { retryPauseMs } from '../../domain/plan/retry.ts';
import { PLAN_LIMITS, type RetryPlan } from '../../domain/plan/plan.ts';
import { isSavedEachStep } from '../../domain/plan/scope.ts';
import { stageOfPlan } from '../../domain/plan/item-parts.ts';
import { approvalOf } from '../../domain/plan/work.ts';
import { checkGivenFields, type FieldValues } from '../../domain/run/approval-answer.ts';
import { parseExecKey } from '../../domain/run/attempt.ts';
import { EVENT_ID, lastNumber } from '../../domain/run/event-id.ts';
import type { NewRunEvent, RunEventBody } from '../../domain/run/event.ts';
import { MOST_STRAYS, STRAY_CHARACTERS } from '../../domain/run/stray.ts';
import { isDateMs } from '../../domain/units/time.ts';
import { type AdmittedRun } from '../admission/admitted-run.ts';
import { dataRefOf, type Fields, fieldsOf, readFailure } from './values.ts';
import { quote } from '../../domain/units/quote.ts';

/**
 * The limit of a text in an event. Texts of the run machine are shorter; the text of a notice contains the message of a
 * failure.
 */
const TEXT_CHARACTERS = 8 * 1024;
/** Far more than the number of times that a stage can be skipped or decided. */
const MOST_SKIPS = 9_999;

/**
 * Returns the events, rebuilt from the checked fields.
 * @throws CodedError `call/refused` for an event that the workflow does not make, or whose id does not belong to it
 */
export function checkEvents(run: AdmittedRun, value: unknown): readonly NewRunEvent[] {
  if (!Array.isArray(value))
    throw new CodedError('call/refused', `run ${run.runId}: the events of a call must be a list`);
  return value.map((each: unknown) => {
    const { id, atMs, body: given } = fieldsOf(each, 'an event');
    const body = typeof id === 'string' ? bodyOf(run, id, fieldsOf(given, 'the body of an event')) : null;
    if (body !== null && typeof atMs === 'number' && Number.isFinite(atMs)) return { id: id as string, atMs, body };
    throw new CodedError('call/refused', `run ${run.runId}: its workflow makes no event ${quote(id)} like this`);
  });
}

function bodyOf(run: AdmittedRun, id: string, given: Fields): RunEventBody | null {
  const plan = run.machine;
  switch (given['type']) {
    case 'scope-restarted':
      return scopeRestarted(plan, id, given);
    case 'loop-visited':
      return loopVisited(plan, id, given);
    case 'stage-retrying':
      return stageRetrying(plan, id, given);
    case 'stage-answered':
      return stageAnswered(run, id, given);
    case 'stage-sleeping':
      return stageSleeping(plan, id, given);
    case 'stage-woken':
      return stageWoken(plan, id, given);
    case 'stage-failed':
      return stageFailed(plan, id, given);
    case 'stage-skipped':
      return stageSkipped(plan, id, given);
    case 'stage-passed':
      return stagePassed(plan, id, given);
    case 'notice':
      return notice(plan, id, given);
    default:
      return null;
  }
}

function scopeRestarted(
  plan: MachinePlan,
  id: string,
  { scope, reason, stages, attempts, kept = [] }: Fields,
): RunEventBody | null {
  if (
    !isText(scope) ||
    !isText(reason) ||
    !Array.isArray(stages) ||
    !Array.isArray(kept) ||
    !(
      isOfGeneration(plan, id, EVENT_ID.scopeRestarted, scope) ||
      isOfGeneration(plan, id, EVENT_ID.scopeBegunAgain, scope)
    )
  )
    return null;
  if (!areOpenAgain(plan, scope, stages) || !areKept(plan, scope, kept)) return null;
  if (attempts !== undefined && !areAttempts(attempts, stages.length)) return null;
  return {
    type: 'scope-restarted',
    scope,
    reason,
    stages: [...(stages as string[])],
    ...(attempts === undefined ? {} : { attempts: [...(attempts as number[])] }),
    ...(kept.length === 0 ? {} : { kept: [...(kept as string[])] }),
  };
}

function areAttempts(attempts: unknown, count: number): boolean {
  return Array.isArray(attempts) && attempts.length === count && attempts.every((each) => Number.isSafeInteger(each));
}

/** Only a scope that is saved after each step keeps stages. */
function areKept(plan: MachinePlan, id: string, kept: readonly unknown[]): boolean {
  const scope = plan.scopes.find((each) => each.id === id)!;
  const own = new Set<unknown>(scope.stages);
  return kept.length === 0 || (isSavedEachStep(scope) && kept.every((stage) => own.has(stage)));
}

/**
 * Checks the stages that run again: stages of the scope, and stages that were skipped because one of those had not
 * failed. Each stage must come after the stages that it waits for.
 */
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

function loopVisited(plan: MachinePlan, id: string, { stage: name, visit }: Fields): RunEventBody | null {
  const stage = isText(name) ? plan.stages[planIndex(plan).stageById(name) ?? -1] : undefined;
  if (stage?.loop === undefined || typeof visit !== 'number' || !Number.isSafeInteger(visit)) return null;
  const { maxVisits, stages } = stage.loop;
  const evaluation = lastNumber(id);
  if (!(evaluation >= 1 && evaluation <= MOST_SKIPS) || id !== EVENT_ID.visited(stage.id, evaluation)) return null;
  if (visit < 2 || visit > maxVisits) return null;
  return { type: 'loop-visited', stage: stage.id, visit, stages: [...stages] };
}

function stageRetrying(
  plan: MachinePlan,
  id: string,
  { stage: name, execKey, reason, delayMs }: Fields,
): RunEventBody | null {
  if (!isText(name) || !isText(execKey) || !isText(reason) || id !== EVENT_ID.attempt(execKey, 'retrying')) return null;
  const tried = findAttempt(plan, name, execKey);
  if (tried === null) return null;
  return typeof delayMs === 'number' && isPause(tried, delayMs)
    ? { type: 'stage-retrying', stage: name, execKey, reason, delayMs }
    : null;
}

/**
 * Returns true for a pause that the plan allows; after a lost VM there is no pause. The key does not show the number of
 * failures, because lost VMs count in it too.
 */
function isPause({ retry }: Pick<MachineStage, 'retry'>, delayMs: number): boolean {
  if (delayMs === 0) return true;
  for (let failures = 1; failures < retry.maxAttempts; failures += 1)
    if (retryPauseMs(retry, failures) === delayMs) return true;
  return false;
}

function stageAnswered(run: AdmittedRun, id: string, given: Fields): RunEventBody | null {
  const asked = findAsker(run.machine, given['stage'], given['execKey']);
  if (asked === null || id !== EVENT_ID.attempt(asked.execKey, 'answered')) return null;
  const { stage, execKey } = asked;
  const { outcome, by, verified, comment } = given;
  const failure = given['failure'] === null ? null : readFailure(given['failure']);
  const output = given['output'] === undefined ? undefined : dataRefOf(given['output']);
  if (by !== undefined && !isText(by)) return null;
  if (verified !== undefined && (verified !== true || by === undefined || outcome === 'cancelled')) return null;
  if (comment !== undefined && !isText(comment)) return null;
  if (output === null || (output !== undefined && outcome !== 'succeeded')) return null;
  if (outcome !== 'succeeded' && outcome !== 'failed' && outcome !== 'cancelled') return null;
  if ((outcome === 'failed') !== (failure !== null)) return null;
  const fields = given['fields'] === undefined ? undefined : checkRejectedFields(run, stage, given['fields']);
  if (fields === null || (fields !== undefined && outcome !== 'failed')) return null;

  return {
    type: 'stage-answered',
    stage,
    execKey,
    outcome,
    failure,
    ...(by === undefined ? {} : { by }),
    ...(verified === undefined ? {} : { verified }),
    ...(comment === undefined ? {} : { comment }),
    ...(fields === undefined ? {} : { fields }),
    ...(output === undefined ? {} : { output }),
  };
}

/** Returns null if the approval does not define the fields. */
function checkRejectedFields({ plan }: AdmittedRun, stage: string, given: unknown): FieldValues | null {
  const approval = approvalOf(stageOfPlan(plan, stage)!.work);
  const checked = checkGivenFields(approval?.fields ?? [], given);
  return 'problem' in checked ? null : checked.values;
}

function stageSleeping(plan: MachinePlan, id: string, given: Fields): RunEventBody | null {
  const stage = findWaitingStage(plan, given['stage']);
  const { execKey, attempt, untilMs } = given;
  if (stage === null || !isDateMs(untilMs)) return null;
  if (attemptOf(plan, stage, execKey) !== attempt || id !== EVENT_ID.attempt(execKey as string, 'sleeping'))
    return null;
  if (stage.wait!.untilMs !== null && stage.wait!.untilMs !== untilMs) return null;
  return { type: 'stage-sleeping', stage: stage.id, execKey: execKey as string, attempt: attempt as number, untilMs };
}

function stageWoken(plan: MachinePlan, id: string, given: Fields): RunEventBody | null {
  const stage = findWaitingStage(plan, given['stage']);
  const { execKey, outcome } = given;
  if (stage === null || attemptOf(plan, stage, execKey) === null) return null;
  if (id !== EVENT_ID.attempt(execKey as string, 'woken')) return null;
  if (outcome !== 'succeeded' && outcome !== 'cancelled') return null;
  return { type: 'stage-woken', stage: stage.id, execKey: execKey as string, outcome };
}

/** Returns null for a stage that does more than wait. */
function findWaitingStage(plan: MachinePlan, name: unknown): MachineStage | null {
  const stage = isText(name) ? plan.stages[planIndex(plan).stageById(name) ?? -1] : undefined;
  return stage?.wait === undefined ? null : stage;
}

function stageFailed(
  plan: MachinePlan,
  id: string,
  { stage: name, execKey, failure: given }: Fields,
): RunEventBody | null {
  const failure = readFailure(given);
  if (!isText(name) || failure === null || !isText(execKey)) return null;
  if (findAttempt(plan, name, execKey) === null || id !== EVENT_ID.attempt(execKey, 'failed')) return null;
  return { type: 'stage-failed', stage: name, execKey, failure };
}

/** Returns the attempt of a stage that asks, in the run itself or in an item; null for other stages. */
function findAsker(
  plan: MachinePlan,
  name: unknown,
  execKey: unknown,
): { readonly stage: string; readonly execKey: string; readonly attempt: number } | null {
  const tried = isText(name) ? findAttempt(plan, name, execKey) : null;
  if (tried === null || tried.doing !== 'ask') return null;
  return { stage: name as string, execKey: execKey as string, attempt: tried.attempt };
}

/** Returns the attempt of the stage itself that a key names; null for a key that the machine never assigns. */
function attemptOf(plan: MachinePlan, { id }: MachineStage, execKey: unknown): number | null {
  const tried = findAttempt(plan, id, execKey);
  return tried === null || tried.isItem ? null : tried.attempt;
}

/** Returns the attempt of the stage or of an item that a key names; null for a key that the machine never assigns. */
function findAttempt(
  plan: MachinePlan,
  id: string,
  execKey: unknown,
): {
  readonly attempt: number;
  readonly isItem: boolean;
  readonly retry: RetryPlan;
  readonly doing: MachineStage['doing'];
} | null {
  const name = isText(execKey) ? parseExecKey(execKey) : null;
  if (name === null || name.stage !== id || name.command !== 1) return null;
  if (name.instance.some(({ item }) => item >= PLAN_LIMITS.items)) return null;
  const stage = stageAt(plan, id, name.instance);
  if (stage === null) return null;
  const { retry, visits, doing } = stage;
  const isItem = name.instance.length > 0;
  return name.attempt <= lastAttempt({ retry, visits }) ? { attempt: name.attempt, isItem, retry, doing } : null;
}

function stageSkipped(plan: MachinePlan, id: string, { stage, reason }: Fields): RunEventBody | null {
  if (!isText(stage) || !isText(reason) || planIndex(plan).stageById(stage) === undefined) return null;
  const times = id === EVENT_ID.skipped(stage, 1) ? 1 : lastNumber(id);
  if (!(times >= 1 && times <= MOST_SKIPS) || id !== EVENT_ID.skipped(stage, times)) return null;
  return { type: 'stage-skipped', stage, reason };
}

function stagePassed(plan: MachinePlan, id: string, { stage: name, output: given }: Fields): RunEventBody | null {
  const stage = isText(name) ? plan.stages[planIndex(plan).stageById(name) ?? -1] : undefined;
  if (stage === undefined || stage.condition === null) return null;
  const evaluation = id === EVENT_ID.passed(stage.id, 1) ? 1 : lastNumber(id);
  if (!(evaluation >= 1 && evaluation <= MOST_SKIPS) || id !== EVENT_ID.passed(stage.id, evaluation)) return null;
  const output = given === undefined ? undefined : dataRefOf(given);
  if (output === null) return null;
  return { type: 'stage-passed', stage: stage.id, ...(output === undefined ? {} : { output }) };
}

/** Accepts a notice that a VM could not be released, or that a signal or update has no handler. */
function notice(plan: MachinePlan, id: string, { level, message }: Fields): RunEventBody | null {
  if (id.startsWith('run/stray/')) return strayBody(id, level, message);
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

function strayBody(id: string, level: unknown, message: unknown): RunEventBody | null {
  const number = lastNumber(id);
  const isStray = number >= 1 && number <= MOST_STRAYS && id === EVENT_ID.stray(number);
  if (!isStray || level !== 'warning' || typeof message !== 'string' || message.length > STRAY_CHARACTERS) return null;
  return { type: 'notice', level, message };
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
