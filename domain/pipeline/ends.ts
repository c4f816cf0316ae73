/**
 * How a stage ends, and the effect on stages that wait for it: they start, are skipped, or continue to wait. The end of
 * one stage can end others, so all of this is in one file.
 */
import type { DataRef } from '../plan/plan.ts';
import { isWorthRetrying, retryPauseMs } from '../plan/retry.ts';
import { EVENT_ID } from '../run/event-id.ts';
import type { StageFailure } from '../run/stage-result.ts';
import { clip, clipFailure } from './carried-text.ts';
import type { Draft } from './draft.ts';
import {
  countFailures,
  findDeadEdge,
  findSkipCause,
  isOneOfSeveral,
  mayStillHold,
  readEdge,
  readPart,
} from './edge-states.ts';
import { explainDeadEdge } from './edges.ts';
import type { Edge } from './plan-index.ts';
import { execKeyOf, timerId } from './stage-keys.ts';
import { evaluateCondition, startStage } from './starts.ts';
import { type GivenStage, isEnd, NO_OUTPUTS, type SkipCause, type StageOutputs } from './state.ts';

export function succeed(draft: Draft, stage: number, result: StageOutputs): void {
  draft.end(stage, { phase: 'succeeded', result });
  follow(draft, stage);
}

/** Ends all given stages before a waiting stage learns of one, so that no stage starts too early. */
export function give(draft: Draft, ends: readonly (readonly [stage: number, end: GivenStage])[]): void {
  for (const [stage, { output, outputs, passed }] of ends)
    draft.end(stage, { phase: passed === true ? 'passed' : 'succeeded', result: { output, outputs } });
  for (const [stage] of ends) follow(draft, stage);
}

/**
 * Ends a stage whose own condition did not hold; stages that wait for its success start. `output` replaces its own
 * output for stages that carry it on.
 */
export function pass(draft: Draft, stage: number, output: DataRef | null = null): void {
  draft.end(stage, { phase: 'passed', result: { ...NO_OUTPUTS, output } });
  follow(draft, stage);
}

/** Passes a stage and records that, because no activity of the stage does. */
export function passUndone(draft: Draft, stage: number, output: DataRef | null): void {
  const { id } = draft.plan.stages[stage]!;
  const { evaluations } = draft.stage(stage);
  draft.events.push({
    id: EVENT_ID.passed(id, evaluations),
    body: { type: 'stage-passed', stage: id, ...(output === null ? {} : { output }) },
  });
  pass(draft, stage, output);
}

/** @param result  the result of a service; no other stage has a result when it is cancelled */
export function cancel(draft: Draft, stage: number, result: StageOutputs = NO_OUTPUTS): void {
  draft.end(stage, { phase: 'cancelled', ...(result.output === null ? {} : { result }) });
  follow(draft, stage);
}

/** @param isTolerated  whether the run may still succeed; in a tolerated part, the part decides */
export function fail(
  draft: Draft,
  stage: number,
  failure: StageFailure,
  isTolerated: boolean = draft.isTolerated(stage),
): void {
  if (!isTolerated && draft.index.coverOf(stage) === null) draft.noteFailure(stage, failure);
  draft.end(stage, { phase: 'failed', ...(draft.isTolerated(stage) ? { result: NO_OUTPUTS } : {}) });
  follow(draft, stage);
}

/** Fails a stage and records the failure, because the program that ended the stage wrote no result. */
export function failWithoutResult(
  draft: Draft,
  stage: number,
  failure: StageFailure,
  attempt: number = draft.stage(stage).attempt,
  isTolerated: boolean = draft.isTolerated(stage),
): void {
  const { id } = draft.plan.stages[stage]!;
  const execKey = execKeyOf(id, attempt);
  draft.events.push({
    id: EVENT_ID.attempt(execKey, 'failed'),
    body: { type: 'stage-failed', stage: id, execKey, failure: clipFailure(failure) },
  });
  fail(draft, stage, failure, isTolerated);
}

/** Skips a stage. Stages that wait for it do not learn of it here. */
export function skip(draft: Draft, stage: number, cause: SkipCause, reason: string): void {
  const { id } = draft.plan.stages[stage]!;
  const skips = draft.stage(stage).skips + 1;
  draft.end(stage, { phase: 'skipped', skipCause: cause, skips });
  draft.events.push({
    id: EVENT_ID.skipped(id, skips),
    body: { type: 'stage-skipped', stage: id, reason: clip(reason) },
  });
}

/**
 * Tells stages that wait for a stage that it has ended: they come closer to their start, or are skipped, nearest first.
 */
