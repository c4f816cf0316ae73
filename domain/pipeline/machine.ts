/**
 * The run machine: decides what a run does next. Pure: no clock, no randomness, no I/O, so that a replay
 * makes the same commands from the same events.
 *
 * - A stage starts when every edge before it holds, its VM exists and fewer than `maxParallel` stages run. Ready stages
 *   start in the order of the plan. A stage without a scope starts at once and takes no slot; an `ask` waits for its
 *   answer.
 * - A stage with a condition is decided once every edge before it holds: it starts, is passed, or fails. The decision
 *   holds for all its attempts.
 * - A stage is skipped if one of its edges can no longer hold, and so are the stages that wait for its success. All
 *   other stages continue. The run fails if any stage failed. A stage that only waited for a failure is not missing if
 *   that failure did not occur.
 * - Within a part whose failure is tolerated as a whole, a failure has its usual effects. Once all of the part has
 *   ended, the stage that ends the part fails for it, and the run may succeed.
 * - The author's `retry` starts an attempt with a new exec key. In a scope of one stage, the new attempt gets a new VM
 *   unless the scope keeps its VM. In a shared scope, it runs in the same VM.
 * - Stages with `finally` start once every other stage has ended, and have a time limit. A cancel, or a run that gives
 *   up, does not stop them. Their failures hide no earlier failure.
 * - Lost VMs are counted per scope, separately from `retry`, up to `LOST_VM_ATTEMPTS`. A shared scope starts again as a
 *   whole in a new generation, once the stages that still ran in the old one have ended. Its finished stages run again
 *   under new exec keys; its passed stages are decided again. Stages outside of the scope keep their results.
 * - In a scope that is saved after each step, the next VM is acquired first. Its answer names the attempts whose work its
 *   disk holds; stages that ended with one of these stay as they are. The same is true for given stages of such a scope
 *   and its first VM.
 * - An edge from a stage that runs again is open again. A stage that has started over this edge stays as it is; other
 *   stages wait again. A stage that was skipped because that stage did not fail may still be needed.
 * - The stage that ends a loop is decided after each visit. If its condition does not hold, the stages of the loop run
 *   again, with continued attempt numbers, until the loop has had all its visits.
 * - A VM is released once no stage of its scope is open, on every path. `finish` comes after the last release was
 *   answered.
 */
import { selectEdgesToHold } from './edges.ts';
import { isLostVm } from '../errors/error-code.ts';
import { LOST_VM_ATTEMPTS } from '../errors/code-info.ts';
import type { StageFailure, StageResult } from '../run/stage-result.ts';
import type { HeldAttempt } from '../run/vm-lease.ts';
import { clipFailure } from './carried-text.ts';
import { Draft } from './draft.ts';
import { cancel, failOrRetry, failWithoutResult, give, pass, passUndone, settle, skip, succeed } from './ends.ts';
import { beginFinally, stopFinally } from './finally.ts';
import { failScope, loseOwnVm, loseSharedVm } from './lost-vms.ts';
import { restartId, restartScope, runUnheldAgain, visitAgain } from './reruns.ts';
import { execKeyOf, FINALLY_TIMER, timerId } from './stage-keys.ts';
import { startReadyStages } from './starts.ts';
import { noteAnswer, wake, withdraw } from './waits.ts';
import type { Answer, ConditionOutcome, FoundTime, MachineEvent } from './event.ts';
import type { MachinePlan } from './machine-plan.ts';
import { planIndex } from './plan-index.ts';
import { rowsOf } from './rows.ts';
import { formatDurationMs } from '../units/duration.ts';
import { type GivenStage, isEnd, type RunState } from './state.ts';
import type { Transition } from './transition.ts';

export type { MachineRunEvent, Transition } from './transition.ts';

export interface RunContext {
  /** A limit of the host in addition to the plan's own `maxParallel`. */
  readonly maxParallel?: number;
  /**
   * Stages that have ended before the run starts, by id, with their results in an earlier run. They run again only if
   * they are in a scope that is saved after each step, and a VM of the scope does not hold their work.
   */
  readonly given?: Readonly<Record<string, GivenStage>>;
}

/**
 * Starts a run. `plan` is made from a plan that `checkPlan` or `compilePlan` accepted.
 * @throws Error if `given` names a stage that the plan does not have
 */
