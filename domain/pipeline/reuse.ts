/**
 * Which stages of a run need not run again, because an earlier run has done the same work. Pure: the command line shows
 * the result, and admission uses it.
 *
 * - A stage is given if it succeeded (or was passed), its plan is the same, and every stage before it and in its VM is
 *   given. The VM matters because a command may leave files in it that are in no output.
 * - If the VM was saved after each step, the stages are given whose work a checkpoint holds, if all work on its disk is
 *   of given stages. The other stages of the VM run again. Without such a checkpoint, all of them run again.
 * - A loop runs again as a whole, from its first visit.
 * - A stage runs again if the run starts from it, its plan differs, it did not succeed, or a stage before it runs
 *   again.
 * - A stage that was skipped is decided again: the run machine skips it again, unless the stage that it waits for runs
 *   again.
 */
import { edgeState } from './edges.ts';
import type { Plan, ScopePlan, StagePlan, WorkPlan } from '../plan/plan.ts';
import { ownStageOf, ownStages } from '../plan/item-parts.ts';
import { nameUploads, type UploadHashes } from '../plan/name-uploads.ts';
import { isSavedEachStep } from '../plan/scope.ts';
import { approvalOf, partOf } from '../plan/work.ts';
import type { StageEnd, StageEnds } from '../run/stage-ends.ts';
import type { StepCheckpoint } from '../run/step-checkpoint.ts';
import { toCanonicalJson } from '../units/canonical-json.ts';
import { createMapping } from '../units/mapping.ts';

export interface PlannedRun {
  readonly plan: Plan;
  /** The JSON value of `--input`. */
  readonly input: unknown;
  /** The uploads that its plan names by their folders. Absent: none. */
  readonly uploads?: UploadHashes;
}

export interface EarlierRun extends PlannedRun {
  readonly ends: StageEnds;
  /**
   * The checkpoints of the VMs that were saved after each step, by scope of the earlier plan. Absent: no VM can begin
   * with one, and no reason is reported.
   */
  readonly saved?: ReadonlyMap<string, SavedVm>;
}

/** The checkpoints of a VM of the earlier run. */
export interface SavedVm {
  /** The newest first. */
  readonly checkpoints: readonly SavedDisk[];
  /** Why there is no other checkpoint. */
  readonly problem: string;
}

export type SavedDisk = Pick<StepCheckpoint, 'number' | 'after' | 'holds'>;

/** The checkpoint with which the VM of a scope begins. */
export interface FirstDisk {
  /** The scope in the earlier plan. */
  readonly scope: string;
  readonly checkpoint: SavedDisk;
  /** Checkpoints before it from which a VM of this plan could begin too, the newest first: a later run may need them. */
  readonly older: readonly SavedDisk[];
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
  /** It has, or contains, an approval with `self_approval: false`: another token may have started the earlier run. */
  | { readonly kind: 'proven-answer' }
  /** It shares a VM with this stage, which runs again. `unsaved`: why no checkpoint of the VM is used. */
  | { readonly kind: 'shares-vm'; readonly stage: string; readonly unsaved?: string }
  /** Its VM begins with the checkpoint after this stage, which does not hold its work. */
  | { readonly kind: 'not-saved'; readonly stage: string }
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
  /**
   * The checkpoints with which VMs begin, by scope of the plan. The disk of each holds the work of exactly the given
   * stages of its scope.
   */
  readonly firstDisks: ReadonlyMap<string, FirstDisk>;
}

