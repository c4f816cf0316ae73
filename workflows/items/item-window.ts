/**
 * A window of items. Each item has its own run machine; all share the written events and the limit of concurrent items.
 */
import { CancellationScope, isCancellation, proxyActivities, setCurrentDetails, sleep } from '@temporalio/workflow';
import type {
  Activities,
  ConditionResult,
  EvaluateCall,
  FindTimeCall,
  FoundTime,
  StageCall,
} from '../../activities/contract.ts';
import type { Command } from '../../domain/pipeline/command.ts';
import { execKeyOf } from '../../domain/pipeline/stage-keys.ts';
import type { MachineEvent } from '../../domain/pipeline/event.ts';
import { itemPlanOf } from '../../domain/pipeline/item-plan.ts';
import { start, transition, type Transition } from '../../domain/pipeline/machine.ts';
import {
  type MachineEach,
  machineFromWire,
  type MachinePlan,
  type MachineStage,
} from '../../domain/pipeline/machine-plan.ts';
import { planIndex } from '../../domain/pipeline/plan-index.ts';
import type { RunState } from '../../domain/pipeline/state.ts';
import { formatAttempt } from '../../domain/run/attempt.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent, RunOutcome } from '../../domain/run/event.ts';
import { type InstancePath, formatStageName, stepOf } from '../../domain/run/instance.ts';
import { readHeld, vmLeaseOf } from '../../domain/run/vm-lease.ts';
import { ACTIVITY_OPTIONS, stageScheduleToCloseMs } from '../activity-options.ts';
import { reasonOf, stageFailureEvent, stageResultEvent } from '../activity-outcome.ts';
import { Boots } from '../boots.ts';
import { Conditions } from '../run/conditions.ts';
import { lazyText } from '../run/current-details.ts';
import { hasReached } from '../run/history-limit.ts';
import { releaseQueue, type RunQueues, stageQueue } from '../run/queues.ts';
import { omitQueue, selectUpstream } from '../run/stage-call.ts';
import { eventsSummary, summaryOf } from '../summary.ts';
import { WorkUnderWay, SharedScope } from '../work-under-way.ts';
import { attemptOf, describeQuestions, failureWithin, withKey } from './item-events.ts';
import { ItemQuestions, type QuestionsOfItem } from './item-questions.ts';
import { CallGate } from './call-gate.ts';
import { type ItemsOfStage, runItems } from './run-items.ts';
import type { ItemsEnd, ItemsRequest } from './request.ts';

const {
  acquireVm,
  runStage,
  releaseVm,
  evaluateCondition,
  findTime,
  appendEvents,
  askApproval,
  recordApproval,
  checkRejection,
} = proxyActivities<Activities>(ACTIVITY_OPTIONS.runStage);

interface OpenItem {
  readonly instance: InstancePath;
  readonly underWay: WorkUnderWay;
  /** Null until a timer starts. A scope costs a tenth of the item's other work in the workflow, and few items wait. */
  timers: CancellationScope | null;
  /** Null until a condition has to be decided. */
  conditions: Conditions | null;
  /** Null until a stage asks. */
  questions: QuestionsOfItem | null;
  state: RunState;
}

interface ReceivedEvent {
  readonly item: number;
  readonly event: MachineEvent;
}

/** Events of an item's machine that readers see, and the suffix of their ids after the attempt. */
const NOTED = { 'stage-retrying': 'retrying', 'stage-failed': 'failed', 'stage-answered': 'answered' } as const;

type CommandOf<T extends Command['type']> = Extract<Command, { type: T }>;

export class ItemWindow {
  readonly #request: ItemsRequest;
  readonly #queues: RunQueues;
  readonly #plan: MachinePlan;
  readonly #stages: ReadonlyMap<string, MachineStage>;
  /** The stage with the items. */
  readonly #id: string;
  /** Null: each item is a command. */
  readonly #gate: CallGate | null;
  readonly questions = new ItemQuestions();
  readonly #boots: Boots;
  /** Limits the windows of lists within items. */
  readonly #windows = new CallGate();
  readonly #open = new Map<number, OpenItem>();
  readonly #received: ReceivedEvent[] = [];
  /** The scope of items that are commands: a cancel reaches all of them or none. */
  readonly #scope = new SharedScope();
  #next: number;
  #succeeded = 0;
  #failed = 0;
  #stopped = false;
  /** The history is full: running items have room to end, and no other item starts. */
  #isFull = false;
  #unwritten: NewRunEvent[] = [];
  #appending: Promise<void> = Promise.resolve();
  #wake: () => void = () => undefined;