export function start(plan: MachinePlan, context: RunContext = {}): Transition {
  const index = planIndex(plan);
  const draft = new Draft(plan, index, {
    stages: rowsOf(
      plan.stages.map(({ after, anyFailure }) => ({
        phase: 'waiting',
        attempt: 0,
        failures: 0,
        evaluations: 0,
        visits: 0,
        decided: false,
        waitingOn: selectEdgesToHold(after, anyFailure),
        skipCause: null,
        skips: 0,
        result: null,
      })),
    ),
    scopes: rowsOf(
      plan.scopes.map((scope) => ({
        phase: 'idle',
        generation: 0,
        lost: 0,
        running: 0,
        open: scope.stages.length,
        lease: null,
        lossReason: null,
      })),
    ),
    ready: [],
    running: 0,
    open: plan.stages.length,
    maxParallel: Math.max(1, Math.min(plan.maxParallel, context.maxParallel ?? plan.maxParallel)),
    cancelRequested: false,
    gaveUp: null,
    finallyBegun: false,
    finallyStop: null,
    firstFailure: null,
    outcome: null,
  });
  give(
    draft,
    Object.entries(context.given ?? {}).map(([id, end]) => [draft.stageIndex(id), end] as const),
  );
  plan.stages.forEach(({ after }, stage) => after.length === 0 && settle(draft, stage));
  return complete(draft);
}

/**
 * Returns the next state, commands and events after an event.
 * @throws Error if the event names a stage or scope that the plan does not have: a bug of the caller
 */
export function transition(plan: MachinePlan, state: RunState, event: MachineEvent): Transition {
  if (state.outcome !== null) return { state, commands: [], events: [] };
  const draft = new Draft(plan, planIndex(plan), state);
  switch (event.type) {
    case 'vm-acquired':
      onVmAcquired(draft, event);
      break;
    case 'vm-failed':
      onVmFailed(draft, event.scope, event.generation, { code: event.code, message: event.message, stderrTail: '' });
      break;
    case 'vm-released':
      onVmReleased(draft, event.scope, event.generation);
      break;
    case 'stage-finished':
      onStageFinished(draft, event.result);
      break;
    case 'stage-lost':
      onStageLost(draft, event.stageId, event.execKey, { code: event.code, message: event.message, stderrTail: '' });
      break;
    case 'stage-broken':
      onStageBroken(draft, event.stageId, event.execKey, { code: event.code, message: event.message, stderrTail: '' });
      break;
    case 'stage-cancelled':
      onStageCancelled(draft, event.stageId, event.execKey);
      break;
    case 'answered':
      onAnswered(draft, event.stageId, event.attempt, event.answer);
      break;
    case 'time-found':
      onTimeFound(draft, event.stageId, event.attempt, event);
      break;
    case 'waited':
      onWaited(draft, event.stageId, event.attempt);
      break;
    case 'condition-evaluated':
      onConditionEvaluated(draft, event.stageId, event.evaluation, event);
      break;
    case 'timer-fired':
      onTimerFired(draft, event.id);
      break;
    case 'cancel-requested':
      onCancelRequested(draft);
      break;
    case 'cancel-finally':
      stopFinally(draft, 'its run was cancelled again', null);
      break;
    case 'give-up':
      onGiveUp(draft, event.failure);
      break;
  }
  return complete(draft);
}

/**
 * Handles the consequences that any event may have: VMs to release, the start of `finally`, and stages that now have
 * room.
 */
function complete(draft: Draft): Transition {
  for (const scope of draft.emptied) draft.releaseIfDone(scope);
  beginFinally(draft);
  startReadyStages(draft);
  return draft.complete();
}

function onVmAcquired(draft: Draft, acquired: Extract<MachineEvent, { type: 'vm-acquired' }>): void {
  const { generation, lease, holds = [] } = acquired;
  const scope = draft.scopeIndex(acquired.scope);
  const state = draft.scope(scope);
  if (state.phase !== 'acquiring' || state.generation !== generation) return;
  draft.setScope(scope, { phase: 'ready', lease });
  if (state.lossReason !== null) resumeScope(draft, scope, holds);
  else if (draft.hasGivenWork(scope)) runUnheldAgain(draft, scope, generation, holds);
  draft.releaseIfDone(scope);
}

/** Runs the stages again whose work is not on the disk of the VM that replaces a lost one. */
function resumeScope(draft: Draft, scope: number, holds: readonly HeldAttempt[]): void {
  const { lossReason, generation, open } = draft.scope(scope);
  draft.setScope(scope, { lossReason: null });
  if (lossReason !== null && open > 0)
    restartScope(draft, scope, { id: restartId(draft, scope, generation - 1), reason: lossReason, holds });
}

