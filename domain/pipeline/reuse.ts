/**
 * Which stages of a run need not run again, because an earlier run has done the same. Pure: the command line says what it
 * comes to, and admission decides by it.
 *
 * - A stage is given when it succeeded (or was passed over), its plan is the same, everything before it is given, and so is
 *   every other stage of its VM: what a command leaves in a VM is in no output.
 * - A loop runs again as a whole, from its first visit.
 * - It runs again when it is where the run starts from, when its plan differs, when it did not succeed, or when it stands
 *   behind one that runs again.
 * - A stage that was skipped is decided anew: the run machine skips it again, unless what it waits for runs again.
 */
import { edgeState } from './edges.ts';
import type { Plan, ScopePlan, StagePlan, WorkPlan } from '../plan/plan.ts';
import { ownStageOf, ownStages } from '../plan/item-parts.ts';
import { partOf } from '../plan/work.ts';
import type { StageEnd, StageEnds } from '../run/stage-ends.ts';
import { canonicalJson } from '../units/canonical-json.ts';
import { createMapping } from '../units/mapping.ts';

export interface PlannedRun {
  readonly plan: Plan;
  /** JSON of what `--input` brought. */
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
  /** Keys of it that differ between the plans. */
  | { readonly kind: 'differs'; readonly keys: readonly string[] }
  /** Null: it had no end. */
  | { readonly kind: 'ended'; readonly state: StageEnd['state'] | null }
  /** It waits for this stage, which runs again. */
  | { readonly kind: 'after'; readonly stage: string }
  /** It has `finally`: whatever it does follows this run. */
  | { readonly kind: 'finally' }
  /** It shares a VM with this stage, which runs again. */
  | { readonly kind: 'shares-vm'; readonly stage: string }
  /** It is in a loop with this stage, which runs again: what a visit found is in no output. */
  | { readonly kind: 'same-loop'; readonly stage: string };

export interface Reuse {
  /** What stands in place of running, by stage, in the plan's order. */
  readonly given: ReadonlyMap<string, StageEnd>;
  /** The first reason for which each other stage runs, in the plan's order; skipped ones that are decided anew are in neither. */
  readonly again: ReadonlyMap<string, AgainBecause>;
}

/** @param from  a stage of the plan, or null; what ends a part stands for all of it */
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

/** The stages before `from`, near and far, that differ between the plans: outputs of other stages would reach it. */
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
  // Skipped because of what another came to: it follows that one, which runs again if it failed, tolerated or not. Else
  // because the run ended before it.
  const isDecidedAnew =
    end.state === 'skipped' &&
    after.some(({ stage, on }) => edgeState(on, ends.get(stage)?.state ?? 'waiting', false) === 'dead');
  return isDecidedAnew ? null : { kind: 'ended', state: end.state };
}

function isGiven({ state }: StageEnd): boolean {
  return state === 'succeeded' || state === 'passed';
}

/** What waits for a stage that runs again runs again, and so does what shares its VM; nearest first. */
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

/** Keys of a plan that say nothing about what a stage of it comes to. What a later build adds counts for every stage. */
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
 * By stage the keys in which it differs from the one of the same name; none for a stage that the other plan does not have. A stage
 * whose items are parts differs where a stage of these does.
 */
export function findDifferingStages(run: PlannedRun, earlier: PlannedRun): ReadonlyMap<string, readonly string[]> {
  const others = new Map(earlier.plan.stages.map((stage) => [stage.id, stage]));
  const whole = keysThatDiffer(rest(run.plan), rest(earlier.plan));
  const isOtherInput = canonicalJson(run.input) !== canonicalJson(earlier.input);
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

/** Before its admission a plan does not say which code its step machines are: then admission finds out whether it is the same. */
function workKeysThatDiffer(work: WorkPlan, other: WorkPlan): readonly string[] {
  const keys = keysThatDiffer(work, other);
  return work.kind === 'skill' && work.code === undefined ? keys.filter((key) => key !== 'code') : keys;
}

function scopeKeysThatDiffer(scope: ScopePlan | undefined, other: ScopePlan | undefined): readonly string[] {
  if (scope === undefined || other === undefined) return scope === other ? [] : ['scope'];
  const isOtherScope = canonicalJson(scope.stages) !== canonicalJson(other.stages);
  return [
    ...(isOtherScope ? ['stages of its VM'] : []),
    ...keysThatDiffer(scope.sandbox, other.sandbox).map((key) => `sandbox.${key}`),
  ];
}

function keysThatDiffer(one: object, other: object): readonly string[] {
  const fields = new Map(Object.entries(one));
  const otherFields = new Map(Object.entries(other));
  return [...new Set([...fields.keys(), ...otherFields.keys()])].filter(
    (key) => canonicalJson(fields.get(key)) !== canonicalJson(otherFields.get(key)),
  );
}
