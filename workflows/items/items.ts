/** The workflow of a window: consecutive items of a stage, each with a run machine of its own. */
import {
  CancellationScope,
  isCancellation,
  proxyActivities,
  setCurrentDetails,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type { Activities, StageCall } from '../../activities/contract.ts';
import type { Command } from '../../domain/pipeline/command.ts';
import { execKeyOf } from '../../domain/pipeline/draft.ts';
import type { MachineEvent } from '../../domain/pipeline/event.ts';
import { start, transition, type Transition } from '../../domain/pipeline/machine.ts';
import type { MachineEach, MachinePlan, MachineStage } from '../../domain/pipeline/machine-plan.ts';
import type { RunState } from '../../domain/pipeline/state.ts';
import { attemptText } from '../../domain/run/attempt.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { isQueueName } from '../../domain/run/host.ts';
import { isPlanId } from '../../domain/run/instance.ts';
import type { InstancePath } from '../../domain/run/instance.ts';
import { ACTIVITY_OPTIONS, stageScheduleToCloseMs } from '../activity-options.ts';
import { stageFailureEvent, stageResultEvent } from '../activity-outcome.ts';
import { workflowCancelled, workflowFailure } from '../failure.ts';
import { lazyText } from '../run/current-details.ts';
import { eventsSummary, summaryOf } from '../summary.ts';
import { OneScope, SharedScope } from '../work-under-way.ts';
import type { ItemsEnd, ItemsRequest } from './request.ts';

const { runStage, releaseVm, appendEvents } = proxyActivities<Activities>(ACTIVITY_OPTIONS.runStage);

/**
 * Only a run starts it: activities refuse the calls of one whose parent is not the run that it names.
 * @throws CancelledFailure when it was cancelled, once nothing of it runs any more
 */
export async function voidboxItems(request: ItemsRequest): Promise<ItemsEnd> {
  if (!isRequest(request)) throw workflowFailure('call/refused', 'only a run starts voidboxItems');
  const outer = CancellationScope.current();
  return CancellationScope.nonCancellable(async () => {
    const window = new ItemWindow(request);
    outer.cancelRequested.catch(() => window.stop());
    const end = await window.toEnd();
    if (outer.consideredCancelled) throw workflowCancelled('the items were cancelled', end);
    return end;
  });
}

/** Anybody who reaches the server can start it with anything, and an error of code is tried for ever. */
function isRequest(value: unknown): value is ItemsRequest {
  if (typeof value !== 'object' || value === null) return false;
  const { runId, stage, hostQueue, storeQueue } = value as Partial<ItemsRequest>;
  return (
    typeof runId === 'string' &&
    typeof stage === 'object' &&
    isPlanId(String(stage?.id)) &&
    typeof stage?.each === 'object' &&
    isQueueName(hostQueue) &&
    isQueueName(storeQueue)
  );
}

interface OpenItem {
  readonly instance: InstancePath;
  readonly underWay: OneScope;
  /** Null until a timer starts: a scope costs what a tenth of the item's other work in the workflow does, and few items wait. */
  timers: CancellationScope | null;
  state: RunState;
}

interface Received {
  readonly item: number;
  readonly event: MachineEvent;
}

type CommandOf<T extends Command['type']> = Extract<Command, { type: T }>;

class ItemWindow {
  readonly #request: ItemsRequest;
  readonly #plan: MachinePlan;
  readonly #stage: MachineStage;
  readonly #open = new Map<number, OpenItem>();
  readonly #received: Received[] = [];
  /** A cancel reaches all items or none. */
  readonly #scope = new SharedScope();
  #next: number;
  #succeeded = 0;
  #failed = 0;
  #stopped = false;
  #unwritten: NewRunEvent[] = [];
  #appending: Promise<void> = Promise.resolve();
  #wake: () => void = () => undefined;

  constructor(request: ItemsRequest) {
    this.#request = request;
    this.#plan = itemPlan(request.stage);
    this.#stage = request.stage;
    this.#next = request.from;
  }

  /** Nothing else starts, and what runs is cancelled. */
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
      // Not `condition`: each round in which one holds is another entry into the workflow's isolate.
      if (this.#received.length === 0) await new Promise<void>((resolve) => (this.#wake = resolve));
      const received = this.#received.shift();
      const open = received === undefined ? undefined : this.#open.get(received.item);
      if (received === undefined || open === undefined) continue;
      this.#execute(received.item, open, transition(this.#plan, open.state, received.event));
    }
    this.#append();
    await this.#appending;
    return { succeeded: this.#succeeded, failed: this.#failed };
  }

  #startItems(): void {
    while (!this.#stopped && this.#open.size < this.#request.slots && this.#next < this.#request.to) {
      const item = this.#next;
      this.#next += 1;
      const step = start(this.#plan);
      const open: OpenItem = {
        instance: [{ part: this.#stage.id, item }],
        underWay: new OneScope((event) => this.#receive(item, event), this.#scope),
        timers: null,
        state: step.state,
      };
      this.#open.set(item, open);
      this.#execute(item, open, step);
    }
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
          this.#runStage(item, open, command);
          break;
        case 'release-vm':
          this.#releaseVm(item, open, command);
          break;
        case 'start-timer':
          this.#startTimer(item, open, command);
          break;
        case 'cancel-stages':
          open.underWay.cancel();
          break;
        case 'finish':
          this.#end(item, open, command);
          break;
        // An item has one stage, which asks nothing and waits for no time, and a VM that is its own.
        case 'acquire-vm':
        case 'ask':
        case 'wait':
        case 'evaluate':
        case 'withdraw':
          break;
      }
    }
  }

  /** What readers see of an item beside its attempts: that one is tried again, and one that failed without a result. */
  #note({ instance }: OpenItem, { events }: Transition): void {
    const atMs = Date.now();
    for (const { body } of events) {
      if (body.type !== 'stage-retrying' && body.type !== 'stage-failed') continue;
      const execKey = this.#outerKey(instance, attemptOf(body.execKey));
      const id = EVENT_ID.attempt(execKey, body.type === 'stage-failed' ? 'failed' : 'retrying');
      this.#unwritten.push({ id, atMs, body: { ...body, execKey } });
    }
  }

  #runStage(item: number, { instance, underWay }: OpenItem, { attempt, generation }: CommandOf<'run-stage'>): void {
    const { id, timeoutMs } = this.#stage;
    const { runId, hostQueue, upstream } = this.#request;
    const events = this.#takeUnwritten();
    const inner = execKeyOf(id, attempt);
    const outer = this.#outerKey(instance, attempt);
    const call: StageCall = { runId, stage: id, instance, attempt, generation, lease: null, upstream, events };
    underWay.start(outer, {
      run: () =>
        runStage.executeWithOptions(
          {
            ...ACTIVITY_OPTIONS.runStage,
            taskQueue: hostQueue,
            scheduleToCloseTimeout: stageScheduleToCloseMs(timeoutMs),
            summary: `${id}[${item}]${attempt === 1 ? '' : ` (attempt ${attempt})`}`,
          },
          [call],
        ),
      onResult: (result) => withKey(stageResultEvent(result, id, outer), inner),
      onFailure: (error, isCancelled) => withKey(stageFailureEvent(error, id, outer, isCancelled), inner),
    });
  }

  #releaseVm(item: number, { instance }: OpenItem, { scope, generation }: CommandOf<'release-vm'>): void {
    const { runId, hostQueue } = this.#request;
    const released = releaseVm.executeWithOptions(
      {
        ...ACTIVITY_OPTIONS.releaseVm,
        taskQueue: hostQueue,
        summary: summaryOf(`stop the VM of ${this.#stage.id}[${item}]`),
      },
      [{ runId, scope, instance, generation }],
    );
    // One that cannot be released ends with its lease: the janitor of its host finds it by the run.
    void released.catch(() => undefined).then(() => this.#receive(item, { type: 'vm-released', scope, generation }));
  }

  #startTimer(item: number, open: OpenItem, { id, delayMs }: CommandOf<'start-timer'>): void {
    open.timers ??= new CancellationScope();
    open.timers
      .run(() => sleep(delayMs, { summary: summaryOf(`${this.#stage.id}[${item}]: wait for the next attempt`) }))
      .then(
        () => this.#receive(item, { type: 'timer-fired', id }),
        (error: unknown) => {
          if (!isCancellation(error)) throw error;
        },
      );
  }

  #end(item: number, { timers }: OpenItem, { outcome }: CommandOf<'finish'>): void {
    timers?.cancel();
    this.#open.delete(item);
    if (outcome.state === 'succeeded') this.#succeeded += 1;
    if (outcome.state === 'failed') this.#failed += 1;
    const { mostFailures } = this.#request;
    if (mostFailures !== null && this.#failed > mostFailures) this.stop();
  }

  #append(): void {
    const events = this.#takeUnwritten();
    if (events.length === 0) return;
    const call = appendEvents.executeWithOptions(
      { ...ACTIVITY_OPTIONS.appendEvents, taskQueue: this.#request.storeQueue, summary: eventsSummary(events) },
      [{ runId: this.#request.runId, events }],
    );
    // What no activity could write within days is left out: the failures of the items themselves are counted here.
    this.#appending = call.catch(() => undefined);
  }

  #takeUnwritten(): NewRunEvent[] {
    const events = this.#unwritten;
    this.#unwritten = [];
    return events;
  }

  #outerKey(instance: InstancePath, attempt: number): string {
    return attemptText({ stage: this.#stage.id, instance, attempt });
  }

  #board(): string {
    const { from, to } = this.#request;
    const done = this.#succeeded + this.#failed;
    return `**${this.#stage.id}**, items ${from} to ${to - 1}: ${done} of ${to - from} done, ${this.#open.size} running, ${this.#failed} failed`;
  }
}

function itemPlan({ id, timeoutMs, each }: MachineStage): MachinePlan {
  const { scope, retry } = each as MachineEach;
  return {
    name: workflowInfo().workflowId,
    stages: [{ id, doing: 'run', scope, after: [], condition: null, takes: [], timeoutMs, retry, deadline: null }],
    scopes: [{ id: scope, stages: [id] }],
    output: { kind: 'stage', stage: id },
    maxParallel: 1,
  };
}

function attemptOf(innerKey: string): number {
  return Number(innerKey.slice(innerKey.lastIndexOf('/') + 1));
}

/** A machine of an item knows attempts by number alone. */
function withKey(event: MachineEvent, execKey: string): MachineEvent {
  if (event.type === 'stage-finished') return { ...event, result: { ...event.result, execKey } };
  return 'execKey' in event ? { ...event, execKey } : event;
}
