/**
 * Which stages of a run need not run again, because an earlier run has done the same work. Pure: the command line shows
 * the result, and admission uses it.
 *
 * - A stage is given if it succeeded (or was passed), its plan is the same, and every stage before it and in its VM is
 *   given. The VM matters because a command may leave files in it that are in no output.
 * - A loop runs again as a whole, from its first visit.
 * - A stage runs again if the run starts from it, its plan differs, it did not succeed, or a stage before it runs
 *   again.
 * - A stage that was skipped is decided again: the run machine skips it again, unless the stage that it waits for runs
 *   again.
 */
import { edgeState } from './edges.ts';
import type { Plan, ScopePlan, StagePlan, WorkPlan } from '../plan/plan.ts';
import { ownStageOf, ownStages } from '../plan/item-parts.ts';
import { partOf } from '../plan/work.ts';
import type { StageEnd, StageEnds } from '../run/stage-ends.ts';
import { toCanonicalJson } from '../units/canonical-json.ts';
import { createMapping } from '../units/mapping.ts';

export interface PlannedRun {
  readonly plan: Plan;
  /** The JSON value of `--input`. */
  readonly input: unknown;
}

export interface EarlierRun extends PlannedRun {
  readonly ends: StageEnds;
}

export type AgainBecause =
  /** The run starts from it. */
  | { readonly kind: 'from' }
  /** The earlier plan does not have it. */
  | { readonly kind: 'new' }
  /** The keys in which the plans of the stage differ. */
  | { readonly kind: 'differs'; readonly keys: readonly string[] }
  /** Null: it did not end. */
  | { readonly kind: 'ended'; readonly state: StageEnd['state'] | null }
  /** It waits for this stage, which runs again. */
  | { readonly kind: 'after'; readonly stage: string }
  /** It has `finally`, so it runs after every run. */
  | { readonly kind: 'finally' }
  /** It shares a VM with this stage, which runs again. */
  | { readonly kind: 'shares-vm'; readonly stage: string }
  /** It is in a loop with this stage, which runs again: no output contains the data that a visit found. */
  | { readonly kind: 'same-loop'; readonly stage: string };

export interface Reuse {
  /** The ends in the earlier run that replace running, by stage, in the plan's order. */
  readonly given: ReadonlyMap<string, StageEnd>;
  /**
   * The first reason why each other stage runs, in the plan's order. Skipped stages that are decided again are in
   * neither map.
   */
  readonly again: ReadonlyMap<string, AgainBecause>;
}

/** @param from  a stage of the plan, or null; the stage that ends a part includes all stages of the part */
export function reuseOf(run: PlannedRun, earlier: EarlierRun, from: string | null): Reuse {
  const stages = ownStages(run.plan);
  const differing = findDifferingStages(run, earlier);
  const again = new Map<string, AgainBecause>();
  const first = findStartStages(run.plan, from);
  for (const { id, after, finally: isLast } of stages) {
    const because =
      isLast === true ? ({ kind: 'finally' } as const) : ownReason(id, after, { differing, ends: earlier.ends, first });
    if (because !== null) again.set(id, because);
  }
  spread({ scopes: run.plan.scopes, stages }, again);
  const inOrder = stages.flatMap(({ id }) => (again.has(id) ? [[id, again.get(id)!] as const] : []));
  const given = stages.flatMap(({ id }) => {
    const end = again.has(id) ? undefined : earlier.ends.get(id);
    return end !== undefined && isGiven(end) ? [[id, end] as const] : [];
  });
  return { given: new Map(given), again: new Map(inOrder) };
}

/**
 * The stages before `from`, near and far, that differ between the plans. With `from`, outputs of other stages would
 * reach it.
 */
export function findDifferingBefore(
  run: PlannedRun,
  earlier: PlannedRun,
  from: string,
): ReadonlyMap<string, readonly string[]> {
  const differing = findDifferingStages(run, earlier);
  const stages = new Map(ownStages(run.plan).map((stage) => [stage.id, stage]));
  const before = new Set<string>();
  const first = findStartStages(run.plan, from);
  const queue = [...first];
  for (const id of queue) {
    for (const { stage } of stages.get(id)?.after ?? []) {
      if (before.has(stage) || first.has(stage)) continue;
      before.add(stage);
      queue.push(stage);
    }
  }
  return new Map([...differing].filter(([id]) => before.has(id)));
}

interface ReuseFacts {
  readonly differing: ReadonlyMap<string, readonly string[]>;
  readonly ends: StageEnds;
  readonly first: ReadonlySet<string>;
}

function findStartStages({ stages }: Plan, from: string | null): ReadonlySet<string> {
  const stage = stages.find(({ id }) => id === from);
  return new Set(stage === undefined ? [] : [stage.id, ...(partOf(stage.work)?.stages ?? [])]);
}

function ownReason(id: string, after: StagePlan['after'], { differing, ends, first }: ReuseFacts): AgainBecause | null {
  if (first.has(id)) return { kind: 'from' };
  const keys = differing.get(id);
  if (keys !== undefined) return keys.length === 0 ? { kind: 'new' } : { kind: 'differs', keys };
  const end = ends.get(id);
  if (end === undefined) return { kind: 'ended', state: null };
  if (isGiven(end)) return null;
  // A dead edge skipped it: it follows the other stage, which runs again if it failed, even if that was tolerated.
  // Without a dead edge, the run ended before it.
  const isDecidedAnew =
    end.state === 'skipped' &&
    after.some(({ stage, on }) => edgeState(on, ends.get(stage)?.state ?? 'waiting', false) === 'dead');
  return isDecidedAnew ? null : { kind: 'ended', state: end.state };
}

