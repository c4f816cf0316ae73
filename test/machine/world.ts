import { isSavedEachStep, isSharedScope } from '../../domain/plan/scope.ts';
import { LOST_VM_ATTEMPTS } from '../../domain/errors/code-info.ts';
import type { DataRef, EdgePlan } from '../../domain/plan/plan.ts';
import type { RunOutcome } from '../../domain/run/event.ts';
import type { StageFailure, StageResult } from '../../domain/run/stage-result.ts';
import type { Command } from '../../domain/pipeline/command.ts';
import type { MachineEvent } from '../../domain/pipeline/event.ts';
import type { HeldAttempt, VmLease } from '../../domain/run/vm-lease.ts';
import { edgeState } from '../../domain/pipeline/edges.ts';
import type { MachinePlan, MachineScope } from '../../domain/pipeline/machine-plan.ts';
import { isReachable, lastGeneration } from '../../domain/pipeline/reach.ts';
import {
  type MachineRunEvent,
  type RunContext,
  start,
  type Transition,
  transition,
} from '../../domain/pipeline/machine.ts';
import { FINALLY_TIMER } from '../../domain/pipeline/stage-keys.ts';
import { flattenRows } from '../../domain/pipeline/rows.ts';
import { isEnd, type RunState, type StagePhase } from '../../domain/pipeline/state.ts';
import { stageResult } from '../rig/runs/stage-results.ts';

export type Ending =
  | 'ok'
  | 'not'
  | 'pass'
  | 'fail'
  | 'lost'
  | 'broken'
  | 'cancelled'
  | 'acquire-lost'
  | 'acquire-broken';

/** Executes the commands of the machine, one answer at a time, and records what a real world could not do. */
export class World {
  readonly plan: MachinePlan;
  state: RunState;
  readonly log: string[] = [];
  readonly events: MachineRunEvent[] = [];
  readonly complaints: string[] = [];
  finish: (Command & { readonly type: 'finish' }) | null = null;
  /** Commands that have not been answered. */
  readonly pending: Command[] = [];
  readonly #execKeys = new Set<string>();
  readonly #vms = new Set<string>();
  /** Leases of shared VMs that were acquired successfully. */
  readonly #leases = new Map<string, VmLease>();
  /** The attempts that have ended in each shared VM, or in the VMs that it resumes, in their order. */
  readonly #disks = new Map<string, readonly HeldAttempt[]>();
  /** The newest checkpoint of a lost VM holds so many of its attempts. */
  checkpointOf: (disk: readonly HeldAttempt[]) => number = (disk) => disk.length;
  /** Stages whose condition held, and which may start. */
  readonly #held = new Set<string>();
  /** The attempt with which each stage last succeeded. */
  readonly #succeeded = new Map<string, number>();
  #transitions = 0;
  #finallyMayStart = true;

  constructor(plan: MachinePlan, context: RunContext = {}) {
    this.plan = plan;
    this.#giveDisks(context.given ?? {});
    const first = start(plan, context);
    this.state = first.state;
    this.#take(first);
  }

  get outcome(): RunOutcome | null {
    return this.finish?.outcome ?? null;
  }

  get running(): readonly string[] {
    return this.pending.flatMap((command) => (command.type === 'run-stage' ? [command.stageId] : []));
  }

  /** Answers the first pending command that the words name: `a` a stage, `vm` an acquire, `release`, `timer`. */
  answer(what: string, ending: Ending = 'ok'): this {
    const index = this.pending.findIndex((command) =>
      command.type === 'run-stage' ||
      command.type === 'ask' ||
      command.type === 'wait' ||
      command.type === 'evaluate' ||
      command.type === 'find-time'
        ? command.stageId === what
        : what ===
          { 'acquire-vm': 'vm', 'release-vm': 'release', 'start-timer': 'timer' }[command.type as 'acquire-vm'],
    );
    if (index === -1)
      throw new Error(
        `nothing to answer for "${what}"; pending: ${this.pending.map((command) => command.type).join(', ')}`,
      );
    return this.answerAt(index, ending);
  }