function onVmFailed(draft: Draft, scopeId: string, generation: number, failure: StageFailure): void {
  const scope = draft.scopeIndex(scopeId);
  const state = draft.scope(scope);
  if (state.phase !== 'acquiring' || state.generation !== generation) return;
  if (state.open > 0 && isLostVm(failure.code) && state.lost < LOST_VM_ATTEMPTS)
    draft.setScope(scope, { lost: state.lost + 1, lossReason: `${failure.code}: ${failure.message}` });
  else {
    // No VM holds the work of its finished stages.
    if (state.lossReason !== null) resumeScope(draft, scope, []);
    failScope(draft, scope, failure, []);
  }
  draft.release(scope);
}

function onVmReleased(draft: Draft, scopeId: string, generation: number): void {
  const scope = draft.scopeIndex(scopeId);
  const state = draft.scope(scope);
  if (state.phase !== 'releasing' || state.generation !== generation) return;
  if (draft.isToResume(scope)) {
    const next = generation + 1;
    draft.setScope(scope, { phase: 'acquiring', generation: next, lease: null });
    draft.commands.push({ type: 'acquire-vm', scope: scopeId, generation: next, resumes: true });
    return;
  }
  draft.setScope(scope, { phase: 'idle', generation: generation + 1, lease: null, lossReason: null });
  if (state.lossReason !== null && state.open > 0 && draft.index.isShared(scope))
    restartScope(draft, scope, { id: restartId(draft, scope, generation), reason: state.lossReason });
}

function onStageFinished(draft: Draft, result: StageResult): void {
  const stage = draft.runningStage(result.stage, result.execKey);
  if (stage === null) return;
  draft.leave(stage);
  const scope = draft.index.scopeOf(stage);
  // The activity that owns a VM has stopped it: the next attempt needs a new one.
  if (scope !== null && !draft.index.isShared(scope))
    draft.setScope(scope, { generation: draft.scope(scope).generation + 1 });
  switch (result.outcome) {
    case 'succeeded':
      succeed(draft, stage, { output: result.output, outputs: result.outputs });
      break;
    case 'passed':
      pass(draft, stage);
      break;
    case 'cancelled':
      cancel(draft, stage, { output: result.output, outputs: result.outputs });
      break;
    case 'failed':
      failOrRetry(
        draft,
        stage,
        result.execKey,
        result.failure ?? {
          code: 'stage/exit-nonzero',
          message: `exit code ${result.command?.exitCode ?? 'unknown'}`,
          stderrTail: '',
        },
        result.command?.exitCode ?? null,
      );
      break;
  }
  draft.afterStage(scope);
}

function onStageLost(draft: Draft, stageId: string, execKey: string, failure: StageFailure): void {
  const stage = draft.runningStage(stageId, execKey);
  if (stage === null) return;
  draft.leave(stage);
  const scope = draft.index.scopeOf(stage);
  // This work has no VM to replace. Its activity already retries after the loss of a host.
  if (scope === null) return failWithoutResult(draft, stage, failure);
  if (draft.index.isShared(scope)) loseSharedVm(draft, scope, stage, failure);
  else loseOwnVm(draft, scope, stage, execKey, failure);
  draft.afterStage(scope);
}

function onStageBroken(draft: Draft, stageId: string, execKey: string, failure: StageFailure): void {
  const stage = draft.runningStage(stageId, execKey);
  if (stage === null) return;
  draft.leave(stage);
  failWithoutResult(draft, stage, failure);
  draft.endOwnVm(stage);
  draft.afterStage(draft.index.scopeOf(stage));
}

function onStageCancelled(draft: Draft, stageId: string, execKey: string): void {
  const stage = draft.runningStage(stageId, execKey);
  if (stage === null) return;
  draft.leave(stage);
  cancel(draft, stage);
  draft.endOwnVm(stage);
  draft.afterStage(draft.index.scopeOf(stage));
}

