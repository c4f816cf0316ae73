import { LOST_VM_ATTEMPTS, type Plan } from '../plan/plan.ts';
import type { RunOutcome, StageFailure } from '../run/event.ts';
import type { Command } from './command.ts';
import type { PlanIndex } from './plan-index.ts';
import { isEnd, type NamedOutput, type RunState, type ScopeState, type StageOutputs, type StageState } from './state.ts';
import type { MachineRunEvent, Transition } from './transition.ts';

export function execKeyOf(stageId: string, attempt: number): string {
  return `${stageId}/0/${attempt}`;
}

export function timerId(plan: Plan, stage: number, attempt: number): string {
  return `retry/${plan.stages[stage]!.id}/${attempt}`;
}

/** One transition in the making: copies what it changes and collects what it asks for. */
export class Draft {
  readonly plan: Plan;
  readonly index: PlanIndex;
  readonly commands: Command[] = [];
  readonly events: MachineRunEvent[] = [];
  cancelRequested: boolean;
  gaveUp: StageFailure | null;
  readonly #before: RunState;
  readonly #stages: StageState[];
  readonly #scopes: ScopeState[];
  readonly #ready: number[];
  #running: number;
  #open: number;
  #firstFailure: RunState['firstFailure'];
  /** Scopes that lost their last open stage, of whatever scope the reason was. */
  readonly #emptied = new Set<number>();

  constructor(plan: Plan, index: PlanIndex, before: RunState) {
    this.plan = plan;
    this.index = index;
    this.#before = before;
    this.#stages = [...before.stages];
    this.#scopes = [...before.scopes];
    this.#ready = [...before.ready];
    this.#running = before.running;
    this.#open = before.open;
    this.#firstFailure = before.firstFailure;
    this.cancelRequested = before.cancelRequested;
    this.gaveUp = before.gaveUp;
  }

  stage(stage: number): StageState {
    return this.#stages[stage]!;
  }

  scope(scope: number): ScopeState {
    return this.#scopes[scope]!;
  }

  setStage(stage: number, change: Partial<StageState>): void {
    this.#stages[stage] = { ...this.stage(stage), ...change };
  }

  setScope(scope: number, change: Partial<ScopeState>): void {
    this.#scopes[scope] = { ...this.scope(scope), ...change };
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

  /** The stage's index when it runs under that key, else null. */
  runningStage(id: string, execKey: string): number | null {
    const stage = this.index.stageById(id);
    if (stage === undefined) throw new Error(`the plan has no stage "${id}"`);
    const state = this.stage(stage);
    return state.phase === 'running' && execKeyOf(id, state.attempt) === execKey ? stage : null;
  }

  /** A running stage no longer runs; what it becomes is the caller's to say. */
  leave(stage: number): void {
    const scope = this.index.scopeOf(stage);
    this.#running -= 1;
    this.setScope(scope, { running: this.scope(scope).running - 1 });
    this.setStage(stage, { phase: 'waiting' });
  }

  /** Puts a stage in an end state. */
  end(stage: number, phase: 'succeeded' | 'failed' | 'skipped' | 'cancelled'): void {
    if (this.stage(stage).phase === 'ready') this.#dequeue(stage);
    const scope = this.index.scopeOf(stage);
    this.#open -= 1;
    this.setScope(scope, { open: this.scope(scope).open - 1 });
    this.setStage(stage, { phase });
    if (this.scope(scope).open === 0) this.#emptied.add(scope);
  }

  succeed(stage: number, result: StageOutputs): void {
    this.end(stage, 'succeeded');
    this.setStage(stage, { result });
    for (const dependent of this.index.dependentsOf(stage)) {
      const waitingOn = this.stage(dependent).waitingOn - 1;
      this.setStage(dependent, { waitingOn });
      if (waitingOn === 0) this.settle(dependent);
    }
  }

  fail(stage: number, failure: StageFailure): void {
    this.#firstFailure ??= { stage: this.plan.stages[stage]!.id, failure: bounded(failure) };
    this.end(stage, 'failed');
    this.skipDependents(stage, 'failed');
  }

  failOrRetry(stage: number, execKey: string, failure: StageFailure): void {
    const { retry } = this.plan.stages[stage]!;
    const failures = this.stage(stage).failures + 1;
    this.setStage(stage, { failures });
    const { phase, lossReason } = this.scope(this.index.scopeOf(stage));
    const noVmWillCome = phase === 'draining' && lossReason === null;
    if (failures >= retry.maxAttempts || this.cancelRequested || noVmWillCome) return this.fail(stage, failure);
    this.#retry(stage, execKey, `attempt ${failures} of ${retry.maxAttempts} failed: ${failure.message}`, retry.backoffMs);
  }

  #retry(stage: number, execKey: string, reason: string, delayMs: number): void {
    this.events.push({
      id: `stage/${execKey}/retrying`,
      body: { type: 'stage-retrying', stage: this.plan.stages[stage]!.id, execKey, reason: clip(reason), delayMs },
    });
    if (delayMs === 0) return this.settle(stage);
    this.setStage(stage, { phase: 'backoff' });
    this.commands.push({ type: 'start-timer', id: timerId(this.plan, stage, this.stage(stage).attempt), delayMs });
  }

