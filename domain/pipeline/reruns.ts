/** Stages that run again although they have ended: stages of a shared VM that was lost, and stages of a loop. */
import { EVENT_ID } from '../run/event-id.ts';
import { clip } from './carried-text.ts';
import type { Draft } from './draft.ts';
import { readEdge } from './edge-states.ts';
import { failWithoutResult, settle } from './ends.ts';
import type { HeldAttempt } from '../run/vm-lease.ts';
import { isEnd } from './state.ts';

interface Restart {
  /** The id of the event. */
  readonly id: string;
  readonly reason: string;
  /** The attempts whose work the next VM holds. Absent: its disk is empty. */
  readonly holds?: readonly HeldAttempt[];
}

/** @param generation  of the lost VM */
export function restartId(draft: Draft, scope: number, generation: number): string {
  return EVENT_ID.scopeRestarted(draft.plan.scopes[scope]!.id, generation);
}

/** Runs the given stages of a scope again whose work is not on the disk of its first VM. */
export function runUnheldAgain(draft: Draft, scope: number, generation: number, holds: readonly HeldAttempt[]): void {
  const held = new Set(holds.flatMap(({ stage, attempt }) => (attempt === 0 ? [stage] : [])));
  const areHeld = draft.index.stagesOf(scope).every((stage) => {
    const isNeeded = draft.isGiven(stage) && draft.stage(stage).phase === 'succeeded';
    return !isNeeded || held.has(draft.plan.stages[stage]!.id);
  });
  if (areHeld || draft.scope(scope).open === 0) return;
  const id = EVENT_ID.scopeBegunAgain(draft.plan.scopes[scope]!.id, generation);
  restartScope(draft, scope, { id, reason: 'its VM does not hold the work of the earlier run', holds });
}

/**
 * Runs the finished stages of a shared scope again, because their VM is gone. A stage that an edge from them has
 * started stays as it is. Stages that wait for them wait again, and so do stages that were skipped because they did not
 * fail. Failed stages stay failed. The event names all stages that run again, also those that the loss interrupted.
 */
export function restartScope(draft: Draft, scope: number, { id, reason, holds }: Restart): void {
  const held = new Set(holds?.map(({ stage, attempt }) => `${stage}/${attempt}`));
  const isHeld = (stage: number): boolean => held.has(`${draft.plan.stages[stage]!.id}/${draft.stage(stage).attempt}`);
  // Stages that have begun: ended in the VM, interrupted by its loss, or between two attempts. A passed stage is
  // decided again: stages that wait for it also need the files of the stages before it, which are gone.
  const again = draft.index.stagesOf(scope).filter((stage) => {
    const { phase, attempt } = draft.stage(stage);
    if (phase === 'passed') return mayBeDecidedAgain(draft, scope, stage) && held.size === 0;
    if (phase === 'succeeded' && !isHeld(stage)) return attempt > 0 || draft.index.isSavedEachStep(scope);
    return attempt > 0 && !isEnd(phase);
  });
  if (held.size > 0) again.push(...findPassedAfter(draft, scope, again));
  const ended = again.filter((stage) => isEnd(draft.stage(stage).phase));
  const revived: number[] = [];
  for (const stage of ended) reopen(draft, stage, revived);
  const kept = draft.index.stagesOf(scope).filter((stage) => isEnd(draft.stage(stage).phase) && isHeld(stage));
  const idOf = (stage: number): string => draft.plan.stages[stage]!.id;
  draft.events.push({
    id,
    body: {
      type: 'scope-restarted',
      scope: draft.plan.scopes[scope]!.id,
      reason: clip(reason),
      stages: [...again, ...revived].map(idOf),
      ...(holds === undefined ? {} : { attempts: [...again, ...revived].map((stage) => draft.stage(stage).attempt) }),
      ...(kept.length === 0 ? {} : { kept: kept.map(idOf) }),
    },
  });
  for (const stage of [...draft.index.stagesOf(scope), ...revived]) settle(draft, stage);
}