/** Ignores an answer to a question that was withdrawn or asked again. */
function onAnswered(draft: Draft, stageId: string, attempt: number, answer: Answer): void {
  const stage = draft.stageIndex(stageId);
  const state = draft.stage(stage);
  if (state.phase !== 'asking' || state.attempt !== attempt) return;
  draft.setStage(stage, { phase: 'waiting' });
  noteAnswer(draft, stage, answer);
  switch (answer.outcome) {
    case 'succeeded':
      return succeed(draft, stage, answer.outputs);
    case 'failed':
      return failOrRetry(draft, stage, execKeyOf(stageId, attempt), answer.failure, null);
  }
}

/** Starts the wait, unless the stage was cancelled after its time was asked for. */
function onTimeFound(draft: Draft, stageId: string, attempt: number, time: FoundTime): void {
  const stage = draft.stageIndex(stageId);
  const state = draft.stage(stage);
  if (state.phase !== 'sleeping' || state.attempt !== attempt) return;
  switch (time.outcome) {
    case 'found':
      return void draft.commands.push({
        type: 'wait',
        stageId,
        execKey: execKeyOf(stageId, attempt),
        attempt,
        untilMs: time.untilMs,
      });
    case 'failed':
      draft.setStage(stage, { phase: 'waiting' });
      return failWithoutResult(draft, stage, time.failure);
  }
}

function onWaited(draft: Draft, stageId: string, attempt: number): void {
  const stage = draft.stageIndex(stageId);
  const state = draft.stage(stage);
  if (state.phase === 'sleeping' && state.attempt === attempt) wake(draft, stage, 'succeeded');
}

/** Ignores a decision if the stage was cancelled or has to be decided again. */
function onConditionEvaluated(draft: Draft, stageId: string, evaluation: number, decision: ConditionOutcome): void {
  const stage = draft.stageIndex(stageId);
  const state = draft.stage(stage);
  if (state.phase !== 'deciding' || state.evaluations !== evaluation) return;
  draft.setStage(stage, { phase: 'waiting' });
  switch (decision.outcome) {
    case 'holds':
      draft.setStage(stage, { decided: true });
      return settle(draft, stage);
    case 'does-not-hold':
      if (draft.plan.stages[stage]!.loop !== undefined) return visitAgain(draft, stage);
      return passUndone(draft, stage, decision.output);
    case 'failed':
      return failWithoutResult(draft, stage, decision.failure, state.attempt + 1);
  }
}

function onTimerFired(draft: Draft, id: string): void {
  if (id === FINALLY_TIMER) return onGraceOver(draft);
  const stage = draft.index.stageOfTimer(id);
  if (stage === null) return;
  const state = draft.stage(stage);
  if (state.phase !== 'backoff' || timerId(draft.plan.stages[stage]!.id, state.attempt) !== id) return;
  draft.setStage(stage, { phase: 'waiting' });
  settle(draft, stage);
}

function onGraceOver(draft: Draft): void {
  const grace = formatDurationMs(draft.plan.graceMs ?? 0);
  const message = `the stages with \`finally\` took longer than their ${grace} (\`grace_secs\`)`;
  stopFinally(draft, 'the time of the stages with `finally` is over', { code: 'run/grace', message, stderrTail: '' });
}

function onGiveUp(draft: Draft, failure: StageFailure): void {
  if (draft.open === 0) return;
  if (draft.finallyBegun) {
    // The time limit of a run covers only its other stages.
    if (failure.code !== 'run/timeout') stopFinally(draft, `the run gave up: ${failure.code}`, failure);
    return;
  }
  if (draft.cancelRequested) return;
  draft.gaveUp = clipFailure(failure);
  onCancelRequested(draft);
}

function onCancelRequested(draft: Draft): void {
  if (draft.cancelRequested) return;
  draft.cancelRequested = true;
  const execKeys: string[] = [];
  draft.plan.stages.forEach((stage, index) => {
    const { phase, attempt } = draft.stage(index);
    if (stage.finally === true) return;
    if (phase === 'running') execKeys.push(execKeyOf(stage.id, attempt));
    else if (phase === 'asking') withdraw(draft, index);
    else if (phase === 'sleeping') wake(draft, index, 'cancelled');
    else if (!isEnd(phase)) skip(draft, index, 'cancel', draft.whyNothingStarts());
  });
  const acquiring = draft.plan.scopes.flatMap((scope, index) =>
    draft.scope(index).phase === 'acquiring' ? [{ scope: scope.id, generation: draft.scope(index).generation }] : [],
  );
  if (execKeys.length > 0 || acquiring.length > 0) draft.commands.push({ type: 'cancel-stages', execKeys, acquiring });
}