  whyNothingStarts(): string {
    return this.gaveUp === null ? 'the run was cancelled' : `the run gave up: ${this.gaveUp.code}`;
  }

  skip(stage: number, reason: string): void {
    const { id } = this.plan.stages[stage]!;
    this.end(stage, 'skipped');
    this.events.push({ id: `stage/${id}/skipped`, body: { type: 'stage-skipped', stage: id, reason: clip(reason) } });
  }

  /** Skips whatever can no longer start because of this stage, nearest first. */
  skipDependents(stage: number, what: string): void {
    const queue = [{ stage, what }];
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      for (const dependent of this.index.dependentsOf(next.stage)) {
        const { phase } = this.stage(dependent);
        // A dependent runs here only if its scope's neighbour is being run again; what it took stays valid.
        if (isEnd(phase) || phase === 'running') continue;
        this.skip(dependent, `stage "${this.plan.stages[next.stage]!.id}" ${next.what}`);
        queue.push({ stage: dependent, what: 'was skipped' });
      }
    }
  }

  /** Makes a waiting stage ready when nothing is before it any more, or skips it when it can never start. */
  settle(stage: number): void {
    const { phase, waitingOn } = this.stage(stage);
    if (phase !== 'waiting') return;
    if (this.cancelRequested) return this.skip(stage, this.whyNothingStarts());
    if (waitingOn > 0) {
      const dead = this.index.dependenciesOf(stage).find((dependency) => ['failed', 'skipped', 'cancelled'].includes(this.stage(dependency).phase));
      if (dead === undefined) return;
      this.skip(stage, `stage "${this.plan.stages[dead]!.id}" ${this.stage(dead).phase === 'failed' ? 'failed' : 'was skipped'}`);
      return this.skipDependents(stage, 'was skipped');
    }
    this.setStage(stage, { phase: 'ready' });
    this.#enqueue(stage);
  }

  loseOwnVm(scope: number, stage: number, execKey: string, failure: StageFailure): void {
    const lost = this.scope(scope).lost + 1;
    this.setScope(scope, { lost });
    this.release(scope);
    if (this.cancelRequested) {
      this.end(stage, 'cancelled');
      this.skipDependents(stage, 'was cancelled');
    } else if (lost > LOST_VM_ATTEMPTS) this.fail(stage, lostTooOften(failure, lost));
    else this.#retry(stage, execKey, `${failure.code}: ${failure.message}`, 0);
  }

  loseSharedVm(scope: number, stage: number, failure: StageFailure): void {
    if (this.cancelRequested) {
      this.end(stage, 'cancelled');
      this.skipDependents(stage, 'was cancelled');
      return;
    }
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
      this.skip(stage, `its VM failed with ${failure.code}`);
      this.skipDependents(stage, 'was skipped');
    }
  }

  /** The finished stages of a shared scope were in the VM that is gone: they run again. */
  restartScope(scope: number, generation: number, reason: string): void {
    const again = this.index.stagesOf(scope).filter((stage) => this.stage(stage).phase === 'succeeded');
    for (const stage of again) {
      this.#open += 1;
      this.setScope(scope, { open: this.scope(scope).open + 1 });
      this.setStage(stage, { phase: 'waiting', result: null });
      for (const dependent of this.index.dependentsOf(stage)) {
        this.setStage(dependent, { waitingOn: this.stage(dependent).waitingOn + 1 });
        if (this.stage(dependent).phase !== 'ready') continue;
        this.#dequeue(dependent);
        this.setStage(dependent, { phase: 'waiting' });
      }
    }
    const { id } = this.plan.scopes[scope]!;
    this.events.push({
      id: `run/scope-restarted/${id}/${generation}`,
      body: { type: 'scope-restarted', scope: id, reason: clip(reason), stages: again.map((stage) => this.plan.stages[stage]!.id) },
    });
    for (const stage of this.index.stagesOf(scope)) this.settle(stage);
  }

  /** What a scope does after one of its stages has left its VM. */
  afterStage(scope: number): void {
    const { phase, running } = this.scope(scope);
    if (phase === 'draining' && running === 0) this.release(scope);
  }

  releaseIfDone(scope: number): void {
    const { phase, open } = this.scope(scope);
    if (phase === 'ready' && open === 0) this.release(scope);
  }

  release(scope: number): void {
    this.setScope(scope, { phase: 'releasing' });
    this.commands.push({ type: 'release-vm', scope: this.plan.scopes[scope]!.id, generation: this.scope(scope).generation });
  }

  done(): Transition {
    for (const scope of this.#emptied) this.releaseIfDone(scope);
    this.#dispatch();
    const outcome = this.#open === 0 && this.#scopes.every((scope) => scope.phase === 'idle') ? this.#outcome() : null;
    if (outcome !== null) this.commands.push({ type: 'finish', outcome, merge: this.#merge() });
    const state: RunState = {
      stages: this.#stages,
      scopes: this.#scopes,
      ready: this.#ready,
      running: this.#running,
      open: this.#open,
      maxParallel: this.#before.maxParallel,
      cancelRequested: this.cancelRequested,
      gaveUp: this.gaveUp,
      firstFailure: this.#firstFailure,
      outcome,
    };
    return { state, commands: this.commands, events: this.events };
  }

  /** Starts ready stages in plan order while there is room; those whose VM is not there yet do not hold up others. */
  #dispatch(): void {
    let kept = 0;
    let next = 0;
    for (; next < this.#ready.length && this.#running < this.#before.maxParallel; next += 1) {
      const stage = this.#ready[next]!;
      const scope = this.index.scopeOf(stage);
      const { phase, generation } = this.scope(scope);
      const shared = this.index.isShared(scope);
      if (shared && phase === 'idle') {
        this.setScope(scope, { phase: 'acquiring' });
        this.commands.push({ type: 'acquire-vm', scope: this.plan.scopes[scope]!.id, generation });
      }
      if (phase === (shared ? 'ready' : 'idle')) this.#run(stage, scope);
      else this.#ready[kept++] = stage;
    }
    this.#ready.splice(kept, next - kept);
  }

  #run(stage: number, scope: number): void {
    const { id } = this.plan.stages[stage]!;
    const attempt = this.stage(stage).attempt + 1;
    const { generation, vmKey, running } = this.scope(scope);
    const upstream: Record<string, StageOutputs> = {};
    for (const source of this.index.sourcesOf(stage)) {
      const { result } = this.stage(source);
      if (result === null) throw new Error(`stage "${id}" starts before "${this.plan.stages[source]!.id}" has a result`);
      upstream[this.plan.stages[source]!.id] = result;
    }
    this.#running += 1;
    this.setScope(scope, { running: running + 1 });
    this.setStage(stage, { phase: 'running', attempt });
    this.commands.push({
      type: 'run-stage',
      stageId: id,
      execKey: execKeyOf(id, attempt),
      attempt,
      scope: this.plan.scopes[scope]!.id,
      generation,
      lease: vmKey === null ? null : { vmKey },
      upstream,
    });
  }

  #outcome(): RunOutcome {
    const failed = this.#firstFailure;
    const cut = this.#stages.some((stage) => stage.phase === 'skipped' || stage.phase === 'cancelled');
    const output = this.plan.output.kind === 'stage' ? (this.#stages[this.index.outputStages[0]!]!.result?.output ?? null) : null;
    if (cut && this.gaveUp !== null) return { state: 'failed', failedStage: null, failure: bounded(this.gaveUp), output };
    // A cancel that came after the last result changes nothing.
    const state = cut && (this.cancelRequested || failed === null) ? 'cancelled' : failed === null ? 'succeeded' : 'failed';
    return { state, failedStage: failed?.stage ?? null, failure: failed?.failure ?? null, output };
  }

  /** Null also when a part is missing: half a merge would be taken for a whole one. */
  #merge(): readonly NamedOutput[] | null {
    if (this.plan.output.kind === 'stage') return null;
    const parts = this.index.outputStages.flatMap((stage) => {
      const output = this.#stages[stage]!.result?.output ?? null;
      return output === null ? [] : [{ name: this.plan.stages[stage]!.id, output }];
    });
    return parts.length === this.index.outputStages.length ? parts : null;
  }

  #enqueue(stage: number): void {
    const at = this.#position(stage);
    this.#ready.splice(at, 0, stage);
  }

  #dequeue(stage: number): void {
    this.#ready.splice(this.#position(stage), 1);
  }

  /** Where a stage stands, or would stand, in the ready list. */
  #position(stage: number): number {
    let low = 0;
    let high = this.#ready.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#ready[middle]! < stage) low = middle + 1;
      else high = middle;
    }
    return low;
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
