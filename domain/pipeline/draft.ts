import { type DataRef } from '../plan/plan.ts';
import { LOST_VM_ATTEMPTS } from '../errors/code-info.ts';
import { isWorthRetrying, retryPauseMs } from '../plan/retry.ts';
import { attemptText } from '../run/attempt.ts';
import { EVENT_ID } from '../run/event-id.ts';
import type { StageFailure } from '../run/stage-result.ts';
import type { Command } from './command.ts';
import type { Answer } from './event.ts';
import { deadBecause, type EdgeState, edgeState } from './edges.ts';
import { isTimeFound, type MachinePlan } from './machine-plan.ts';
import type { Edge, PlanIndex } from './plan-index.ts';
import { ReadyStages } from './ready-stages.ts';
import { RowsDraft } from './rows.ts';
import {
  type EndPhase,
  type GivenStage,
  isEnd,
  NO_OUTPUTS,
  type RunState,
  type ScopeState,
  type SkipCause,
  type StageOutputs,
  type StageState,
} from './state.ts';
import { mergeOf, outcomeOf } from './outcome.ts';
import type { MachineRunEvent, Transition } from './transition.ts';
import { endsReadBy, upstreamOf } from './upstream.ts';

/** Of a stage of the plan itself: a machine of an item says its instance to whoever carries its commands out. */
export function execKeyOf(stage: string, attempt: number): string {
  return attemptText({ stage, instance: [], attempt });
}

export function timerId(plan: MachinePlan, stage: number, attempt: number): string {
  return `retry/${plan.stages[stage]!.id}/${attempt}`;
}

/** Of the time that stages with `finally` have. */
export const FINALLY_TIMER = 'finally';

/** One transition in the making: copies what it changes and collects what it asks for. */
export class Draft {
  readonly plan: MachinePlan;
  readonly index: PlanIndex;
  readonly commands: Command[] = [];
  readonly events: MachineRunEvent[] = [];
  cancelRequested: boolean;
  gaveUp: StageFailure | null;
  finallyStop: string | null;
  #finallyBegun: boolean;
  readonly #before: RunState;
  readonly #stages: RowsDraft<StageState>;
  readonly #scopes: RowsDraft<ScopeState>;
  readonly #ready: ReadyStages;
  #running: number;
  #open: number;
  #firstFailure: RunState['firstFailure'];
  /** Scopes that lost their last open stage, of whatever scope the reason was. */
  readonly #emptied = new Set<number>();

  constructor(plan: MachinePlan, index: PlanIndex, before: RunState) {
    this.plan = plan;
    this.index = index;
    this.#before = before;
    this.#stages = new RowsDraft(before.stages);
    this.#scopes = new RowsDraft(before.scopes);
    this.#ready = new ReadyStages(before.ready);
    this.#running = before.running;
    this.#open = before.open;
    this.#firstFailure = before.firstFailure;
    this.cancelRequested = before.cancelRequested;
    this.gaveUp = before.gaveUp;
    this.finallyStop = before.finallyStop;
    this.#finallyBegun = before.finallyBegun;
  }

  stage(stage: number): StageState {
    return this.#stages.at(stage);
  }

  scope(scope: number): ScopeState {
    return this.#scopes.at(scope);
  }

  setStage(stage: number, change: Partial<StageState>): void {
    this.#stages.set(stage, { ...this.stage(stage), ...change });
  }

  setScope(scope: number, change: Partial<ScopeState>): void {
    this.#scopes.set(scope, { ...this.scope(scope), ...change });
  }

  /** Stages that are not in an end state. */
  get open(): number {
    return this.#open;
  }

  /** Every other stage has ended, and those with `finally` have their turn. */
  get finallyBegun(): boolean {
    return this.#finallyBegun;
  }

  scopeIndex(id: string): number {
    const scope = this.index.scopeById(id);
    if (scope === undefined) throw new Error(`the plan has no scope "${id}"`);
    return scope;
  }