function isGiven({ state }: StageEnd): boolean {
  return state === 'succeeded' || state === 'passed';
}

/** Adds the stages that wait for a stage that runs again, and the stages that share its VM or loop; nearest first. */
function spread(plan: Pick<Plan, 'stages' | 'scopes'>, again: Map<string, AgainBecause>): void {
  const behind = new Map<string, string[]>(plan.stages.map(({ id }) => [id, []]));
  for (const { id, after } of plan.stages) for (const { stage } of after) behind.get(stage)?.push(id);
  const mates = new Map(plan.scopes.flatMap(({ stages }) => stages.map((id) => [id, stages] as const)));
  const loops = plan.stages.flatMap(({ id, loop, work }) =>
    loop === undefined ? [] : [[id, ...(partOf(work)?.stages ?? [])]],
  );
  const queue = [...again.keys()];
  const add = (id: string, because: AgainBecause): void => {
    if (again.has(id)) return;
    again.set(id, because);
    queue.push(id);
  };
  for (const stage of queue) {
    for (const id of mates.get(stage) ?? []) add(id, { kind: 'shares-vm', stage });
    for (const loop of loops) if (loop.includes(stage)) for (const id of loop) add(id, { kind: 'same-loop', stage });
    for (const id of behind.get(stage) ?? []) add(id, { kind: 'after', stage });
  }
}

/** Keys of a plan that do not change the result of a stage. A key that a later build adds counts for every stage. */
const OF_THE_WHOLE: ReadonlySet<string> = new Set([
  'version',
  'kind',
  'name',
  'stages',
  'scopes',
  'output',
  'maxParallel',
  'timeoutMs',
  'graceMs',
  'hostVariables',
]);

/**
 * Returns the keys in which each stage differs from the stage of the same name. The list is empty for a stage that the
 * other plan does not have. A stage whose items are parts differs if a stage of the items differs.
 */
export function findDifferingStages(run: PlannedRun, earlier: PlannedRun): ReadonlyMap<string, readonly string[]> {
  const others = new Map(earlier.plan.stages.map((stage) => [stage.id, stage]));
  const whole = keysThatDiffer(rest(run.plan), rest(earlier.plan));
  const isOtherInput = toCanonicalJson(run.input) !== toCanonicalJson(earlier.input);
  const scopes = scopesByStage(run.plan);
  const otherScopes = scopesByStage(earlier.plan);
  const ownerOf = ownStageOf(run.plan);
  const differing = new Map<string, readonly string[]>();
  for (const stage of run.plan.stages) {
    const other = others.get(stage.id);
    const keys =
      other === undefined
        ? []
        : [
            ...whole,
            ...stageKeysThatDiffer(stage, other),
            ...scopeKeysThatDiffer(scopes.get(stage.id), otherScopes.get(stage.id)),
            ...(isOtherInput && stage.input.kind === 'run-input' && stage.of === undefined ? ['--input'] : []),
          ];
    if (other !== undefined && keys.length === 0) continue;
    const owner = ownerOf(stage.id);
    const within = stage.id === owner ? keys : [`stage ${stage.id}`];
    differing.set(owner, [...new Set([...(differing.get(owner) ?? []), ...within])]);
  }
  return differing;
}

function scopesByStage(plan: Plan): ReadonlyMap<string, ScopePlan> {
  return new Map(plan.scopes.flatMap((scope) => scope.stages.map((stage) => [stage, scope] as const)));
}

function rest(plan: Plan): object {
  return createMapping(Object.entries(plan).filter(([key]) => !OF_THE_WHOLE.has(key)));
}

function stageKeysThatDiffer(stage: StagePlan, other: StagePlan): readonly string[] {
  const { work, ...fields } = stage;
  const { work: otherWork, ...otherFields } = other;
  return [...workKeysThatDiffer(work, otherWork), ...keysThatDiffer(fields, otherFields)];
}

/** Before its admission, a plan does not contain the code of its step machines. Admission compares the code later. */
function workKeysThatDiffer(work: WorkPlan, other: WorkPlan): readonly string[] {
  const keys = keysThatDiffer(work, other);
  return work.kind === 'skill' && work.code === undefined ? keys.filter((key) => key !== 'code') : keys;
}

function scopeKeysThatDiffer(scope: ScopePlan | undefined, other: ScopePlan | undefined): readonly string[] {
  if (scope === undefined || other === undefined) return scope === other ? [] : ['scope'];
  const isOtherScope = toCanonicalJson(scope.stages) !== toCanonicalJson(other.stages);
  return [
    ...(isOtherScope ? ['stages of its VM'] : []),
    ...keysThatDiffer(scope.sandbox, other.sandbox).map((key) => `sandbox.${key}`),
  ];
}

function keysThatDiffer(one: object, other: object): readonly string[] {
  const fields = new Map(Object.entries(one));
  const otherFields = new Map(Object.entries(other));
  return [...new Set([...fields.keys(), ...otherFields.keys()])].filter(
    (key) => toCanonicalJson(fields.get(key)) !== toCanonicalJson(otherFields.get(key)),
  );
}