export function follow(draft: Draft, ended: number): void {
  const queue = [ended];
  for (let at = 0; at < queue.length; at += 1) {
    const earlier = queue[at]!;
    for (const edge of draft.index.edgesAfter(earlier)) {
      switch (readEdge(draft, edge.on, earlier)) {
        case 'open':
          break;
        case 'holds': {
          if (isOneOfSeveral(draft, edge.stage, edge.on) && countFailures(draft, 'holds', edge.stage) > 1) break;
          const waitingOn = draft.stage(edge.stage).waitingOn - 1;
          draft.setStage(edge.stage, { waitingOn });
          if (waitingOn === 0) settle(draft, edge.stage);
          break;
        }
        case 'dead':
          if (mayStillHold(draft, edge.stage, edge.on)) break;
          if (skipFor(draft, edge.stage, earlier, edge.on)) queue.push(edge.stage);
          break;
      }
    }
    const cover = draft.index.coverOf(earlier);
    if (cover !== null) settle(draft, cover);
  }
}

/** Skips a stage unless it runs: the data that it took from a stage that runs again stays valid. */
function skipFor(draft: Draft, stage: number, earlier: number, on: Edge['on']): boolean {
  const { phase } = draft.stage(stage);
  if (isEnd(phase) || phase === 'running' || phase === 'asking' || phase === 'sleeping') return false;
  // The stage that ends a tolerated part is decided once all of the part has ended.
  if (readPart(draft, stage) !== 'whole') return false;
  skip(
    draft,
    stage,
    findSkipCause(draft, earlier, on),
    isOneOfSeveral(draft, stage, on)
      ? 'no stage that it names in `on_failure` failed'
      : explainDeadEdge(on, draft.plan.stages[earlier]!.id, draft.stage(earlier).phase),
  );
  return true;
}

/** Makes a waiting stage ready when no edge before it is open, or skips it when it can never start. */
export function settle(draft: Draft, stage: number): void {
  const { phase, waitingOn } = draft.stage(stage);
  if (phase !== 'waiting') return;
  if (draft.index.isFinally(stage) && !draft.finallyBegun) return;
  if (draft.mayNotStart(stage)) return skip(draft, stage, 'cancel', draft.finallyStop ?? draft.whyNothingStarts());
  const part = readPart(draft, stage);
  if (part === 'open') return;
  if (part !== 'whole') return failPart(draft, stage, part);
  if (waitingOn > 0) {
    const dead = findDeadEdge(draft, stage);
    if (dead !== undefined && skipFor(draft, stage, dead.stage, dead.on)) follow(draft, stage);
    return;
  }
  const { condition } = draft.plan.stages[stage]!;
  if (condition !== null && !draft.stage(stage).decided) return evaluateCondition(draft, stage, condition);
  // A stage without a VM waits for no VM and takes no slot.
  if (draft.index.scopeOf(stage) === null) return startStage(draft, stage);
  draft.makeReady(stage);
}

function failPart(draft: Draft, end: number, failed: readonly number[]): void {
  const first = draft.plan.stages[failed[0]!]!.id;
  const more = failed.length === 1 ? '' : `, and ${failed.length - 1} more`;
  const message = `stage ${first} of the part failed${more}`;
  draft.setStage(end, { attempt: draft.stage(end).attempt + 1 });
  failWithoutResult(draft, end, { code: 'part/failed', message, stderrTail: '' });
}

/** @param exitCode  the exit code of the stage's command; null if it has no command */
export function failOrRetry(
  draft: Draft,
  stage: number,
  execKey: string,
  failure: StageFailure,
  exitCode: number | null,
): void {
  const { retry: policy } = draft.plan.stages[stage]!;
  const failures = draft.stage(stage).failures + 1;
  draft.setStage(stage, { failures });
  const scope = draft.index.scopeOf(stage);
  const noVmWillCome =
    scope !== null && draft.scope(scope).phase === 'draining' && draft.scope(scope).lossReason === null;
  const isLast = failures >= policy.maxAttempts || !isWorthRetrying(policy, failure, exitCode);
  if (isLast || draft.mayNotStart(stage) || noVmWillCome) return fail(draft, stage, failure);
  retry(
    draft,
    stage,
    execKey,
    `attempt ${failures} of ${policy.maxAttempts} failed: ${failure.message}`,
    retryPauseMs(policy, failures),
  );
}

export function retry(draft: Draft, stage: number, execKey: string, reason: string, delayMs: number): void {
  const { id } = draft.plan.stages[stage]!;
  draft.events.push({
    id: EVENT_ID.attempt(execKey, 'retrying'),
    body: { type: 'stage-retrying', stage: id, execKey, reason: clip(reason), delayMs },
  });
  if (delayMs === 0) return settle(draft, stage);
  draft.setStage(stage, { phase: 'backoff' });
  draft.commands.push({ type: 'start-timer', id: timerId(id, draft.stage(stage).attempt), delayMs });
}