  answerAt(index: number, ending: Ending): this {
    const [command] = this.pending.splice(index, 1);
    // An activity that ended without a result may have left its VM alive.
    if (
      command!.type === 'run-stage' &&
      command!.scope !== null &&
      command!.lease === null &&
      ['lost', 'broken', 'cancelled'].includes(ending)
    )
      this.#vms.add(`${command!.scope}/${command!.generation}`);
    const event = eventFor(command!, ending);
    if (event.type === 'stage-finished' && command!.type === 'run-stage' && command!.scope !== null)
      this.#write(`${command!.scope}/${command!.generation}`, { stage: command!.stageId, attempt: command!.attempt });
    if (event.type === 'stage-finished' && event.result.outcome === 'succeeded' && command!.type === 'run-stage')
      this.#succeeded.set(command!.stageId, command!.attempt);
    const holds = event.type === 'vm-acquired' && command!.type === 'acquire-vm' ? this.#resume(command!) : null;
    this.send(holds === null ? event : ({ ...event, holds } as MachineEvent));
    return this;
  }

  #write(vm: string, ended: HeldAttempt): void {
    this.#disks.set(vm, [...(this.#disks.get(vm) ?? []), ended]);
  }

  /** Before its first VM, a scope has the checkpoint of an earlier run, with the work of its given stages. */
  #giveDisks(given: NonNullable<RunContext['given']>): void {
    for (const scope of this.plan.scopes) {
      const stages = scope.stages.filter((id) => given[id] !== undefined && given[id].passed !== true);
      if (isSavedEachStep(scope))
        this.#disks.set(
          `${scope.id}/-1`,
          stages.map((stage) => ({ stage, attempt: 0 })),
        );
    }
  }

  #resume({ scope, generation, resumes }: Command & { readonly type: 'acquire-vm' }): readonly HeldAttempt[] | null {
    if (resumes !== true) return null;
    const lost = this.#disks.get(`${scope}/${generation - 1}`) ?? [];
    const held = lost.slice(0, this.checkpointOf(lost));
    this.#disks.set(`${scope}/${generation}`, held);
    return held.length === 0 ? null : held;
  }

  /** Checks for a request to end the command before its time. */
  isToStop(command: Command): boolean {
    if (command.type === 'run-stage' && this.plan.stages.find(({ id }) => id === command.stageId)!.finally === true)
      return this.state.finallyStop !== null;
    return this.state.cancelRequested;
  }

  send(event: MachineEvent): this {
    this.#transitions += 1;
    if (stopsLast(event, this.state.finallyBegun)) this.#finallyMayStart = false;
    if (event.type === 'condition-evaluated' && this.#letsStart(event)) this.#noteHeld(event);
    if (event.type === 'vm-acquired') this.#leases.set(`${event.scope}/${event.generation}`, event.lease);
    const before = JSON.stringify(this.state);
    const step = transition(this.plan, this.state, event);
    const again = transition(this.plan, JSON.parse(before) as RunState, event);
    if (JSON.stringify(this.state) !== before) this.complaints.push('a transition changed the state it was given');
    if (JSON.stringify(step) !== JSON.stringify(again))
      this.complaints.push('the same event from the same state gave something else');
    this.state = step.state;
    this.#take(step);
    return this;
  }

  get transitions(): number {
    return this.#transitions;
  }

  #take(step: Transition): void {
    this.events.push(...step.events);
    // Another visit decides each of them again.
    for (const { body } of step.events)
      if (body.type === 'loop-visited') for (const stage of body.stages) this.#held.delete(stage);
    for (const command of step.commands) {
      this.log.push(describe(command));
      if (this.outcome !== null) this.complaints.push(`${describe(command)} after finish`);
      this.#check(command);
      if (command.type === 'withdraw') this.#withdraw(command.stageId, command.attempt);
      else if (command.type !== 'finish' && command.type !== 'cancel-stages') this.pending.push(command);
    }
    if (step.state.running > step.state.maxParallel) this.complaints.push(`${step.state.running} stages run at once`);
  }

  /** A loop may continue with the results of its last visit. */
  #letsStart({ stageId, outcome }: { readonly stageId: string; readonly outcome: string }): boolean {
    const index = this.plan.stages.findIndex(({ id }) => id === stageId);
    const { loop } = this.plan.stages[index]!;
    const isLast = flattenRows(this.state.stages)[index]!.visits + 1 >= (loop?.maxVisits ?? Infinity);
    return outcome === 'holds' || (outcome === 'does-not-hold' && loop?.onLimit === 'pass' && isLast);
  }

  /** Only for the latest evaluation: a stage that has not begun is decided again when its inputs change. */
  #noteHeld({ stageId, evaluation }: { readonly stageId: string; readonly evaluation: number }): void {
    const state = flattenRows(this.state.stages)[this.plan.stages.findIndex(({ id }) => id === stageId)]!;
    if (state.phase === 'deciding' && state.evaluations === evaluation) this.#held.add(stageId);
  }

  #withdraw(stageId: string, attempt: number): void {
    const asked = this.pending.findIndex(
      (command) => command.type === 'ask' && command.stageId === stageId && command.attempt === attempt,
    );
    if (asked === -1) this.complaints.push(`${stageId} withdraws what it does not ask`);
    else this.pending.splice(asked, 1);
  }

  #check(command: Command): void {
    if (command.type === 'acquire-vm' || command.type === 'release-vm')
      this.#checkGeneration(command.scope, command.generation);
    if (command.type === 'acquire-vm') this.#acquire(`${command.scope}/${command.generation}`);
    if (command.type === 'release-vm') this.#release(command, `${command.scope}/${command.generation}`);
    if (command.type === 'run-stage' || command.type === 'ask') this.#checkStart(command);
    if (command.type === 'evaluate') this.#checkDecision(command);
    if (command.type === 'run-stage' && command.scope !== null) this.#checkRun(command, command.scope);
    if (command.type !== 'finish') return;
    this.finish = command;
    for (const { id, finally: isLast } of this.plan.stages)
      if (isLast === true && this.#finallyMayStart && ['skipped', 'cancelled'].includes(this.#phaseAfter(id)))
        this.complaints.push(`${id} was to run whatever happens, and is ${this.#phaseAfter(id)}`);
    const { output } = this.plan;
    if (
      output.kind === 'merge' &&
      command.merge === null &&
      output.stages.every((stage) => this.#phaseAfter(stage) === 'succeeded' && !this.#waits(stage))
    )
      this.complaints.push('succeeds without its merge');
    if (this.#vms.size > 0) this.complaints.push(`never released: ${[...this.#vms].join(', ')}`);
    const open = this.pending.filter(({ type }) => !['start-timer', 'wait', 'evaluate', 'find-time'].includes(type));
    if (open.length > 0) this.complaints.push(`finish while open: ${open.map(describe).join(', ')}`);
  }

  /** The machine must never ask for anything that activities refuse. */
  #checkGeneration(id: string, generation: number): void {
    const scope = this.plan.scopes.find((each) => each.id === id)!;
    if (generation > lastGeneration(scope, (stage) => this.plan.stages.find((each) => each.id === stage)))
      this.complaints.push(`${id} gets more VMs than it may`);
  }

  #acquire(vm: string): void {
    if (this.#vms.has(vm)) this.complaints.push(`${vm} acquired twice`);
    this.#vms.add(vm);
  }

  #release({ lease }: Command & { readonly type: 'release-vm' }, vm: string): void {
    this.#vms.delete(vm);
    if (JSON.stringify(lease) !== JSON.stringify(this.#leases.get(vm) ?? null))
      this.complaints.push(`${vm} is released with the lease of another VM`);
  }

  #checkStart(command: Command & { readonly type: 'run-stage' | 'ask' }): void {
    const attempt = `${command.stageId} attempt ${command.attempt}`;
    if (this.#execKeys.has(attempt)) this.complaints.push(`${attempt} given out twice`);
    this.#execKeys.add(attempt);
    const {
      after,
      anyFailure,
      takes,
      condition,
      finally: isLast,
    } = this.plan.stages.find(({ id }) => id === command.stageId)!;
    if (condition !== null && !this.#held.has(command.stageId)) this.complaints.push(`${attempt} starts undecided`);
    const holding = after.filter((edge) => this.#holds(edge));
    if (anyFailure === true && after.some(({ on }) => on === 'failure') && !holding.some(({ on }) => on === 'failure'))
      this.complaints.push(`${attempt} starts after no failure`);
    for (const edge of after) {
      if (holding.includes(edge) || (anyFailure === true && edge.on === 'failure')) continue;
      this.complaints.push(
        `${attempt} starts for the ${edge.on} of ${edge.stage}, which is ${this.#phaseAfter(edge.stage)}`,
      );
    }
    if (isLast === true) this.#checkLast(attempt);
    if (!takes.every(({ stage }) => stage in command.upstream)) this.complaints.push(`${attempt} lacks data`);
  }

  #checkLast(attempt: string): void {
    if (!this.#finallyMayStart) this.complaints.push(`${attempt} starts after its time`);
    for (const { id, finally: isLast } of this.plan.stages)
      if (isLast !== true && !isEnd(this.#phaseAfter(id)))
        this.complaints.push(`${attempt} starts before ${id} has ended`);
  }

  /**
   * A condition is decided once for each time that its edges begin to hold, by stages that have ended. No stage starts
   * while its condition is undecided.
   */
  #checkDecision({ stageId, evaluation, upstream }: Command & { readonly type: 'evaluate' }): void {
    const name = `${stageId} evaluation ${evaluation}`;
    if (this.#execKeys.has(name)) this.complaints.push(`${name} asked twice`);
    this.#execKeys.add(name);
    const { after, anyFailure, condition } = this.plan.stages.find(({ id }) => id === stageId)!;
    // A stage that has begun keeps its decision.
    const hasBegun = [...this.#execKeys].some((key) => key.startsWith(`${stageId} attempt `));
    if (this.#held.has(stageId) && hasBegun) this.complaints.push(`${name} after its condition held`);
    this.#held.delete(stageId);
    for (const edge of after)
      if (!this.#holds(edge) && !(anyFailure === true && edge.on === 'failure'))
        this.complaints.push(`${name} before ${edge.stage} has ended`);
    for (const source of condition ?? [])
      if (upstream[source]?.state !== this.#phaseAfter(source))
        this.complaints.push(`${name} reads ${source} as ${upstream[source]?.state ?? 'absent'}`);
  }

  #checkRun(command: Command & { readonly type: 'run-stage' }, scope: string): void {
    const vm = `${scope}/${command.generation}`;
    const isShared = isSharedScope(this.plan.scopes.find(({ id }) => id === scope)!);
    const stage = this.plan.stages.find(({ id }) => id === command.stageId)!;
    if (!isReachable(stage, isShared, command.attempt, command.generation))
      this.complaints.push(`${command.execKey} in ${vm} is out of reach`);
    if (isShared !== (command.lease !== null))
      this.complaints.push(`${command.execKey} has ${command.lease === null ? 'no' : 'a'} lease`);
    const planned = this.plan.scopes.find(({ id }) => id === scope)!;
    if (isSavedEachStep(planned)) this.#checkDisk(command, planned);
    if (isShared && !this.#vms.has(vm)) this.complaints.push(`${command.execKey} runs without ${vm}`);
    if (isShared && JSON.stringify(command.lease) !== JSON.stringify(this.#leases.get(vm)))
      this.complaints.push(`${command.execKey} has the lease of another VM`);
    if (!isShared && this.#execKeys.has(`own ${vm}`))
      this.complaints.push(`${command.execKey} runs in the used VM ${vm}`);
    if (!isShared) this.#execKeys.add(`own ${vm}`);
  }

  /** A step finds the files of the steps before it, and a step whose work is on the disk does not run again. */
  #checkDisk({ stageId, execKey, generation }: Command & { readonly type: 'run-stage' }, scope: MachineScope): void {
    const disk = this.#disks.get(`${scope.id}/${generation}`) ?? [];
    const stages = flattenRows(this.state.stages);
    const { after, visits } = this.plan.stages.find(({ id }) => id === stageId)!;
    for (const { stage } of after) {
      const { phase, attempt } = stages[this.plan.stages.findIndex(({ id }) => id === stage)]!;
      const isHeld = disk.some((held) => held.stage === stage && held.attempt === attempt);
      if (scope.stages.includes(stage) && phase === 'succeeded' && !isHeld)
        this.complaints.push(`${execKey} runs without the files of ${stage}`);
    }
    const succeeded = this.#succeeded.get(stageId);
    if (visits === undefined && disk.some((held) => held.stage === stageId && held.attempt === succeeded))
      this.complaints.push(`${execKey} repeats work that its VM holds`);
  }

  #holds({ stage, on }: EdgePlan): boolean {
    const isTolerated = this.plan.stages.find(({ id }) => id === stage)!.continueOnError === true;
    return edgeState(on, this.#phaseAfter(stage), isTolerated) === 'holds';
  }

  #waits(id: string): boolean {
    return this.plan.stages.find((stage) => stage.id === id)!.wait !== undefined;
  }

  /** The phase of a stage as of the latest answer; commands are checked before `state` is replaced. */
  #phaseAfter(id: string): StagePhase {
    return this.phases[id]!;
  }

  get phases(): Readonly<Record<string, StagePhase>> {
    const stages = flattenRows(this.state.stages);
    return Object.fromEntries(this.plan.stages.map(({ id }, index) => [id, stages[index]!.phase]));
  }
}

function stopsLast(event: MachineEvent, haveBegun: boolean): boolean {
  if (event.type === 'timer-fired') return event.id === FINALLY_TIMER;
  return (
    event.type === 'cancel-finally' || (event.type === 'give-up' && haveBegun && event.failure.code !== 'run/timeout')
  );
}

/** Each VM has a host of its own, so that a test sees a call that goes to the host of another VM. */
function leaseOf(scope: string, generation: number): VmLease {
  return { vmKey: `run/${scope}/${generation}`, queue: `queue/${scope}/${generation}`, host: `${scope}-${generation}` };
}

function eventFor(command: Command, ending: Ending): MachineEvent {
  const broken = { code: 'host/not-ready', message: 'no kernel' } as const;
  switch (command.type) {
    case 'acquire-vm': {
      const { scope, generation } = command;
      if (ending === 'acquire-lost')
        return { type: 'vm-failed', scope, generation, code: 'vm/boot-timeout', message: 'no hello' };
      if (ending === 'acquire-broken') return { type: 'vm-failed', scope, generation, ...broken };
      return { type: 'vm-acquired', scope, generation, lease: leaseOf(scope, generation) };
    }
    case 'release-vm':
      return { type: 'vm-released', scope: command.scope, generation: command.generation };
    case 'start-timer':
      return { type: 'timer-fired', id: command.id };
    case 'run-stage': {
      const { stageId, execKey } = command;
      if (ending === 'lost')
        return { type: 'stage-lost', stageId, execKey, code: 'vm/lost', message: 'the keeper died' };
      if (ending === 'broken') return { type: 'stage-broken', stageId, execKey, ...broken };
      if (ending === 'cancelled') return { type: 'stage-cancelled', stageId, execKey };
      return {
        type: 'stage-finished',
        result: resultOf(stageId, execKey, ending === 'fail' ? 'failed' : ending === 'pass' ? 'passed' : 'succeeded'),
      };
    }
    case 'evaluate': {
      const { stageId, evaluation } = command;
      const about = { type: 'condition-evaluated', stageId, evaluation } as const;
      if (ending === 'not' || ending === 'pass') return { ...about, outcome: 'does-not-hold', output: null };
      const isFailed = ending === 'fail' || ending === 'broken';
      if (isFailed)
        return {
          ...about,
          outcome: 'failed',
          failure: { code: 'stage/condition', message: 'no such key', stderrTail: '' },
        };
      return { ...about, outcome: 'holds' };
    }
    case 'ask': {
      const { stageId, attempt } = command;
      const isNo = ending === 'fail' || ending === 'broken' || ending === 'lost';
      if (isNo)
        return {
          type: 'answered',
          stageId,
          attempt,
          answer: { outcome: 'failed', failure: { code: 'stage/rejected', message: 'no', stderrTail: '' } },
        };
      return {
        type: 'answered',
        stageId,
        attempt,
        answer: { outcome: 'succeeded', outputs: { output: refOf(`${stageId}/0/${attempt}`), outputs: {} } },
      };
    }
    case 'find-time': {
      const about = { type: 'time-found', stageId: command.stageId, attempt: command.attempt } as const;
      return ending === 'ok'
        ? { ...about, outcome: 'found', untilMs: 1 }
        : { ...about, outcome: 'failed', failure: { code: 'stage/wait-time', message: 'no time', stderrTail: '' } };
    }
    case 'wait':
      return { type: 'waited', stageId: command.stageId, attempt: command.attempt };
    case 'withdraw':
    case 'cancel-stages':
    case 'finish':
      throw new Error(`${command.type} has no answer`);
  }
}

const FAILURE: StageFailure = { code: 'stage/exit-nonzero', message: 'exit code 1', stderrTail: 'oh' };

export function resultOf(stage: string, execKey: string, outcome: StageResult['outcome']): StageResult {
  return stageResult(execKey, {
    stage,
    outcome,
    failure: outcome === 'failed' ? FAILURE : null,
    output: outcome === 'succeeded' ? refOf(execKey) : null,
    command: { exitCode: outcome === 'failed' ? 1 : 0, stdoutBytes: 1, stderrBytes: 0 },
  });
}

function refOf(name: string): DataRef {
  return { sha256: name.padEnd(64, '0').slice(0, 64), sizeBytes: 1, mediaType: 'application/octet-stream' };
}

function describe(command: Command): string {
  switch (command.type) {
    case 'evaluate':
      return `evaluate ${command.stageId}#${command.evaluation}`;
    case 'wait':
    case 'find-time':
    case 'ask':
    case 'withdraw':
      return `${command.type} ${command.stageId}/0/${command.attempt}`;
    case 'run-stage':
      return command.scope === null
        ? `run ${command.execKey}`
        : `run ${command.execKey} in ${command.scope}#${command.generation}`;
    case 'acquire-vm':
    case 'release-vm':
      return `${command.type === 'acquire-vm' ? 'acquire' : 'release'} ${command.scope}#${command.generation}${command.resumes === true ? ', resumes' : ''}`;
    case 'start-timer':
      return `timer ${command.id} ${command.delayMs}`;
    case 'cancel-stages':
      return `cancel ${[...command.execKeys, ...command.acquiring.map(({ scope }) => scope)].join(' ')}`;
    case 'finish':
      return `finish ${command.outcome.state}`;
  }
}

/** Transitions that a run may take at most: every attempt, acquire, release and timer of every stage and scope. */
export function transitionBound(plan: MachinePlan): number {
  const vms = LOST_VM_ATTEMPTS + 1;
  return (
    plan.stages.reduce(
      (sum, { retry, visits = 1, loop }) => sum + 6 * (retry.maxAttempts + vms) * vms * visits + (loop?.maxVisits ?? 0),
      0,
    ) +
    plan.scopes.length * 4 * vms +
    1
  );
}