/** Its condition was decided in this run, or in the earlier run that gave the files of its scope. */
function mayBeDecidedAgain(draft: Draft, scope: number, stage: number): boolean {
  return draft.stage(stage).evaluations > 0 || (draft.isGiven(stage) && draft.index.isSavedEachStep(scope));
}

/**
 * Finds the passed stages that are decided again, because a stage before them runs again. The files of all other stages
 * before a passed stage are on the disk of the VM.
 */
function findPassedAfter(draft: Draft, scope: number, again: readonly number[]): readonly number[] {
  const open = new Set(again);
  const passed = draft.index
    .stagesOf(scope)
    .filter((stage) => draft.stage(stage).phase === 'passed' && mayBeDecidedAgain(draft, scope, stage));
  // A passed stage may come after another one, in any order of the plan.
  for (let before = -1; before !== open.size;) {
    before = open.size;
    for (const stage of passed)
      if (draft.index.edgesBefore(stage).some((edge) => open.has(edge.stage))) open.add(stage);
  }
  return passed.filter((stage) => open.has(stage));
}

/** Starts the next visit of a loop whose condition does not hold, or ends the loop at its limit. */
export function visitAgain(draft: Draft, stage: number): void {
  const { id, loop } = draft.plan.stages[stage]!;
  const { stages, output, maxVisits, onLimit } = loop!;
  const visits = draft.stage(stage).visits + 1;
  draft.setStage(stage, { visits });
  if (visits >= maxVisits && onLimit === 'pass') {
    draft.setStage(stage, { decided: true });
    return settle(draft, stage);
  }
  if (visits >= maxVisits) {
    const message = `the condition (\`until\`) of loop ${id} did not hold after ${visits} visit${visits === 1 ? '' : 's'}`;
    const failure = { code: 'loop/limit', message, stderrTail: '' } as const;
    return failWithoutResult(draft, stage, failure, draft.stage(stage).attempt + 1);
  }
  draft.setStage(stage, { result: draft.stage(draft.stageIndex(output)).result });
  draft.events.push({
    id: EVENT_ID.visited(id, draft.stage(stage).evaluations),
    body: { type: 'loop-visited', stage: id, visit: visits + 1, stages },
  });
  const within = stages.map((name) => draft.stageIndex(name));
  for (const each of within) {
    // A skipped stage may have been reopened already, with the stage that it waits for.
    if (isEnd(draft.stage(each).phase)) reopen(draft, each, []);
    draft.setStage(each, { failures: 0, decided: false, visits: 0 });
    const scope = draft.index.scopeOf(each);
    if (scope !== null) draft.setScope(scope, { lost: 0 });
  }
  for (const each of within) settle(draft, each);
}

/** @param revived  collects the skipped stages that may now be needed */
function reopen(draft: Draft, stage: number, revived: number[]): void {
  const after = draft.index.edgesAfter(stage).map((edge) => ({ ...edge, was: readEdge(draft, edge.on, stage) }));
  draft.reopen(stage);
  for (const edge of after) {
    const state = draft.stage(edge.stage);
    if (edge.was === 'holds') {
      draft.setStage(edge.stage, { waitingOn: state.waitingOn + 1 });
      if (state.phase !== 'ready' && state.phase !== 'deciding') continue;
      if (state.phase === 'ready') draft.unready(edge.stage);
      // A stage that has not begun is decided by the new results.
      draft.setStage(edge.stage, { phase: 'waiting', decided: state.decided && state.attempt > 0 });
    } else if (mayRevive(draft, edge.stage)) {
      revived.push(edge.stage);
      reopen(draft, edge.stage, revived);
    }
  }
}

/**
 * A skipped stage can run again only if its VM exists. A released shared VM does not come back for one stage, because
 * the files of the other stages are gone.
 */
function mayRevive(draft: Draft, stage: number): boolean {
  const { phase, skipCause } = draft.stage(stage);
  if (phase !== 'skipped' || skipCause !== 'unneeded') return false;
  const scope = draft.index.scopeOf(stage);
  return (
    scope === null ||
    !draft.index.isShared(scope) ||
    draft.scope(scope).open > 0 ||
    draft.scope(scope).generation === draft.scope(scope).lost
  );
}
