/** Carries out the commands of the run machine, and feeds back the events, until the machine returns `finish`. */
import {
  CancellationScope,
  isCancellation,
  proxyActivities,
  setCurrentDetails,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type {
  Activities,
  Admission,
  ApprovalCall,
  AskCall,
  ConditionResult,
  EvaluateCall,
  FindTimeCall,
  FoundTime,
  CheckedRejection,
  RecordedApproval,
  RejectionCall,
  ScopeCall,
} from '../../activities/contract.ts';
import type { Command } from '../../domain/pipeline/command.ts';
import { FINALLY_TIMER } from '../../domain/pipeline/stage-keys.ts';
import type { MachineEvent } from '../../domain/pipeline/event.ts';
import { start, transition, type Transition } from '../../domain/pipeline/machine.ts';
import { machineFromWire, type MachinePlan, type MachineStage } from '../../domain/pipeline/machine-plan.ts';
import { planIndex } from '../../domain/pipeline/plan-index.ts';
import { isOnlyWaiting, type RunState } from '../../domain/pipeline/state.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent, RunOutcome, RunReply } from '../../domain/run/event.ts';
import type { StageFailure } from '../../domain/run/stage-result.ts';
import { readHeld, vmLeaseOf } from '../../domain/run/vm-lease.ts';
import { ACTIVITY_OPTIONS, stageScheduleToCloseMs } from '../activity-options.ts';
import { reasonOf, stageFailureEvent, stageResultEvent } from '../activity-outcome.ts';
import { Boots } from '../boots.ts';
import { Conditions } from './conditions.ts';
import { renderEndedBoard, foundAnEnd, lazyText, runBoard } from './current-details.ts';
import { historyFull, limitWithFinally } from './history-limit.ts';
import { type RunSnapshot } from './run-status.ts';
import { Outbox } from './outbox.ts';
import { Questions } from './questions.ts';
import { clockOf, deadlineOf, type RunClock } from './run-clock.ts';
import { queuesOf, releaseQueue, type RunQueues, stageQueue } from './queues.ts';
import { setAttributes } from '../search-attributes.ts';
import { eventsSummary, summaryOf } from '../summary.ts';
import { type ItemsProgress, runItems } from '../items/run-items.ts';
import { stageCall, selectUpstream, stageSummary } from './stage-call.ts';
import { WorkUnderWay } from '../work-under-way.ts';

const {
  acquireVm,
  runStage,
  releaseVm,
  evaluateCondition,
  findTime,
  askApproval,
  recordApproval,
  checkRejection,
  appendEvents,
  finishRun,
} = proxyActivities<Activities>(ACTIVITY_OPTIONS.runStage);

type CommandOf<T extends Command['type']> = Extract<Command, { type: T }>;

/** Connects the machine and Temporal: takes events in, carries commands out, and decides nothing. */
export class RunLoop {
  readonly #admission: Admission;
  readonly #queues: RunQueues;
  readonly #plan: MachinePlan;
  readonly #runId: string;
  /** By stage. */
  readonly #items = new Map<string, ItemsProgress>();
  readonly #stages: ReadonlyMap<string, MachineStage>;
  readonly #received: MachineEvent[] = [];
  /** The machine's state, for readers. */
  #state: RunState | null = null;
  #outcome: RunOutcome | null = null;
  /** `finally`: the run also gave up the stages with `finally`. */
  #gaveUp: 'no' | 'yes' | 'finally' = 'no';
  /** Every received event is processed. */
  #isIdle = false;
  readonly #now = Promise.resolve();
  /** Receives the end of the machine. */
  #waiter: { resolve(finish: CommandOf<'finish'>): void; reject(error: unknown): void } | null = null;
  readonly #underWay: WorkUnderWay;
  readonly #timers = new CancellationScope();
  /** Null: the run has no time limit. */
  readonly #clock: RunClock | null;
  /** The clock that counts waits too. */
  readonly #deadline: RunClock | null;
  readonly questions: Questions;
  readonly #conditions: Conditions;
  readonly #boots: Boots;
  readonly #outbox = new Outbox();
  /** From now on, only the last call writes events. */
  #isFinishing = false;

  constructor(admission: Admission, runId: string) {
    this.#admission = admission;
    this.#queues = queuesOf(admission);
    this.#runId = runId;
    this.#plan = machineFromWire(admission.machine);
    this.#boots = new Boots(admission.recordsBoots);
    const receive = (event: MachineEvent): void => this.receive(event);
    this.#clock = clockOf(this.#plan, receive);
    this.#deadline = deadlineOf(this.#plan, receive);
    this.#underWay = new WorkUnderWay(receive);
    this.questions = new Questions({
      ask: (call) => this.#ask(call),
      record: (call) => this.#record(call),
      check: (call) => this.#check(call),
      receive,
      nameOf: (stage) => stage,
    });
    this.#conditions = new Conditions({
      evaluate: (call) => this.#evaluate(call),
      findTime: (call) => this.#findTime(call),
      receive,
    });
    this.#stages = new Map(this.#plan.stages.map((stage) => [stage.id, stage]));
  }

  receive(event: MachineEvent): void {
    this.#received.push(event);
    if (!this.#isIdle) return;
    this.#isIdle = false;
    // Not at once: events that arrive together are processed together. Not `await`: one more promise for each stage
    // costs a hundredth of the stage.
    void this.#now.then(() => this.#resume());
  }

  /** Writes an event at once, with the events that come with it: a run may wait for days before its next call. */
  note(event: NewRunEvent): void {
    if (this.#isFinishing) return;
    this.#outbox.push(event);
    void Promise.resolve().then(() => {
      if (!this.#isFinishing && !this.#outbox.isEmpty) this.#appendNow();
    });
  }

  /** Null until its first commands are made. `broken`: it ended without writing its outcome. */
  standing(broken: StageFailure | null): RunSnapshot | null {
    if (this.#state === null) return null;
    const outcome =
      this.#outcome ??
      (broken === null ? null : { state: 'failed' as const, failedStage: null, failure: broken, output: null });
    const { hostId: host, origin = null } = this.#admission;
    return { host, origin, plan: this.#plan, state: this.#state, outcome };
  }

  async toEnd(): Promise<RunReply> {
    const plan = this.#plan;
    const { deployment } = this.#admission;
    setAttributes(this.#admission.searchAttributes, {
      name: plan.name,
      host: this.#admission.hostId,
      state: 'running',
      ...(deployment === undefined ? {} : { deployment }),
    });
    const { given, origin } = this.#admission;
    const reached = this.#execute(start(plan, given === undefined ? {} : { given })) ?? this.#takeReceived();
    const finish =
      reached ??
      (await new Promise<CommandOf<'finish'>>((resolve, reject) => {
        this.#waiter = { resolve, reject };
      }));
    const state = this.#state!;
    setCurrentDetails(lazyText(() => runBoard(this.#runId, plan, state, origin, this.#items)));
    const outcome = await this.#finish(finish);
    if (foundAnEnd(state)) setCurrentDetails(lazyText(() => renderEndedBoard(this.#runId, plan, outcome)));
    return outcome;
  }

  /** Null: the run waits for the next event. */
  #takeReceived(): CommandOf<'finish'> | null {
    while (this.#received.length > 0) {
      this.#giveUpInTime();
      const finish = this.#execute(transition(this.#plan, this.#state!, this.#received.shift()!));
      if (finish !== null) return finish;
    }
    const state = this.#state!;
    const { origin } = this.#admission;
    setCurrentDetails(lazyText(() => runBoard(this.#runId, this.#plan, state, origin, this.#items)));
    // Stages with `finally` have their own time limit.
    if (isOnlyWaiting(state) || state.finallyBegun) this.#clock?.stop();
    else this.#clock?.run();
    if (state.finallyBegun) this.#deadline?.stop();
    else this.#deadline?.run();
    this.#isIdle = true;
    return null;
  }

  #resume(): void {
    try {
      const finish = this.#takeReceived();
      if (finish !== null) this.#waiter!.resolve(finish);
    } catch (error) {
      this.#waiter!.reject(error);
    }
  }

  #execute(step: Transition): CommandOf<'finish'> | null {
    this.#state = step.state;
    const atMs = Date.now();
    this.#outbox.push(...step.events.map((event) => ({ atMs, ...event })));
    for (const command of step.commands) {
      switch (command.type) {
        case 'run-stage':
          this.#runStage(command);
          break;
        case 'acquire-vm':
          this.#acquireVm(command);
          break;
        case 'release-vm':
          this.#releaseVm(command);
          break;
        case 'evaluate':
        case 'find-time':
          this.#conditions.decide(command);
          break;
        case 'ask':
          this.questions.open(this.#stages.get(command.stageId)!, command);
          break;
        case 'wait':
          this.#wait(command);
          break;
        case 'withdraw':
          this.questions.withdraw(command.stageId);
          break;
        case 'start-timer':
          this.#startTimer(command);
          break;
        case 'cancel-stages':
          this.#underWay.cancel();
          break;
        case 'finish':
          return command;
      }
    }
    if (!this.#outbox.isEmpty) this.#appendNow();
    return null;
  }

  /** Comes before the received events, so that they start no stage. */
  #giveUpInTime(): void {
    const limit = this.#admission.historyLimit;
    const haveBegun = this.#state?.finallyBegun === true;
    const next = haveBegun ? 'finally' : 'yes';
    if (this.#gaveUp === next) return;
    const failure = historyFull(haveBegun ? limitWithFinally(limit) : limit);
    if (failure === null) return;
    this.#gaveUp = next;
    this.#received.unshift({ type: 'give-up', failure });
  }

  #runStage(command: CommandOf<'run-stage'>): void {
    const { stageId, execKey, attempt, lease } = command;
    const stage = this.#stages.get(stageId)!;
    const events = this.#outbox.take();
    if (stage.each !== undefined) return this.#runItems(stage, command, events);
    const summary = stageSummary(stage, attempt);
    this.#underWay.start({
      run: () =>
        runStage.executeWithOptions(
          {
            ...ACTIVITY_OPTIONS.runStage,
            taskQueue: stageQueue(this.#queues, lease),
            scheduleToCloseTimeout: stageScheduleToCloseMs(stage.timeoutMs),
            summary,
          },
          [stageCall(this.#runId, stage, command, events)],
        ),
      onResult: (result) => this.#boots.ofStage(summary, stageResultEvent(result, stageId, execKey)),
      onFailure: (error, isCancelled) =>
        this.#boots.ofStage(summary, stageFailureEvent(error, stageId, execKey, isCancelled)),
    });
  }

  async #evaluate(call: Omit<EvaluateCall, 'runId' | 'events'>): Promise<ConditionResult> {
    const events = this.#outbox.take();
    const decided = evaluateCondition.executeWithOptions(
      {
        ...ACTIVITY_OPTIONS.evaluateCondition,
        taskQueue: this.#queues.store,
        summary: summaryOf(`condition of ${call.stage}`),
      },
      [{ runId: this.#runId, ...call, events }],
    );
    // A condition that cannot be decided fails its call, which has written the events.
    this.#outbox.watch(
      decided.then(
        () => undefined,
        (error: unknown) => {
          if (reasonOf(error).code !== 'stage/condition') throw error;
        },
      ),
      events,
    );
    return await decided;
  }

  #runItems(stage: MachineStage, { execKey, attempt, upstream }: CommandOf<'run-stage'>, events: NewRunEvent[]): void {
    const { id } = stage;
    const items = {
      runId: this.#runId,
      queues: this.#queues,
      stage,
      instance: [],
      executionId: workflowInfo().originalExecutionRunId,
      attempt,
      upstream: selectUpstream(stage, upstream),
      events,
      behaviour: this.#admission.behaviour,
      recordsBoots: this.#admission.recordsBoots,
      historyLimit: this.#admission.historyLimit,
      onProgress: (progress: ItemsProgress) => void this.#items.set(id, progress),
    };
    this.#underWay.start({
      run: () => runItems(items),
      onResult: (result) => stageResultEvent(result, id, execKey),
      onFailure: (error, isCancelled) => stageFailureEvent(error, id, execKey, isCancelled),
    });
  }

  async #findTime(call: Omit<FindTimeCall, 'runId' | 'events'>): Promise<FoundTime> {
    const events = this.#outbox.take();
    const found = findTime.executeWithOptions(
      { ...ACTIVITY_OPTIONS.findTime, taskQueue: this.#queues.store, summary: summaryOf(`time of ${call.stage}`) },
      [{ runId: this.#runId, ...call, events }],
    );
    // A time that cannot be found fails its call, which has written the events.
    this.#outbox.watch(
      found.then(
        () => undefined,
        (error: unknown) => {
          if (!['stage/expression', 'stage/wait-time'].includes(reasonOf(error).code)) throw error;
        },
      ),
      events,
    );
    return await found;
  }

  async #ask(call: Omit<AskCall, 'runId' | 'events'>): Promise<void> {
    const events = this.#outbox.take();
    const asked = askApproval.executeWithOptions(
      { ...ACTIVITY_OPTIONS.askApproval, taskQueue: this.#queues.store, summary: `${call.stage} asks` },
      [{ runId: this.#runId, ...call, events }],
    );
    this.#outbox.watch(asked, events);
    await asked;
  }

  async #record(call: Omit<ApprovalCall, 'runId'>): Promise<RecordedApproval> {
    return recordApproval.executeWithOptions(
      { ...ACTIVITY_OPTIONS.recordApproval, taskQueue: this.#queues.store, summary: `answer to ${call.stage}` },
      [{ runId: this.#runId, ...call }],
    );
  }

  async #check(call: Omit<RejectionCall, 'runId'>): Promise<CheckedRejection> {
    return checkRejection.executeWithOptions(
      { ...ACTIVITY_OPTIONS.checkRejection, taskQueue: this.#queues.store, summary: `answer to ${call.stage}` },
      [{ runId: this.#runId, ...call }],
    );
  }

  #acquireVm({ scope, generation, resumes }: CommandOf<'acquire-vm'>): void {
    this.#underWay.start({
      run: () =>
        acquireVm.executeWithOptions(
          {
            ...ACTIVITY_OPTIONS.acquireVm,
            taskQueue: this.#queues.lease,
            summary: summaryOf(`VM of ${this.#stagesIn(scope)}`),
          },
          [this.#scopeCall(scope, generation, resumes)],
        ),
      onResult: (answer) => {
        const lease = vmLeaseOf(answer);
        if (lease !== null) {
          this.#boots.record(this.#stagesIn(scope), answer.bootMs);
          return { type: 'vm-acquired', scope, generation, lease, ...readHeld(answer, resumes) };
        }
        return {
          type: 'vm-failed',
          scope,
          generation,
          code: 'internal/bug',
          message: 'acquireVm answered with no lease',
        };
      },
      onFailure: (error) => ({ type: 'vm-failed', scope, generation, ...reasonOf(error) }),
    });
  }

  #releaseVm({ scope, generation, lease, resumes }: CommandOf<'release-vm'>): void {
    const taskQueue = releaseQueue(this.#queues, lease, this.#isShared(scope));
    const call = releaseVm.executeWithOptions(
      { ...ACTIVITY_OPTIONS.releaseVm, taskQueue, summary: summaryOf(`stop the VM of ${this.#stagesIn(scope)}`) },
      [this.#scopeCall(scope, generation, resumes)],
    );
    void call
      .catch((error: unknown) => {
        const { code, message } = reasonOf(error);
        this.#outbox.push({
          id: EVENT_ID.releaseFailed(scope, generation),
          atMs: Date.now(),
          body: {
            type: 'notice',
            level: 'warning',
            message: `the VM of ${scope} could not be released (${code}): ${message}`,
          },
        });
      })
      .then(() => this.receive({ type: 'vm-released', scope, generation }));
  }

  #startTimer({ id, delayMs }: CommandOf<'start-timer'>): void {
    const stage = planIndex(this.#plan).stageOfTimer(id);
    if (id === FINALLY_TIMER) return this.#sleep(delayMs, 'time limit of the last stages', { type: 'timer-fired', id });
    const summary = stage === null ? id : `${this.#plan.stages[stage]!.id}: wait for the next attempt`;
    this.#sleep(delayMs, summary, { type: 'timer-fired', id });
  }

  #wait({ stageId: stage, execKey, attempt, untilMs: found }: CommandOf<'wait'>): void {
    const atMs = Date.now();
    const { forMs, untilMs: until } = this.#stages.get(stage)!.wait!;
    const untilMs = found ?? until ?? atMs + (forMs ?? 0);
    const waited: MachineEvent = { type: 'waited', stageId: stage, attempt };
    if (untilMs <= atMs) return this.receive(waited);
    const body = { type: 'stage-sleeping', stage, execKey, attempt, untilMs } as const;
    this.#outbox.push({ id: EVENT_ID.attempt(execKey, 'sleeping'), atMs, body });
    this.#sleep(untilMs - atMs, `${stage}: wait until ${new Date(untilMs).toISOString()}`, waited);
  }

  /** Starts a timer that is dropped when the run ends. */
  #sleep(delayMs: number, summary: string, then: MachineEvent): void {
    this.#timers
      .run(() => sleep(delayMs, { summary: summaryOf(summary) }))
      .then(
        () => this.receive(then),
        (error: unknown) => {
          if (!isCancellation(error)) throw error;
        },
      );
  }

  #appendNow(): void {
    const events = this.#outbox.take();
    const call = appendEvents.executeWithOptions(
      { ...ACTIVITY_OPTIONS.appendEvents, taskQueue: this.#queues.store, summary: eventsSummary(events) },
      [{ runId: this.#runId, events }],
    );
    this.#outbox.watch(call, events);
  }

  async #finish({ outcome, merge }: CommandOf<'finish'>): Promise<RunReply> {
    this.#isFinishing = true;
    this.#timers.cancel();
    this.#clock?.stop();
    this.#deadline?.stop();
    this.#conditions.drop();
    await this.#outbox.settled();
    const request = { runId: this.#runId, outcome, merge, events: this.#outbox.take() };
    const written = await finishRun.executeWithOptions(
      { ...ACTIVITY_OPTIONS.finishRun, taskQueue: this.#queues.store, summary: 'finish' },
      [request],
    );
    this.#outcome = written;
    setAttributes(this.#admission.searchAttributes, { state: written.state });
    return written;
  }

  /** The stages of a scope, for summaries: ids of scopes appear in no spec. */
  #stagesIn(scope: string): string {
    const { stages } = this.#plan.scopes[planIndex(this.#plan).scopeById(scope)!]!;
    const [first = scope, ...others] = stages;
    return others.length === 0 ? first : `${first} and ${others.length} more`;
  }

  #isShared(scope: string): boolean {
    const index = planIndex(this.#plan);
    return index.isShared(index.scopeById(scope)!);
  }

  #scopeCall(scope: string, generation: number, resumes: true | undefined): ScopeCall {
    return { runId: this.#runId, scope, generation, ...(resumes === true ? { resumes } : {}) };
  }
}