  /** @throws Error if the stages of the part do not fit each other */
  constructor(request: ItemsRequest) {
    const { stage, part, hostQueue, storeQueue, leaseQueue = hostQueue } = request;
    const each = stage.each as MachineEach;
    this.#request = request;
    this.#queues = { host: hostQueue, store: storeQueue, lease: leaseQueue };
    this.#plan = itemPlanOf(part === undefined ? stage : { ...stage, each: { ...each, part: machineFromWire(part) } });
    planIndex(this.#plan);
    this.#stages = new Map(this.#plan.stages.map((of) => [of.id, of]));
    this.#id = stage.id;
    this.#boots = new Boots(request.recordsBoots);
    this.#gate = part === undefined ? null : new CallGate();
    this.#next = request.from;
  }

  /** Cancels running items; no other item starts. */
  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    for (const item of this.#open.keys()) this.#receive(item, { type: 'cancel-requested' });
    this.#wake();
  }

  async toEnd(): Promise<ItemsEnd> {
    setCurrentDetails(lazyText(() => this.#board()));
    for (;;) {
      this.#startItems();
      if (this.#open.size === 0) break;
      // Not `condition`: each round in which a condition holds is one more entry into the workflow's isolate.
      if (this.#received.length === 0) await new Promise<void>((resolve) => (this.#wake = resolve));
      const received = this.#received.shift();
      const open = received === undefined ? undefined : this.#open.get(received.item);
      if (received === undefined || open === undefined) continue;
      this.#execute(received.item, open, transition(this.#plan, open.state, received.event));
    }
    this.#append();
    await this.#appending;
    await this.#boots.settled();
    const goesOn = !this.#stopped && this.#next < this.#request.to;
    return { succeeded: this.#succeeded, failed: this.#failed, ...(goesOn ? { next: this.#next } : {}) };
  }

  #startItems(): void {
    const { slots, to, lastStart } = this.#request;
    if (lastStart !== undefined && this.#next > this.#request.from) this.#isFull ||= hasReached(lastStart);
    while (!this.#stopped && !this.#isFull && this.#open.size < slots && this.#next < to) {
      const item = this.#next;
      this.#next += 1;
      const step = start(this.#plan);
      const open: OpenItem = {
        instance: [...(this.#request.instance ?? []), stepOf(this.#id, item, this.#request.attempt ?? 1)],
        underWay: new WorkUnderWay((event) => this.#receive(item, event), this.#scopeOfItem()),
        timers: null,
        conditions: null,
        questions: null,
        state: step.state,
      };
      this.#open.set(item, open);
      this.#execute(item, open, step);
    }
  }

  /** The machine of a part may cancel the work of only its own item. */
  #scopeOfItem(): SharedScope {
    return this.#request.part === undefined ? this.#scope : new SharedScope();
  }

  #receive(item: number, event: MachineEvent): void {
    this.#received.push({ item, event });
    this.#wake();
  }

  #execute(item: number, open: OpenItem, step: Transition): void {
    open.state = step.state;
    this.#note(open, step);
    for (const command of step.commands) {
      switch (command.type) {
        case 'run-stage':
          this.#runStage(open, command);
          break;
        case 'acquire-vm':
          this.#acquireVm(open, command);
          break;
        case 'release-vm':
          this.#releaseVm(item, open, command);
          break;
        case 'evaluate':
        case 'find-time':
          this.#decide(item, open, command);
          break;
        case 'wait':
          this.#wait(item, open, command);
          break;
        case 'start-timer': {
          const then = { type: 'timer-fired', id: command.id } as const;
          this.#sleep(item, open, command.delayMs, 'wait for the next attempt', then);
          break;
        }
        case 'cancel-stages':
          open.underWay.cancel();
          break;
        case 'finish':
          this.#end(item, open, command);
          break;
        case 'ask':
          this.#questionsOf(item, open).open(this.#stages.get(command.stageId)!, command);
          break;
        case 'withdraw':
          open.questions?.withdraw(command.stageId);
          break;
      }
    }
    // Readers of a run see an answer at once, also while all other work waits.
    if (this.#unwritten.some(({ body }) => body.type === 'stage-answered')) this.#append();
  }

  /**
   * Records the events of an item that readers see in addition to its attempts: retries, answers, and failures without
   * a result.
   */
  #note({ instance }: OpenItem, { events }: Transition): void {
    const nowMs = Date.now();
    for (const { body, atMs = nowMs } of events) {
      const what = NOTED[body.type as keyof typeof NOTED];
      if (what === undefined || !('execKey' in body)) continue;
      const execKey = formatAttempt({ stage: body.stage, instance, attempt: attemptOf(body.execKey) });
      this.#unwritten.push({ id: EVENT_ID.attempt(execKey, what), atMs, body: { ...body, execKey } });
    }
  }

  /** An answer may come at any time, so the calls that check and record it carry no other events. */
  #questionsOf(item: number, open: OpenItem): QuestionsOfItem {
    const { instance } = open;
    const { runId } = this.#request;
    const nameOf = (stage: string): string => formatStageName(stage, instance);
    const taskQueue = this.#queues.store;
    const summary = (what: string, { stage }: { readonly stage: string }): string =>
      summaryOf(`${what} ${nameOf(stage)}`);
    open.questions ??= this.questions.of({
      nameOf,
      receive: (event) => this.#receive(item, event),
      ask: (call) =>
        this.#gated(() =>
          askApproval.executeWithOptions(
            { ...ACTIVITY_OPTIONS.askApproval, taskQueue, summary: summary('question of', call) },
            [{ runId, instance, ...call, events: this.#takeUnwritten() }],
          ),
        ),
      record: (call) =>
        this.#gated(() =>
          recordApproval.executeWithOptions(
            { ...ACTIVITY_OPTIONS.recordApproval, taskQueue, summary: summary('answer to', call) },
            [{ runId, instance, ...call }],
          ),
        ),
      check: (call) =>
        this.#gated(() =>
          checkRejection.executeWithOptions(
            { ...ACTIVITY_OPTIONS.checkRejection, taskQueue, summary: summary('answer to', call) },
            [{ runId, instance, ...call }],
          ),
        ),
    });
    return open.questions;
  }

  #runStage(open: OpenItem, command: CommandOf<'run-stage'>): void {
    const { stageId: id, attempt, generation, lease } = command;
    const stage = this.#stages.get(id)!;
    if (stage.each !== undefined) return this.#runItems(open, stage, command);
    const { instance, underWay } = open;
    const { runId, part, upstream: outer } = this.#request;
    const events = this.#takeUnwritten();
    const inner = execKeyOf(id, attempt);
    const key = formatAttempt({ stage: id, instance, attempt });
    // All items of a command take the same data.
    const upstream = part === undefined ? outer : selectUpstream(stage, command.upstream);
    const summary = summaryOf(`${formatStageName(id, instance)}${attempt === 1 ? '' : ` (attempt ${attempt})`}`);
    const call: StageCall = {
      runId,
      stage: id,
      instance,
      attempt,
      generation,
      lease: omitQueue(lease),
      upstream,
      events,
    };
    underWay.start({
      run: () =>
        this.#gated(() =>
          runStage.executeWithOptions(
            {
              ...ACTIVITY_OPTIONS.runStage,
              taskQueue: stageQueue(this.#queues, lease),
              scheduleToCloseTimeout: stageScheduleToCloseMs(stage.timeoutMs),
              summary,
            },
            [call],
          ),
        ),
      onResult: (result) => withKey(this.#boots.ofStage(summary, stageResultEvent(result, id, key)), inner),
      onFailure: (error, isCancelled) =>
        withKey(this.#boots.ofStage(summary, stageFailureEvent(error, id, key, isCancelled)), inner),
    });
  }

  /** Runs a list within the item, in windows that are children of this one. */
  #runItems(
    { instance, underWay }: OpenItem,
    stage: MachineStage,
    { attempt, upstream }: CommandOf<'run-stage'>,
  ): void {
    const { runId, executionId = '' } = this.#request;
    const inner = execKeyOf(stage.id, attempt);
    const key = formatAttempt({ stage: stage.id, instance, attempt });
    const items: ItemsOfStage = {
      runId,
      queues: this.#queues,
      stage,
      instance,
      executionId,
      gates: { calls: this.#gate!, windows: this.#windows },
      attempt,
      upstream: selectUpstream(stage, upstream),
      events: this.#takeUnwritten(),
      behaviour: this.#request.behaviour,
      recordsBoots: this.#request.recordsBoots,
      onProgress: () => undefined,
    };
    underWay.start({
      run: () => runItems(items),
      onResult: (result) => withKey(stageResultEvent(result, stage.id, key), inner),
      onFailure: (error, isCancelled) => withKey(stageFailureEvent(error, stage.id, key, isCancelled), inner),
    });
  }

  #acquireVm({ instance, underWay }: OpenItem, { scope, generation, resumes }: CommandOf<'acquire-vm'>): void {
    const call = {
      runId: this.#request.runId,
      scope,
      instance,
      generation,
      ...(resumes === true ? { resumes } : {}),
    };
    underWay.start({
      run: () =>
        this.#gated(() =>
          acquireVm.executeWithOptions(
            {
              ...ACTIVITY_OPTIONS.acquireVm,
              taskQueue: this.#queues.lease,
              summary: summaryOf(`VM of ${formatStageName(this.#id, instance)}`),
            },
            [call],
          ),
        ),
      onResult: (answer) => {
        const lease = vmLeaseOf(answer);
        if (lease !== null) {
          this.#boots.record(formatStageName(this.#id, instance), answer.bootMs);
          return { type: 'vm-acquired', scope, generation, lease, ...readHeld(answer, resumes) };
        }
        const message = 'acquireVm answered with no lease';
        return { type: 'vm-failed', scope, generation, code: 'internal/bug', message };
      },
      onFailure: (error) => ({ type: 'vm-failed', scope, generation, ...reasonOf(error) }),
    });
  }

  #releaseVm(item: number, { instance }: OpenItem, command: CommandOf<'release-vm'>): void {
    const { scope, generation, lease, resumes } = command;
    const index = planIndex(this.#plan);
    const isShared = index.isShared(index.scopeById(scope)!);
    const released = this.#gated(() =>
      releaseVm.executeWithOptions(
        {
          ...ACTIVITY_OPTIONS.releaseVm,
          taskQueue: releaseQueue(this.#queues, lease, isShared),
          summary: summaryOf(`stop the VM of ${formatStageName(this.#id, instance)}`),
        },
        [{ runId: this.#request.runId, scope, instance, generation, ...(resumes === true ? { resumes } : {}) }],
      ),
    );
    // A VM that cannot be released ends with its lease: the janitor of its host finds it by the run.
    void released.catch(() => undefined).then(() => this.#receive(item, { type: 'vm-released', scope, generation }));
  }

  #decide(item: number, open: OpenItem, command: CommandOf<'evaluate' | 'find-time'>): void {
    open.conditions ??= new Conditions({
      evaluate: (call) => this.#gated(() => this.#evaluate(open, call)),
      findTime: (call) => this.#gated(() => this.#findTime(open, call)),
      receive: (event) => this.#receive(item, event),
    });
    open.conditions.decide(command);
  }

  async #evaluate({ instance }: OpenItem, call: Omit<EvaluateCall, 'runId' | 'events'>): Promise<ConditionResult> {
    return await evaluateCondition.executeWithOptions(
      {
        ...ACTIVITY_OPTIONS.evaluateCondition,
        taskQueue: this.#queues.store,
        summary: summaryOf(`condition of ${formatStageName(call.stage, instance)}`),
      },
      [{ runId: this.#request.runId, ...call, instance, events: this.#takeUnwritten() }],
    );
  }

  async #findTime({ instance }: OpenItem, call: Omit<FindTimeCall, 'runId' | 'events'>): Promise<FoundTime> {
    return await findTime.executeWithOptions(
      {
        ...ACTIVITY_OPTIONS.findTime,
        taskQueue: this.#queues.store,
        summary: summaryOf(`time of ${formatStageName(call.stage, instance)}`),
      },
      [{ runId: this.#request.runId, ...call, instance, events: this.#takeUnwritten() }],
    );
  }

  #wait(item: number, open: OpenItem, { stageId, attempt, untilMs: found }: CommandOf<'wait'>): void {
    const { forMs, untilMs: planned } = this.#stages.get(stageId)!.wait!;
    const untilMs = found ?? planned;
    const delayMs = untilMs === null ? (forMs ?? 0) : untilMs - Date.now();
    const waited: MachineEvent = { type: 'waited', stageId, attempt };
    if (delayMs <= 0) return this.#receive(item, waited);
    this.#sleep(item, open, delayMs, `wait of ${stageId}`, waited);
  }

  /** Starts a timer that is dropped when its item ends. */
  #sleep(item: number, open: OpenItem, delayMs: number, what: string, then: MachineEvent): void {
    open.timers ??= new CancellationScope();
    open.timers
      .run(() => sleep(delayMs, { summary: summaryOf(`${formatStageName(this.#id, open.instance)}: ${what}`) }))
      .then(
        () => this.#receive(item, then),
        (error: unknown) => {
          if (!isCancellation(error)) throw error;
        },
      );
  }

  #end(item: number, { instance, timers, conditions }: OpenItem, { outcome }: CommandOf<'finish'>): void {
    timers?.cancel();
    conditions?.drop();
    this.#open.delete(item);
    if (outcome.state === 'succeeded') this.#succeeded += 1;
    if (outcome.state === 'failed') this.#failed += 1;
    if (outcome.state === 'failed' && this.#request.part !== undefined) this.#noteFailure(instance, outcome);
    const { mostFailures } = this.#request;
    if (mostFailures !== null && this.#failed > mostFailures) this.stop();
  }

  /**
   * Records the failure of an item whose last stage never started: it is the failure of the stage that failed within.
   */
  #noteFailure(instance: InstancePath, { failedStage, failure }: RunOutcome): void {
    if (failure === null || failedStage === this.#id) return;
    const execKey = formatAttempt({ stage: this.#id, instance, attempt: 1 });
    const named = failedStage === null ? failure : failureWithin(failedStage, instance, failure);
    const body = { type: 'stage-failed', stage: this.#id, execKey, failure: named } as const;
    this.#unwritten.push({ id: EVENT_ID.attempt(execKey, 'failed'), atMs: Date.now(), body });
  }

  /** Only parts use the gate. It makes promises, and recorded histories of commands rely on the number of promises. */
  #gated<T>(call: () => Promise<T>): Promise<T> {
    return this.#gate === null ? call() : this.#gate.run(call);
  }

  #append(): void {
    const events = this.#takeUnwritten();
    if (events.length === 0) return;
    const call = appendEvents.executeWithOptions(
      { ...ACTIVITY_OPTIONS.appendEvents, taskQueue: this.#queues.store, summary: eventsSummary(events) },
      [{ runId: this.#request.runId, events }],
    );
    // Events that no activity could write within days are dropped. The counts of failed items are kept here.
    const before = this.#appending;
    this.#appending = call.then(
      () => before,
      () => before,
    );
  }

  #takeUnwritten(): NewRunEvent[] {
    const events = this.#unwritten;
    this.#unwritten = [];
    return events;
  }

  #board(): string {
    const { from, to } = this.#request;
    const done = this.#succeeded + this.#failed;
    return `**${this.#id}**, items ${from} to ${to - 1}: ${done} of ${to - from} done, ${this.#open.size} running, ${this.#failed} failed${describeQuestions(this.questions.asking)}`;
  }
}
