import { LOST_VM_ATTEMPTS } from '../plan/plan.ts';
import { attemptText } from '../run/attempt.ts';
import { EVENT_ID } from '../run/event-id.ts';
import type { StageFailure } from '../run/stage-result.ts';
import type { Command } from './command.ts';
import { deadBecause, edgeState } from './edges.ts';
import type { MachinePlan } from './machine-plan.ts';
import type { Edge, PlanIndex } from './plan-index.ts';
import { ReadyStages } from './ready-stages.ts';
import { RowsDraft } from './rows.ts';
import {
  type EndPhase,
  isEnd,
  type RunState,
  type ScopeState,
  type SkipCause,
  type StageOutputs,
  type StageState,
} from './state.ts';
import { mergeOf, outcomeOf } from './outcome.ts';
import type { MachineRunEvent, Transition } from './transition.ts';

/** Of a stage of the plan itself: a machine of an item says its instance to whoever carries its commands out. */
export function execKeyOf(stage: string, attempt: number): string {
  return attemptText({ stage, instance: [], attempt });
}

export function timerId(plan: MachinePlan, stage: number, attempt: number): string {
  return `retry/${plan.stages[stage]!.id}/${attempt}`;
}

/** One transition in the making: copies what it changes and collects what it asks for. */
export class Draft {
  readonly plan: MachinePlan;
  readonly index: PlanIndex;
  readonly commands: Command[] = [];
  readonly events: MachineRunEvent[] = [];
  cancelRequested: boolean;
  gaveUp: StageFailure | null;
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

  /** Its own condition did not hold: those that wait for its success go on, without data of it. */
  pass(stage: number): void {
    this.#end(stage, { phase: 'passed', result: { output: null, outputs: {} } });
    this.#follow(stage);
  }

  cancel(stage: number): void {
    this.#end(stage, { phase: 'cancelled' });
    this.#follow(stage);
  }