  stageIndex(id: string): number {
    const stage = this.index.stageById(id);
    if (stage === undefined) throw new Error(`the plan has no stage "${id}"`);
    return stage;
  }

  /** The stage's index when it runs under that key, else null. */
  runningStage(id: string, execKey: string): number | null {
    const stage = this.stageIndex(id);
    const state = this.stage(stage);
    return state.phase === 'running' && execKeyOf(id, state.attempt) === execKey ? stage : null;
  }

  /** A running stage no longer runs; what it becomes is the caller's to say. */
  leave(stage: number): void {
    const scope = this.index.scopeOf(stage);
    if (scope !== null) {
      this.#running -= 1;
      this.setScope(scope, { running: this.scope(scope).running - 1 });
    }
    this.setStage(stage, { phase: 'waiting' });
  }

  succeed(stage: number, result: StageOutputs): void {
    this.#end(stage, { phase: 'succeeded', result });
    this.#follow(stage);
  }

  /** All of them have ended before anything hears of one: none starts because another stands before it. */
  give(ends: readonly (readonly [stage: number, end: GivenStage])[]): void {
    for (const [stage, { output, outputs, passed }] of ends)
      this.#end(stage, { phase: passed === true ? 'passed' : 'succeeded', result: { output, outputs } });
    for (const [stage] of ends) this.#follow(stage);
  }

  /** Its own condition did not hold: those that wait for its success go on. `output`: what they carry on in place of its own. */
  pass(stage: number, output: DataRef | null = null): void {
    this.#end(stage, { phase: 'passed', result: { ...NO_OUTPUTS, output } });
    this.#follow(stage);
  }

  /** No activity of the stage tells of it. */
  passUndone(stage: number, output: DataRef | null): void {
    const { id } = this.plan.stages[stage]!;
    const { evaluations } = this.stage(stage);
    this.events.push({
      id: EVENT_ID.passed(id, evaluations),
      body: { type: 'stage-passed', stage: id, ...(output === null ? {} : { output }) },
    });
    this.pass(stage, output);
  }

  /** @param result  of a service, which ends in no other way */
  cancel(stage: number, result: StageOutputs = NO_OUTPUTS): void {
    this.#end(stage, { phase: 'cancelled', ...(result.output === null ? {} : { result }) });
    this.#follow(stage);
  }

  /** @param isTolerated  whether the run may succeed all the same; that of a stage in a tolerated part is the part's */
  fail(stage: number, failure: StageFailure, isTolerated = this.#isTolerated(stage)): void {
    if (!isTolerated && this.index.coverOf(stage) === null)
      this.#firstFailure ??= { stage: this.plan.stages[stage]!.id, failure: bounded(failure) };
    this.#end(stage, { phase: 'failed', ...(this.#isTolerated(stage) ? { result: NO_OUTPUTS } : {}) });
    this.#follow(stage);
  }

  /** No event tells of this failure yet: what ended the stage wrote no result. */
  failWithoutResult(
    stage: number,
    failure: StageFailure,
    attempt = this.stage(stage).attempt,
    isTolerated = this.#isTolerated(stage),
  ): void {
    const { id } = this.plan.stages[stage]!;
    const execKey = execKeyOf(id, attempt);
    this.events.push({
      id: EVENT_ID.attempt(execKey, 'failed'),
      body: { type: 'stage-failed', stage: id, execKey, failure: bounded(failure) },
    });
    this.fail(stage, failure, isTolerated);
  }

  skip(stage: number, cause: SkipCause, reason: string): void {
    const { id } = this.plan.stages[stage]!;
    const skips = this.stage(stage).skips + 1;
    this.#end(stage, { phase: 'skipped', skipCause: cause, skips });
    this.events.push({
      id: EVENT_ID.skipped(id, skips),
      body: { type: 'stage-skipped', stage: id, reason: clip(reason) },
    });
  }

