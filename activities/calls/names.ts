/**
 * Reads the names in a call: a stage or a scope, its instance, and an attempt. Names that the run's plan does not
 * contain are refused. All functions throw CodedError `call/refused`.
 */
import { lastAttempt } from '../../domain/pipeline/reach.ts';
import { stageAt } from '../../domain/pipeline/item-plan.ts';
import { stageOfPlan } from '../../domain/plan/item-parts.ts';
import type { StagePlan } from '../../domain/plan/plan.ts';
import { formatAttempt } from '../../domain/run/attempt.ts';
import { type InstancePath, readInstance } from '../../domain/run/instance.ts';
import { type AdmittedRun } from '../admission/admitted-run.ts';
import { type Fields, createRefusal } from './values.ts';
import type { AdmittedScope } from './requests.ts';
import { quote } from '../../domain/units/quote.ts';

/** Returns the stage that a call names. */
export function readStage(run: AdmittedRun, call: Fields): StagePlan {
  return stageOf(run, readId(run, call, 'stage'));
}

/** Returns the scope that a call names. */
export function readScope(run: AdmittedRun, call: Fields): AdmittedScope {
  return scopeOf(run, readId(run, call, 'scope'));
}

export function stageOf(run: AdmittedRun, id: string): StagePlan {
  const stage = stageOfPlan(run.plan, id);
  if (stage === undefined) throw createRefusal(run, `its plan has no stage ${quote(id)}`);
  return stage;
}

export function scopeOf(run: AdmittedRun, id: string): AdmittedScope {
  const scope = run.scopes.find((each) => each.id === id);
  if (scope === undefined) throw createRefusal(run, `its plan has no scope ${quote(id)}`);
  return scope;
}

export function readId(run: AdmittedRun, call: Fields, what: 'stage' | 'scope'): string {
  const id = call[what];
  if (typeof id === 'string') return id;
  throw createRefusal(run, `the call names no ${what}`);
}

/** Returns true for a call that names an item, valid or not. */
export function isOfItem({ instance }: Fields): boolean {
  return Array.isArray(instance) && instance.length > 0;
}

/**
 * Returns the instance of the stage that a call names: the item for stages of items, the run itself for other stages.
 */
export function instanceIn(run: AdmittedRun, stage: StagePlan, call: Fields): InstancePath {
  const path = readPath(run, stage, call);
  // The work of each item does not run for the list itself.
  if (stageAt(run.machine, stage.id, path)?.each === undefined) return path;
  throw createRefusal(run, `stage ${stage.id} has no instance ${quote(call['instance'])}`);
}

/**
 * Does the same as `pathIn`. A call without an instance belongs to the run itself, unless the stage is a stage of
 * items.
 */
export function readOptionalPath(run: AdmittedRun, stage: StagePlan, call: Fields): InstancePath {
  return stage.of === undefined && !isOfItem(call) ? [] : readPath(run, stage, call);
}

/** Returns the instance of the stage that a call names, also for a stage with items. */
export function readPath(run: AdmittedRun, { id }: StagePlan, { instance }: Fields): InstancePath {
  if (instance === undefined) throw createRefusal(run, `the call for stage ${id} names no instance`);
  const path = readInstance(instance);
  if (path !== null && stageAt(run.machine, id, path) !== null) return path;
  throw createRefusal(run, `stage ${id} has no instance ${quote(instance)}`);
}

/** Returns the attempt that a call names, from 1 to `last`. */
export function readAttempt(
  run: AdmittedRun,
  { id, retry, visits }: StagePlan,
  { attempt }: Fields,
  last = lastAttempt({ retry, visits }),
): number {
  if (isAttempt(attempt, last)) return attempt;
  throw createRefusal(run, `stage ${id} has no attempt ${quote(attempt)}`);
}

export function isAttempt(value: unknown, last: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) <= last;
}

/** Returns an empty text for an invalid attempt. */
export function keyOf(stage: string, instance: InstancePath, attempt: number): string {
  return Number.isSafeInteger(attempt) && attempt > 0 ? formatAttempt({ stage, instance, attempt }) : '';
}