/** @param from  a stage of the plan, or null; the stage that ends a part includes all stages of the part */
export function reuseOf(run: PlannedRun, earlier: EarlierRun, from: string | null): Reuse {
  const stages = ownStages(run.plan);
  const differing = findDifferingStages(run, earlier);
  const again = new Map<string, AgainBecause>();
  const first = findStartStages(run.plan, from);
  const proven = findProvenStages(run.plan);
  for (const { id, after, finally: isLast } of stages) {
    const because =
      isLast === true
        ? ({ kind: 'finally' } as const)
        : ownReason(id, after, { differing, ends: earlier.ends, first, proven });
    if (because !== null) again.set(id, because);
  }
  const firstDisks = spreadThroughVms(run.plan, stages, earlier, again);
  const inOrder = stages.flatMap(({ id }) => (again.has(id) ? [[id, again.get(id)!] as const] : []));
  const given = stages.flatMap(({ id }) => {
    const end = again.has(id) ? undefined : earlier.ends.get(id);
    return end !== undefined && isGiven(end) ? [[id, end] as const] : [];
  });
  return { given: new Map(given), again: new Map(inOrder), firstDisks };
}

/** A scope of which some stages may be given while others run. */
interface SavedScope {
  readonly id: string;
  readonly stages: readonly string[];
  readonly earlier: string;
}

/**
 * Adds the stages that run again because of others. The choice of a checkpoint makes those stages run again that it
 * does not hold. These may make the work of another checkpoint invalid, so the choices are made until none changes.
 */
function spreadThroughVms(
  plan: Plan,
  stages: readonly StagePlan[],
  earlier: EarlierRun,
  again: Map<string, AgainBecause>,
): ReadonlyMap<string, FirstDisk> {
  const saved = new Map(findSavedScopes(plan, stages, earlier).map((scope) => [scope.id, scope]));
  const unsaved = new Map<string, string>();
  for (;;) {
    spread({ scopes: plan.scopes.filter(({ id }) => !saved.has(id)), stages }, again, unsaved);
    const firstDisks = new Map<string, FirstDisk>();
    let isSettled = true;
    for (const scope of saved.values()) {
      if (!scope.stages.some((id) => again.has(id))) continue;
      const [checkpoint, ...older] = listUsable(scope, earlier, again);
      if (checkpoint === undefined) {
        saved.delete(scope.id);
        unsaved.set(scope.id, explainUnsaved(scope, earlier));
        isSettled = false;
        continue;
      }
      firstDisks.set(scope.id, { scope: scope.earlier, checkpoint, older });
      const held = new Set(checkpoint.holds.map(({ stage }) => stage));
      for (const id of scope.stages) {
        if (again.has(id) || held.has(id) || earlier.ends.get(id)?.state !== 'succeeded') continue;
        again.set(id, { kind: 'not-saved', stage: checkpoint.after });
        isSettled = false;
      }
    }
    if (isSettled) return firstDisks;
  }
}

/** Items have VMs of their own, and their results can only be given together. */
function findSavedScopes(
  { scopes }: Plan,
  stages: readonly StagePlan[],
  { plan, saved }: EarlierRun,
): readonly SavedScope[] {
  if (saved === undefined) return [];
  const own = new Set(stages.map(({ id }) => id));
  const others = scopesByStage(plan);
  return scopes.flatMap((scope) => {
    if (!isSavedEachStep(scope) || !scope.stages.every((id) => own.has(id))) return [];
    const earlier = scope.stages.map((id) => others.get(id)).find((other) => other !== undefined);
    return earlier === undefined || !isSavedEachStep(earlier)
      ? []
      : [{ id: scope.id, stages: scope.stages, earlier: earlier.id }];
  });
}

/** Returns the checkpoints whose disks hold only work that is given, the newest first. */
function listUsable(
  scope: SavedScope,
  { ends, saved }: EarlierRun,
  again: ReadonlyMap<string, AgainBecause>,
): readonly SavedDisk[] {
  const { checkpoints = [] } = saved?.get(scope.earlier) ?? {};
  return checkpoints.filter(({ holds }) => {
    // The last attempt of a stage counts: the work of failed attempts before it was on the disk when it succeeded.
    const last = new Map(holds.map(({ stage, attempt }) => [stage, attempt]));
    return [...last].every(([stage, attempt]) => {
      const end = ends.get(stage);
      const isSame = end?.state === 'succeeded' && end.attempt === attempt;
      return isSame && scope.stages.includes(stage) && !again.has(stage);
    });
  });
}

