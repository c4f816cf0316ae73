/**
 * What a call names: a stage or a scope, where it is done, and an attempt of it. What the run's plan does not have is refused; all
 * throw CodedError `call/refused`.
 */
import { lastAttempt } from '../../domain/pipeline/reach.ts';
import { stageAt } from '../../domain/pipeline/item-plan.ts';
import { stageOfPlan } from '../../domain/plan/item-parts.ts';
import type { StagePlan } from '../../domain/plan/plan.ts';
import { attemptText } from '../../domain/run/attempt.ts';
import { type InstancePath, readInstance } from '../../domain/run/instance.ts';
import { type AdmittedRun } from '../admission/admitted-run.ts';
import { type Fields, createRefusal } from './values.ts';
import type { AdmittedScope } from './requests.ts';
import { quote } from '../../domain/units/quote.ts';

/** The stage that a call names. */
export function stageIn(run: AdmittedRun, call: Fields): StagePlan {
  return stageOf(run, idIn(run, call, 'stage'));
}

/** The scope that a call names. */
export function scopeIn(run: AdmittedRun, call: Fields): AdmittedScope {
  return scopeOf(run, idIn(run, call, 'scope'));
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

export function idIn(run: AdmittedRun, call: Fields, what: 'stage' | 'scope'): string {
  const id = call[what];
  if (typeof id === 'string') return id;
  throw createRefusal(run, `the call names no ${what}`);
}

/** True for a call that names an item, whatever that is. */
export function isOfItem({ instance }: Fields): boolean {
  return Array.isArray(instance) && instance.length > 0;
}

/** Where the stage is done that a call names: of stages of items the item, of any other stage the run itself. */
export function instanceIn(run: AdmittedRun, stage: StagePlan, call: Fields): InstancePath {
  const path = pathIn(run, stage, call);
  // What is done for each item is not done for the list.
  if (stageAt(run.machine, stage.id, path)?.each === undefined) return path;
  throw createRefusal(run, `stage ${stage.id} has no instance ${quote(call['instance'])}`);
}

/** As `pathIn`; a call that names no instance is of the run itself, unless the stage is one of items. */
export function optionalPathIn(run: AdmittedRun, stage: StagePlan, call: Fields): InstancePath {
  return stage.of === undefined && !isOfItem(call) ? [] : pathIn(run, stage, call);
}

/** Where the stage stands that a call names, also one with items. */
export function pathIn(run: AdmittedRun, { id }: StagePlan, { instance }: Fields): InstancePath {
  if (instance === undefined) throw createRefusal(run, `the call for stage ${id} names no instance`);
  const path = readInstance(instance);
  if (path !== null && stageAt(run.machine, id, path) !== null) return path;
  throw createRefusal(run, `stage ${id} has no instance ${quote(instance)}`);
}

/** The attempt that a call names: from 1 to `last`. */
export function attemptIn(
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

/** Empty for an attempt that is none. */
export function keyOf(stage: string, instance: InstancePath, attempt: number): string {
  return Number.isSafeInteger(attempt) && attempt > 0 ? attemptText({ stage, instance, attempt }) : '';
}
