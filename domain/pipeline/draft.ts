import type { StageFailure } from '../run/stage-result.ts';
import { clipFailure } from './carried-text.ts';
import type { Command } from './command.ts';
import type { MachinePlan } from './machine-plan.ts';
import { mergeOf, outcomeOf } from './outcome.ts';
import type { PlanIndex } from './plan-index.ts';
import { ReadyStages } from './ready-stages.ts';
import { RowsDraft } from './rows.ts';
import type { EndPhase, RunState, ScopeState, StageState } from './state.ts';
import { execKeyOf } from './stage-keys.ts';
import type { MachineRunEvent, Transition } from './transition.ts';

/**
 * One transition: copies the rows that change, keeps the counts right, and collects commands and events. Files such as
 * `ends.ts` and `reruns.ts` decide what happens to a stage.
 */
export class Draft {
  readonly plan: MachinePlan;
  readonly index: PlanIndex;
  readonly commands: Command[] = [];
  readonly events: MachineRunEvent[] = [];
  cancelRequested: boolean;
  gaveUp: StageFailure | null;
  finallyStop: string | null;
  /** Every other stage has ended, and stages with `finally` may start. */
  finallyBegun: boolean;
  readonly #before: RunState;
  readonly #stages: RowsDraft<StageState>;
  readonly #scopes: RowsDraft<ScopeState>;
  readonly #ready: ReadyStages;
  #running: number;
  #open: number;
  #firstFailure: RunState['firstFailure'];
  /** Scopes whose last open stage ended in this transition. */
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
    this.finallyBegun = before.finallyBegun;
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

  /** Scopes that have no open stage since this transition. */
  get emptied(): Iterable<number> {
    return this.#emptied;
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

  /** The stage's index if it runs under that key, else null. */
  runningStage(id: string, execKey: string): number | null {
    const stage = this.stageIndex(id);
    const state = this.stage(stage);
    return state.phase === 'running' && execKeyOf(id, state.attempt) === execKey ? stage : null;
  }

  /** The result is of an earlier run, and the stage has not run in this one. */
  isGiven(stage: number): boolean {
    const { phase, attempt, evaluations } = this.stage(stage);
    return (phase === 'succeeded' || phase === 'passed') && attempt === 0 && evaluations === 0;
  }

  /** The first VM of the scope has to hold work that an earlier run did. */
  hasGivenWork(scope: number): boolean {
    return (
      this.index.isSavedEachStep(scope) &&
      this.index.stagesOf(scope).some((stage) => this.isGiven(stage) && this.stage(stage).phase === 'succeeded')
    );
  }

  /** The key of the stage's current attempt. */
  execKey(stage: number): string {
    return execKeyOf(this.plan.stages[stage]!.id, this.stage(stage).attempt);
  }

  isTolerated(stage: number): boolean {
    return this.plan.stages[stage]!.continueOnError === true;
  }

  /** A cancel of the run does not stop stages with `finally`. */
  mayNotStart(stage: number): boolean {
    return this.index.isFinally(stage) ? this.finallyStop !== null : this.cancelRequested;
  }

  whyNothingStarts(): string {
    return this.gaveUp === null ? 'the run was cancelled' : `the run gave up: ${this.gaveUp.code}`;
  }

  /** The stage waits for room or its VM. */
  makeReady(stage: number): void {
    this.setStage(stage, { phase: 'ready' });
    this.#ready.add(stage);
  }

  unready(stage: number): void {
    this.#ready.remove(stage);
  }

  /**
   * Starts ready stages in plan order while there is room; stages whose VM does not exist yet do not hold up others.
   * @param start  false: this one does not start yet
   */
  startWhileRoom(start: (stage: number) => boolean): void {
    this.#ready.startWhile(() => this.#running < this.#before.maxParallel, start);
  }

  /** Takes a slot of the run and of the scope. */
  enter(scope: number): void {
    this.#running += 1;
    this.setScope(scope, { running: this.scope(scope).running + 1 });
  }

  /** Frees the slot of a stage that no longer runs; the caller decides about its next phase. */
  leave(stage: number): void {
    const scope = this.index.scopeOf(stage);
    if (scope !== null) {
      this.#running -= 1;
      this.setScope(scope, { running: this.scope(scope).running - 1 });
    }
    this.setStage(stage, { phase: 'waiting' });
  }

  /** Puts the stage into an end state; stages that wait for it do not learn of it here. */
  end(stage: number, change: Partial<StageState> & { readonly phase: EndPhase }): void {
    if (this.stage(stage).phase === 'ready') this.unready(stage);
    const scope = this.index.scopeOf(stage);
    this.#open -= 1;
    // If a loop does not complete, the result of its earlier visits is dropped.
    const isCut = this.plan.stages[stage]!.loop !== undefined && change.result === undefined;
    this.setStage(stage, isCut ? { ...change, result: null } : change);
    if (scope === null) return;
    this.setScope(scope, { open: this.scope(scope).open - 1 });
    if (this.scope(scope).open === 0) this.#emptied.add(scope);
  }

  /** Lets a stage that had ended wait again. */
  reopen(stage: number): void {
    const scope = this.index.scopeOf(stage);
    this.#open += 1;
    if (scope !== null) this.setScope(scope, { open: this.scope(scope).open + 1 });
    this.setStage(stage, { phase: 'waiting', result: null, skipCause: null });
  }

  /** Records the first failure as the reason of the run's end. */
  noteFailure(stage: number, failure: StageFailure): void {
    this.#firstFailure ??= { stage: this.plan.stages[stage]!.id, failure: clipFailure(failure) };
  }

  release(scope: number): void {
    const { generation, lease } = this.scope(scope);
    this.setScope(scope, { phase: 'releasing' });
    const resumes = this.isToResume(scope) ? { resumes: true as const } : {};
    this.commands.push({ type: 'release-vm', scope: this.plan.scopes[scope]!.id, generation, lease, ...resumes });
  }

  /** A VM follows that may hold the work of the lost one. */
  isToResume(scope: number): boolean {
    const { lossReason, open } = this.scope(scope);
    return lossReason !== null && open > 0 && this.index.isSavedEachStep(scope);
  }

  releaseIfDone(scope: number): void {
    const { phase, open } = this.scope(scope);
    if (phase === 'ready' && open === 0) this.release(scope);
  }

  /** A stage that owns its VM ended without a result: its activity may have left the VM alive. */
  endOwnVm(stage: number): void {
    const scope = this.index.scopeOf(stage);
    if (scope !== null && !this.index.isShared(scope)) this.release(scope);
  }

  /** Releases the VM of a draining scope once its last running stage has left it. */
  afterStage(scope: number | null): void {
    if (scope === null) return;
    const { phase, running } = this.scope(scope);
    if (phase === 'draining' && running === 0) this.release(scope);
  }

  /** The transition; its last command is `finish` if nothing of the run is open. */
  complete(): Transition {
    const state: RunState = {
      stages: this.#stages.rows,
      scopes: this.#scopes.rows,
      ready: this.#ready.stages,
      running: this.#running,
      open: this.#open,
      maxParallel: this.#before.maxParallel,
      cancelRequested: this.cancelRequested,
      gaveUp: this.gaveUp,
      finallyBegun: this.finallyBegun,
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
}