function explainUnsaved({ earlier }: SavedScope, { saved }: EarlierRun): string {
  const { checkpoints = [], problem = 'it was not saved' } = saved?.get(earlier) ?? {};
  return checkpoints.length === 0 ? problem : 'each of its checkpoints holds work that is done again';
}

/**
 * Returns the given stages that run in no case. A stage of a VM that begins with a checkpoint runs again if no VM starts
 * from it.
 */
export function listSettled(
  { scopes }: Pick<Plan, 'scopes'>,
  {
    given,
    firstDisks,
  }: { readonly given: Pick<ReadonlySet<string>, 'keys'>; readonly firstDisks: Pick<ReadonlySet<string>, 'has'> },
): ReadonlySet<string> {
  const open = new Set(scopes.flatMap(({ id, stages }) => (firstDisks.has(id) ? stages : [])));
  return new Set([...given.keys()].filter((id) => !open.has(id)));
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
  /** The stages whose answers need a proof. */
  readonly proven: ReadonlySet<string>;
}

/** The own stages that are an approval with `self_approval: false`, or have one for each item. */
function findProvenStages(plan: Plan): ReadonlySet<string> {
  const ownerOf = ownStageOf(plan);
  return new Set(
    plan.stages.flatMap(({ id, work }) => (approvalOf(work)?.selfApproval === false ? [ownerOf(id)] : [])),
  );
}

function findStartStages({ stages }: Plan, from: string | null): ReadonlySet<string> {
  const stage = stages.find(({ id }) => id === from);
  return new Set(stage === undefined ? [] : [stage.id, ...(partOf(stage.work)?.stages ?? [])]);
}

function ownReason(
  id: string,
  after: StagePlan['after'],
  { differing, ends, first, proven }: ReuseFacts,
): AgainBecause | null {
  if (first.has(id)) return { kind: 'from' };
  const keys = differing.get(id);
  if (keys !== undefined) return keys.length === 0 ? { kind: 'new' } : { kind: 'differs', keys };
  const end = ends.get(id);
  if (end === undefined) return { kind: 'ended', state: null };
  if (isGiven(end)) return proven.has(id) ? { kind: 'proven-answer' } : null;
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
function spread(
  plan: Pick<Plan, 'stages' | 'scopes'>,
  again: Map<string, AgainBecause>,
  unsaved: ReadonlyMap<string, string>,
): void {
  const behind = new Map<string, string[]>(plan.stages.map(({ id }) => [id, []]));
  for (const { id, after } of plan.stages) for (const { stage } of after) behind.get(stage)?.push(id);
  const scopes = new Map(plan.scopes.flatMap((scope) => scope.stages.map((id) => [id, scope] as const)));
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
    const scope = scopes.get(stage);
    const why = unsaved.get(scope?.id ?? '');
    for (const id of scope?.stages ?? [])
      add(id, { kind: 'shares-vm', stage, ...(why === undefined ? {} : { unsaved: why }) });
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
export function findDifferingStages(first: PlannedRun, second: PlannedRun): ReadonlyMap<string, readonly string[]> {
  // A retry names the folders of the run that it repeats.
  const run = { ...first, plan: nameUploads(first.plan, { ...second.uploads, ...first.uploads }) };
  const earlier = { ...second, plan: nameUploads(second.plan, second.uploads ?? {}) };
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
  // A checkpoint holds the work of stages that are in both plans. Without one, a new stage makes its VM start again.
  const isOtherScope =
    isSavedEachStep(scope) && isSavedEachStep(other)
      ? other.stages.some((id) => !scope.stages.includes(id))
      : toCanonicalJson(scope.stages) !== toCanonicalJson(other.stages);
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