  #end(stage: number, change: Partial<StageState> & { readonly phase: EndPhase }): void {
    if (this.stage(stage).phase === 'ready') this.#ready.remove(stage);
    const scope = this.index.scopeOf(stage);
    this.#open -= 1;
    // Of a loop that does not come to its end, the visits before count for nothing.
    const isCut = this.plan.stages[stage]!.loop !== undefined && change.result === undefined;
    this.setStage(stage, isCut ? { ...change, result: null } : change);
    if (scope === null) return;
    this.setScope(scope, { open: this.scope(scope).open - 1 });
    if (this.scope(scope).open === 0) this.#emptied.add(scope);
  }

  /** Tells those that wait for a stage that it has ended: they come nearer to their start, or are skipped, nearest first. */
  #follow(ended: number): void {
    const queue = [ended];
    for (let at = 0; at < queue.length; at += 1) {
      const earlier = queue[at]!;
      for (const edge of this.index.edgesAfter(earlier)) {
        switch (this.#edgeState(edge.on, earlier)) {
          case 'open':
            break;
          case 'holds': {
            if (this.#isOneOfSeveral(edge.stage, edge.on) && this.#failuresThat('holds', edge.stage) > 1) break;
            const waitingOn = this.stage(edge.stage).waitingOn - 1;
            this.setStage(edge.stage, { waitingOn });
            if (waitingOn === 0) this.settle(edge.stage);
            break;
          }
          case 'dead':
            if (this.#mayStillHold(edge.stage, edge.on)) break;
            if (this.#skipFor(edge.stage, earlier, edge.on)) queue.push(edge.stage);
            break;
        }
      }
      const cover = this.index.coverOf(earlier);
      if (cover !== null) this.settle(cover);
    }
  }

  #edgeState(on: Edge['on'], earlier: number): EdgeState {
    return edgeState(on, this.stage(earlier).phase, this.#isTolerated(earlier));
  }

  #isOneOfSeveral(stage: number, on: Edge['on']): boolean {
    return on === 'failure' && this.plan.stages[stage]!.anyFailure === true;
  }

  /** A dead edge on a failure is not missed while another one holds, or may come to. */
  #mayStillHold(stage: number, on: Edge['on']): boolean {
    return this.#isOneOfSeveral(stage, on) && this.#failuresThat('dead', stage) < this.#failureEdges(stage).length;
  }

  #failuresThat(state: EdgeState, stage: number): number {
    return this.#failureEdges(stage).filter((edge) => this.#edgeState(edge.on, edge.stage) === state).length;
  }

  #failureEdges(stage: number): readonly Edge[] {
    return this.index.edgesBefore(stage).filter(({ on }) => on === 'failure');
  }

  #isTolerated(stage: number): boolean {
    return this.plan.stages[stage]!.continueOnError === true;
  }

  /** A stage that runs stays: what it took of a neighbour that is being run again stays valid. */
  #skipFor(stage: number, earlier: number, on: Edge['on']): boolean {
    const { phase } = this.stage(stage);
    if (isEnd(phase) || phase === 'running' || phase === 'asking' || phase === 'sleeping') return false;
    // What ends a tolerated part is decided once all of the part has ended.
    if (this.#partOf(stage) !== 'whole') return false;
    this.skip(
      stage,
      this.#skipCause(earlier, on),
      this.#isOneOfSeveral(stage, on)
        ? 'no stage that it names in `on_failure` failed'
        : deadBecause(on, this.plan.stages[earlier]!.id, this.stage(earlier).phase),
    );
    return true;
  }

  #skipCause(earlier: number, on: Edge['on']): SkipCause {
    const { phase, skipCause } = this.stage(earlier);
    if (phase === 'skipped') return skipCause ?? 'failure';
    return phase === 'cancelled' ? 'cancel' : on === 'failure' ? 'unneeded' : 'failure';
  }

  /** @param exitCode  of the stage's command; null where there is none */
  failOrRetry(stage: number, execKey: string, failure: StageFailure, exitCode: number | null): void {
    const { retry } = this.plan.stages[stage]!;
    const failures = this.stage(stage).failures + 1;
    this.setStage(stage, { failures });
    const scope = this.index.scopeOf(stage);
    const noVmWillCome =
      scope !== null && this.scope(scope).phase === 'draining' && this.scope(scope).lossReason === null;
    const isLast = failures >= retry.maxAttempts || !isWorthRetrying(retry, failure, exitCode);
    if (isLast || this.#mayNotStart(stage) || noVmWillCome) return this.fail(stage, failure);
    this.#retry(
      stage,
      execKey,
      `attempt ${failures} of ${retry.maxAttempts} failed: ${failure.message}`,
      retryPauseMs(retry, failures),
    );
  }

  #retry(stage: number, execKey: string, reason: string, delayMs: number): void {
    this.events.push({
      id: EVENT_ID.attempt(execKey, 'retrying'),
      body: { type: 'stage-retrying', stage: this.plan.stages[stage]!.id, execKey, reason: clip(reason), delayMs },
    });
    if (delayMs === 0) return this.settle(stage);
    this.setStage(stage, { phase: 'backoff' });
    this.commands.push({ type: 'start-timer', id: timerId(this.plan, stage, this.stage(stage).attempt), delayMs });
  }

  /** A cancel of the run leaves stages with `finally` alone. */
  #mayNotStart(stage: number): boolean {
    return this.index.isFinally(stage) ? this.finallyStop !== null : this.cancelRequested;
  }

  whyNothingStarts(): string {
    return this.gaveUp === null ? 'the run was cancelled' : `the run gave up: ${this.gaveUp.code}`;
  }

  /** Makes a waiting stage ready when nothing is before it any more, or skips it when it can never start. */
  settle(stage: number): void {
    const { phase, waitingOn } = this.stage(stage);
    if (phase !== 'waiting') return;
    if (this.index.isFinally(stage) && !this.#finallyBegun) return;
    if (this.#mayNotStart(stage)) return this.skip(stage, 'cancel', this.finallyStop ?? this.whyNothingStarts());
    const part = this.#partOf(stage);
    if (part === 'open') return;
    if (part !== 'whole') return this.#failPart(stage, part);
    if (waitingOn > 0) {
      const dead = this.index
        .edgesBefore(stage)
        .find((edge) => this.#edgeState(edge.on, edge.stage) === 'dead' && !this.#mayStillHold(stage, edge.on));
      if (dead !== undefined && this.#skipFor(stage, dead.stage, dead.on)) this.#follow(stage);
      return;
    }
    const { condition } = this.plan.stages[stage]!;
    if (condition !== null && !this.stage(stage).decided) return this.#evaluate(stage, condition);
    // Without a VM there is nothing to wait for, and no slot to take.
    if (this.index.scopeOf(stage) === null) return this.#start(stage);
    this.setStage(stage, { phase: 'ready' });
    this.#ready.add(stage);
  }

  /** Of what ends a tolerated part. `open`: stages of it have not ended; `whole`: none failed; else those that did. */
  #partOf(end: number): 'open' | 'whole' | readonly number[] {
    const stages = this.index.coveredBy(end);
    if (stages.some((stage) => !isEnd(this.stage(stage).phase))) return 'open';
    // Those of a tolerated part within are that one's.
    const own = stages.filter((stage) => this.index.coverOf(stage) === end);
    const failed = own.filter((stage) => this.stage(stage).phase === 'failed');
    const counted = failed.filter((stage) => !this.#isTolerated(stage));
    if (counted.length > 0) return counted;
    // One that is tolerated within the part took others with it: their shared VM.
    return failed.length > 0 && own.some((stage) => this.stage(stage).skipCause === 'failure') ? failed : 'whole';
  }

  #failPart(end: number, failed: readonly number[]): void {
    const first = this.plan.stages[failed[0]!]!.id;
    const more = failed.length === 1 ? '' : `, and ${failed.length - 1} more`;
    const message = `stage ${first} of the part failed${more}`;
    this.setStage(end, { attempt: this.stage(end).attempt + 1 });
    this.failWithoutResult(end, { code: 'part/failed', message, stderrTail: '' });
  }

  loseOwnVm(scope: number, stage: number, execKey: string, failure: StageFailure): void {
    const lost = this.scope(scope).lost + 1;
    this.setScope(scope, { lost });
    this.release(scope);
    if (this.#mayNotStart(stage)) this.cancel(stage);
    else if (lost > LOST_VM_ATTEMPTS) this.failWithoutResult(stage, lostTooOften(failure, lost));
    else this.#retry(stage, execKey, `${failure.code}: ${failure.message}`, 0);
  }

  loseSharedVm(scope: number, stage: number, failure: StageFailure): void {
    if (this.cancelRequested) return this.cancel(stage);
    // A second loss while draining is the same VM.
    if (this.scope(scope).phase === 'draining') {
      if (this.scope(scope).lossReason === null)
        this.failWithoutResult(stage, lostTooOften(failure, this.scope(scope).lost));
      return;
    }
    const lost = this.scope(scope).lost + 1;
    const final = lost > LOST_VM_ATTEMPTS;
    this.setScope(scope, { phase: 'draining', lost, lossReason: final ? null : `${failure.code}: ${failure.message}` });
    if (final) this.failScope(scope, lostTooOften(failure, lost), [stage]);
  }

  /** No VM will come for this scope: what was to run in it now fails, what would have come later is skipped. */
  failScope(scope: number, failure: StageFailure, failing: readonly number[]): void {
    const stages = this.index.stagesOf(scope);
    // One that waits for the VM has not begun the attempt that fails.
    const waiting = failing.length > 0 ? [] : stages.filter((stage) => this.stage(stage).phase === 'ready');
    // What else was to happen in the VM is lost with it: that is more than the failure of one stage, which may be tolerated.
    for (const stage of failing) this.failWithoutResult(stage, failure, this.stage(stage).attempt, false);
    for (const stage of waiting)
      if (!isEnd(this.stage(stage).phase)) this.failWithoutResult(stage, failure, this.stage(stage).attempt + 1, false);
    for (const stage of stages) {
      const { phase } = this.stage(stage);
      if (isEnd(phase) || phase === 'running') continue;
      this.skip(stage, 'failure', `its VM failed with ${failure.code}`);
      this.#follow(stage);
    }
  }

  /**
   * The finished stages of a shared scope were in the VM that is gone: they run again. What an edge from them has led to stands
   * where it has begun or ended; what waits for them waits again, and so does what was skipped because they did not fail.
   * Its failed stages stay failed. The event names all that will run once more, also those that the loss interrupted.
   */
  restartScope(scope: number, generation: number, reason: string): void {
    // Those that have begun: ended in the VM, interrupted by its loss, or between two attempts. One that was passed is decided
    // again: what waits for it waits for those before it too, whose files are gone.
    const again = this.index.stagesOf(scope).filter((stage) => {
      const { phase, attempt, evaluations } = this.stage(stage);
      if (phase === 'passed') return evaluations > 0;
      return attempt > 0 && (phase === 'succeeded' || !isEnd(phase));
    });
    const ended = again.filter((stage) => isEnd(this.stage(stage).phase));
    const revived: number[] = [];
    for (const stage of ended) this.#reopen(stage, revived);
    const { id } = this.plan.scopes[scope]!;
    const idOf = (stage: number): string => this.plan.stages[stage]!.id;
    this.events.push({
      id: EVENT_ID.scopeRestarted(id, generation),
      body: { type: 'scope-restarted', scope: id, reason: clip(reason), stages: [...again, ...revived].map(idOf) },
    });
    for (const stage of [...this.index.stagesOf(scope), ...revived]) this.settle(stage);
  }

  /** The condition of a loop does not hold after a visit: its stages run again, or it has come to its limit. */
  visitAgain(stage: number): void {
    const { id, loop } = this.plan.stages[stage]!;
    const { stages, output, maxVisits, onLimit } = loop!;
    const visits = this.stage(stage).visits + 1;
    this.setStage(stage, { visits });
    if (visits >= maxVisits && onLimit === 'pass') {
      this.setStage(stage, { decided: true });
      return this.settle(stage);
    }
    if (visits >= maxVisits) {
      const message = `loop ${id} has not come to its end after ${visits} visit${visits === 1 ? '' : 's'}`;
      return this.failWithoutResult(
        stage,
        { code: 'loop/limit', message, stderrTail: '' },
        this.stage(stage).attempt + 1,
      );
    }
    this.setStage(stage, { result: this.stage(this.stageIndex(output)).result });
    this.events.push({
      id: EVENT_ID.visited(id, this.stage(stage).evaluations),
      body: { type: 'loop-visited', stage: id, visit: visits + 1, stages },
    });
    const within = stages.map((name) => this.stageIndex(name));
    for (const each of within) {
      // One that was skipped may have been opened with what it waits for.
      if (isEnd(this.stage(each).phase)) this.#reopen(each, []);
      this.setStage(each, { failures: 0, decided: false, visits: 0 });
      const scope = this.index.scopeOf(each);
      if (scope !== null) this.setScope(scope, { lost: 0 });
    }
    for (const each of within) this.settle(each);
  }

  #reopen(stage: number, revived: number[]): void {
    const after = this.index.edgesAfter(stage).map((edge) => ({ ...edge, was: this.#edgeState(edge.on, stage) }));
    const scope = this.index.scopeOf(stage);
    this.#open += 1;
    if (scope !== null) this.setScope(scope, { open: this.scope(scope).open + 1 });
    this.setStage(stage, { phase: 'waiting', result: null, skipCause: null });
    for (const edge of after) {
      const state = this.stage(edge.stage);
      if (edge.was === 'holds') {
        this.setStage(edge.stage, { waitingOn: state.waitingOn + 1 });
        if (state.phase !== 'ready' && state.phase !== 'deciding') continue;
        if (state.phase === 'ready') this.#ready.remove(edge.stage);
        // What has not begun is decided by what comes out this time.
        this.setStage(edge.stage, { phase: 'waiting', decided: state.decided && state.attempt > 0 });
      } else if (this.#mayRevive(edge.stage)) {
        revived.push(edge.stage);
        this.#reopen(edge.stage, revived);
      }
    }
  }

  /** A shared VM that has been released does not come back for one stage, without what the others left in it. */
  #mayRevive(stage: number): boolean {
    const { phase, skipCause } = this.stage(stage);
    if (phase !== 'skipped' || skipCause !== 'unneeded') return false;
    const scope = this.index.scopeOf(stage);
    return (
      scope === null ||
      !this.index.isShared(scope) ||
      this.scope(scope).open > 0 ||
      this.scope(scope).generation === this.scope(scope).lost
    );
  }

  giveUp(failure: StageFailure): void {
    this.gaveUp = bounded(failure);
  }

  /**
   * What of them runs is cancelled, and nothing of them starts.
   * @param failure  of the run, unless it has one already; null: somebody wants it so
   */
  stopFinally(why: string, failure: StageFailure | null): void {
    if (this.finallyStop !== null) return;
    this.finallyStop = clip(why);
    if (!this.#finallyBegun) return;
    const open = this.index.finallyStages.filter((stage) => !isEnd(this.stage(stage).phase));
    if (failure !== null && open.length > 0)
      this.#firstFailure ??= { stage: this.plan.stages[open[0]!]!.id, failure: bounded(failure) };
    const running = open.filter((stage) => this.stage(stage).phase === 'running');
    for (const stage of open) if (this.stage(stage).phase !== 'running') this.skip(stage, 'cancel', this.finallyStop);
    const execKeys = running.map((stage) => execKeyOf(this.plan.stages[stage]!.id, this.stage(stage).attempt));
    if (execKeys.length > 0) this.commands.push({ type: 'cancel-stages', execKeys, acquiring: [] });
  }

  /** Once no other stage is open. Their VMs are their own, so nothing that they lose makes another stage run again. */
  #beginFinally(): void {
    const { finallyStages } = this.index;
    if (this.#finallyBegun || finallyStages.length === 0 || this.#open > finallyStages.length) return;
    if (this.#open > finallyStages.filter((stage) => !isEnd(this.stage(stage).phase)).length) return;
    this.#finallyBegun = true;
    const { graceMs } = this.plan;
    if (graceMs !== undefined && this.finallyStop === null)
      this.commands.push({ type: 'start-timer', id: FINALLY_TIMER, delayMs: graceMs });
    for (const stage of finallyStages) this.settle(stage);
  }

  /** Its wait is over: the time has come, or nothing is waited for any more. */
  wake(stage: number, outcome: 'succeeded' | 'cancelled'): void {
    const { id } = this.plan.stages[stage]!;
    const execKey = execKeyOf(id, this.stage(stage).attempt);
    this.events.push({
      id: EVENT_ID.attempt(execKey, 'woken'),
      body: { type: 'stage-woken', stage: id, execKey, outcome },
    });
    if (outcome === 'succeeded') this.succeed(stage, NO_OUTPUTS);
    else this.cancel(stage);
  }

  withdraw(stage: number): void {
    this.commands.push({ type: 'withdraw', stageId: this.plan.stages[stage]!.id, attempt: this.stage(stage).attempt });
    this.noteAnswer(stage, null);
    this.cancel(stage);
  }

  /** For readers: how the question of the stage's attempt ended; null: it was withdrawn. */
  noteAnswer(stage: number, answer: Answer | null): void {
    const { id } = this.plan.stages[stage]!;
    const execKey = execKeyOf(id, this.stage(stage).attempt);
    const output = answer?.outcome === 'succeeded' ? answer.outputs.output : null;
    const fields = answer?.outcome === 'failed' ? answer.fields : undefined;
    this.events.push({
      id: EVENT_ID.attempt(execKey, 'answered'),
      body: {
        type: 'stage-answered',
        stage: id,
        execKey,
        outcome: answer?.outcome ?? 'cancelled',
        failure: answer?.outcome === 'failed' ? bounded(answer.failure) : null,
        ...(answer?.by === undefined ? {} : { by: clip(answer.by) }),
        ...(answer?.comment === undefined ? {} : { comment: clip(answer.comment) }),
        ...(fields === undefined ? {} : { fields }),
        ...(output === null ? {} : { output }),
      },
    });
  }

  /** A stage that owns its VM ended without a result: its activity may have left the VM alive. */
  endOwnVm(stage: number): void {
    const scope = this.index.scopeOf(stage);
    if (scope !== null && !this.index.isShared(scope)) this.release(scope);
  }

  /** What a scope does after one of its stages has left its VM. */
  afterStage(scope: number | null): void {
    if (scope === null) return;
    const { phase, running } = this.scope(scope);
    if (phase === 'draining' && running === 0) this.release(scope);
  }

  releaseIfDone(scope: number): void {
    const { phase, open } = this.scope(scope);
    if (phase === 'ready' && open === 0) this.release(scope);
  }

  release(scope: number): void {
    const { generation, lease } = this.scope(scope);
    this.setScope(scope, { phase: 'releasing' });
    this.commands.push({ type: 'release-vm', scope: this.plan.scopes[scope]!.id, generation, lease });
  }

  done(): Transition {
    for (const scope of this.#emptied) this.releaseIfDone(scope);
    this.#beginFinally();
    this.#dispatch();
    const state: RunState = {
      stages: this.#stages.rows,
      scopes: this.#scopes.rows,
      ready: this.#ready.stages,
      running: this.#running,
      open: this.#open,
      maxParallel: this.#before.maxParallel,
      cancelRequested: this.cancelRequested,
      gaveUp: this.gaveUp,
      finallyBegun: this.#finallyBegun,
      finallyStop: this.finallyStop,
      firstFailure: this.#firstFailure,
      outcome: null,
    };
    if (this.#open > 0 || state.scopes.some((row) => row.some((scope) => scope.phase !== 'idle')))
      return { state, commands: this.commands, events: this.events };
    const outcome = outcomeOf(this.plan, this.index, state);
    this.commands.push({ type: 'finish', outcome, merge: mergeOf(this.plan, this.index, state) });
    return { state: { ...state, outcome }, commands: this.commands, events: this.events };
  }

  /** Starts ready stages in plan order while there is room; those whose VM is not there yet do not hold up others. */
  #dispatch(): void {
    this.#ready.startWhile(
      () => this.#running < this.#before.maxParallel,
      (stage) => this.#startInScope(stage, this.index.scopeOf(stage)!),
    );
  }

  #startInScope(stage: number, scope: number): boolean {
    const { phase, generation } = this.scope(scope);
    const shared = this.index.isShared(scope);
    if (shared && phase === 'idle') {
      this.setScope(scope, { phase: 'acquiring' });
      this.commands.push({ type: 'acquire-vm', scope: this.plan.scopes[scope]!.id, generation });
    }
    if (phase !== (shared ? 'ready' : 'idle')) return false;
    this.#running += 1;
    this.setScope(scope, { running: this.scope(scope).running + 1 });
    this.#start(stage);
    return true;
  }

  #start(stage: number): void {
    const { id, doing, scope, wait } = this.plan.stages[stage]!;
    const attempt = this.stage(stage).attempt + 1;
    const upstream = upstreamOf(this, stage);
    switch (doing) {
      case 'ask':
        this.setStage(stage, { phase: 'asking', attempt });
        this.commands.push({ type: 'ask', stageId: id, attempt, upstream });
        break;
      case 'wait':
        this.setStage(stage, { phase: 'sleeping', attempt });
        if (isTimeFound(wait)) this.commands.push({ type: 'find-time', stageId: id, attempt, upstream });
        else this.commands.push({ type: 'wait', stageId: id, execKey: execKeyOf(id, attempt), attempt });
        break;
      case 'run': {
        const vm = scope === null ? null : this.scope(this.scopeIndex(scope));
        this.setStage(stage, { phase: 'running', attempt });
        this.commands.push({
          type: 'run-stage',
          stageId: id,
          execKey: execKeyOf(id, attempt),
          attempt,
          scope,
          generation: vm?.generation ?? 0,
          lease: vm?.lease ?? null,
          upstream,
        });
        break;
      }
    }
  }

  #evaluate(stage: number, reads: readonly string[]): void {
    const evaluation = this.stage(stage).evaluations + 1;
    this.setStage(stage, { phase: 'deciding', evaluations: evaluation });
    const upstream = endsReadBy(this, stage, reads);
    this.commands.push({ type: 'evaluate', stageId: this.plan.stages[stage]!.id, evaluation, upstream });
  }
}

function lostTooOften(failure: StageFailure, lost: number): StageFailure {
  return { ...failure, message: `the VM was lost ${lost} times; the last time: ${failure.message}` };
}

/** Carried state has a bound, so have the texts in it. */
const TEXT_LIMIT = 2_048;

function clip(text: string): string {
  return text.length <= TEXT_LIMIT ? text : `${text.slice(0, TEXT_LIMIT - 1)}…`;
}

function bounded(failure: StageFailure): StageFailure {
  return { code: failure.code, message: clip(failure.message), stderrTail: failure.stderrTail.slice(-TEXT_LIMIT) };
}