  fail(stage: number, failure: StageFailure): void {
    this.#firstFailure ??= { stage: this.plan.stages[stage]!.id, failure: bounded(failure) };
    this.#end(stage, { phase: 'failed' });
    this.#follow(stage);
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
    this.setStage(stage, change);
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
        switch (edgeState(edge.on, this.stage(earlier).phase)) {
          case 'open':
            break;
          case 'holds': {
            const waitingOn = this.stage(edge.stage).waitingOn - 1;
            this.setStage(edge.stage, { waitingOn });
            if (waitingOn === 0) this.settle(edge.stage);
            break;
          }
          case 'dead':
            if (this.#skipFor(edge.stage, earlier, edge.on)) queue.push(edge.stage);
            break;
        }
      }
    }
  }

  /** A stage that runs stays: what it took of a neighbour that is being run again stays valid. */
  #skipFor(stage: number, earlier: number, on: Edge['on']): boolean {
    const { phase } = this.stage(stage);
    if (isEnd(phase) || phase === 'running' || phase === 'asking') return false;
    this.skip(
      stage,
      this.#skipCause(earlier, on),
      deadBecause(on, this.plan.stages[earlier]!.id, this.stage(earlier).phase),
    );
    return true;
  }

  #skipCause(earlier: number, on: Edge['on']): SkipCause {
    const { phase, skipCause } = this.stage(earlier);
    if (phase === 'skipped') return skipCause ?? 'failure';
    return phase === 'cancelled' ? 'cancel' : on === 'failure' ? 'unneeded' : 'failure';
  }

  failOrRetry(stage: number, execKey: string, failure: StageFailure): void {
    const { retry } = this.plan.stages[stage]!;
    const failures = this.stage(stage).failures + 1;
    this.setStage(stage, { failures });
    const scope = this.index.scopeOf(stage);
    const noVmWillCome =
      scope !== null && this.scope(scope).phase === 'draining' && this.scope(scope).lossReason === null;
    if (failures >= retry.maxAttempts || this.cancelRequested || noVmWillCome) return this.fail(stage, failure);
    this.#retry(
      stage,
      execKey,
      `attempt ${failures} of ${retry.maxAttempts} failed: ${failure.message}`,
      retry.backoffMs,
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

  whyNothingStarts(): string {
    return this.gaveUp === null ? 'the run was cancelled' : `the run gave up: ${this.gaveUp.code}`;
  }

  /** Makes a waiting stage ready when nothing is before it any more, or skips it when it can never start. */
  settle(stage: number): void {
    const { phase, waitingOn } = this.stage(stage);
    if (phase !== 'waiting') return;
    if (this.cancelRequested) return this.skip(stage, 'cancel', this.whyNothingStarts());
    if (waitingOn > 0) {
      const dead = this.index
        .edgesBefore(stage)
        .find((edge) => edgeState(edge.on, this.stage(edge.stage).phase) === 'dead');
      if (dead !== undefined && this.#skipFor(stage, dead.stage, dead.on)) this.#follow(stage);
      return;
    }
    // Without a VM there is nothing to wait for, and no slot to take.
    if (this.index.scopeOf(stage) === null) return this.#start(stage);
    this.setStage(stage, { phase: 'ready' });
    this.#ready.add(stage);
  }

  loseOwnVm(scope: number, stage: number, execKey: string, failure: StageFailure): void {
    const lost = this.scope(scope).lost + 1;
    this.setScope(scope, { lost });
    this.release(scope);
    if (this.cancelRequested) this.cancel(stage);
    else if (lost > LOST_VM_ATTEMPTS) this.fail(stage, lostTooOften(failure, lost));
    else this.#retry(stage, execKey, `${failure.code}: ${failure.message}`, 0);
  }

  loseSharedVm(scope: number, stage: number, failure: StageFailure): void {
    if (this.cancelRequested) return this.cancel(stage);
    // A second loss while draining is the same VM.
    if (this.scope(scope).phase === 'draining') {
      if (this.scope(scope).lossReason === null) this.fail(stage, lostTooOften(failure, this.scope(scope).lost));
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
    const chosen = failing.length > 0 ? failing : stages.filter((stage) => this.stage(stage).phase === 'ready');
    for (const stage of chosen) if (!isEnd(this.stage(stage).phase)) this.fail(stage, failure);
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
   * Its failed stages stay failed.
   */
  restartScope(scope: number, generation: number, reason: string): void {
    const again = this.index
      .stagesOf(scope)
      .filter((stage) => this.stage(stage).phase === 'succeeded' && this.stage(stage).attempt > 0);
    const revived: number[] = [];
    for (const stage of again) this.#reopen(stage, revived);
    const { id } = this.plan.scopes[scope]!;
    const idOf = (stage: number): string => this.plan.stages[stage]!.id;
    this.events.push({
      id: EVENT_ID.scopeRestarted(id, generation),
      body: { type: 'scope-restarted', scope: id, reason: clip(reason), stages: [...again, ...revived].map(idOf) },
    });
    for (const stage of [...this.index.stagesOf(scope), ...revived]) this.settle(stage);
  }

  #reopen(stage: number, revived: number[]): void {
    const { phase } = this.stage(stage);
    const after = this.index.edgesAfter(stage).map((edge) => ({ ...edge, was: edgeState(edge.on, phase) }));
    const scope = this.index.scopeOf(stage);
    this.#open += 1;
    if (scope !== null) this.setScope(scope, { open: this.scope(scope).open + 1 });
    this.setStage(stage, { phase: 'waiting', result: null, skipCause: null });
    for (const edge of after) {
      const state = this.stage(edge.stage);
      if (edge.was === 'holds') {
        this.setStage(edge.stage, { waitingOn: state.waitingOn + 1 });
        if (state.phase !== 'ready') continue;
        this.#ready.remove(edge.stage);
        this.setStage(edge.stage, { phase: 'waiting' });
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

  withdraw(stage: number): void {
    this.commands.push({ type: 'withdraw', stageId: this.plan.stages[stage]!.id, attempt: this.stage(stage).attempt });
    this.noteAnswer(stage, 'cancelled', null);
    this.cancel(stage);
  }

  /** For readers: how the question of the stage's attempt ended. */
  noteAnswer(stage: number, outcome: 'succeeded' | 'failed' | 'cancelled', failure: StageFailure | null): void {
    const { id } = this.plan.stages[stage]!;
    const execKey = execKeyOf(id, this.stage(stage).attempt);
    this.events.push({
      id: EVENT_ID.attempt(execKey, 'answered'),
      body: {
        type: 'stage-answered',
        stage: id,
        execKey,
        outcome,
        failure: failure === null ? null : bounded(failure),
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
    const { id, doing, scope } = this.plan.stages[stage]!;
    const attempt = this.stage(stage).attempt + 1;
    const upstream = this.#upstreamOf(stage);
    switch (doing) {
      case 'ask':
        this.setStage(stage, { phase: 'asking', attempt });
        this.commands.push({ type: 'ask', stageId: id, attempt, upstream });
        this.events.push({
          id: EVENT_ID.attempt(execKeyOf(id, attempt), 'asking'),
          body: { type: 'stage-asking', stage: id, execKey: execKeyOf(id, attempt), attempt },
        });
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

  #upstreamOf(stage: number): Readonly<Record<string, StageOutputs>> {
    const upstream: Record<string, StageOutputs> = {};
    for (const { stage: source, index } of this.index.takenBy(stage)) {
      const { result } = this.stage(index);
      if (result === null)
        throw new Error(`stage "${this.plan.stages[stage]!.id}" starts before "${source}" has a result`);
      upstream[source] = result;
    }
    return upstream;
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
