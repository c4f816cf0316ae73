/** The workflow of a run: admits it, then carries out what the run machine asks for until it says `finish`. */
import {
  CancellationScope,
  CancelledFailure,
  defineUpdate,
  isCancellation,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type { Activities, Admission, RunRequest, ScopeCall, WholeScopeCall } from '../../activities/contract.ts';
import { toErrorCode } from '../../domain/errors/error-code.ts';
import type { Command } from '../../domain/pipeline/command.ts';
import type { MachineEvent } from '../../domain/pipeline/event.ts';
import { start, transition, type Transition } from '../../domain/pipeline/machine.ts';
import {
  machineFromWire,
  type MachinePlan,
  machinePlanOf,
  type MachineStage,
} from '../../domain/pipeline/machine-plan.ts';
import { planIndex } from '../../domain/pipeline/plan-index.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { fromWire } from '../../domain/plan/wire.ts';
import { BEHAVIOUR } from '../../domain/run/behaviour.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent, RunOutcome } from '../../domain/run/event.ts';
import { toStageResult } from '../../domain/run/stage-result.ts';
import { vmLeaseOf } from '../../domain/run/vm-lease.ts';
import { ACTIVITY_OPTIONS, stageScheduleToCloseMs } from '../activity-options.ts';
import { reasonOf, stageFailureEvent } from '../activity-outcome.ts';
import { workflowFailure } from '../failure.ts';
import { answerOf, answerProblem, type AnswerRequest } from '../answers.ts';
import { stageTable } from './current-details.ts';
import { historyFull } from './history-limit.ts';
import { RUN_MESSAGES } from '../messages.ts';
import type { UnreadablePayload } from '../payload-converter.ts';
import { queuesOf, releaseQueue, type RunQueues, stageQueue } from './queues.ts';
import { setAttributes } from '../search-attributes.ts';
import { stageCall, wholeStageCall } from './stage-call.ts';
import { OneScope, ScopeForEachCall, type WorkUnderWay } from '../work-under-way.ts';

const answerUpdate = defineUpdate<void, [AnswerRequest]>(RUN_MESSAGES.answer);

const { admit } = proxyActivities<Activities>(ACTIVITY_OPTIONS.admit);
const { acquireVm, runStage, releaseVm, appendEvents, finishRun } = proxyActivities<Activities>(
  ACTIVITY_OPTIONS.runStage,
);

/**
 * @returns the outcome of a run that succeeded
 * @throws ApplicationFailure whose type is an error code when the run failed or was not admitted
 */
export async function voidboxRun(request: RunRequest): Promise<RunOutcome> {
  const outer = CancellationScope.current();
  return CancellationScope.nonCancellable(async () => {
    let run: RunLoop | null = null;
    // Before anything is awaited: a message that comes first is answered, and not left lying.
    setHandler(answerUpdate, (answer) => run?.answer(answer), {
      validator(answer) {
        const problem = answerProblem(answer, run?.asked ?? null);
        if (problem !== null) throw workflowFailure('call/refused', problem);
      },
    });
    const admission = await admitted(request);
    const loop = new RunLoop(admission, workflowInfo().workflowId);
    run = loop;
    outer.cancelRequested.catch(() => loop.hear({ type: 'cancel-requested' }));
    const outcome = await loop.toEnd();
    return concluded(outcome);
  });
}

async function admitted(request: unknown): Promise<Admission> {
  // Whatever a client sent is handed on as it is: `admit` says what is wrong with it.
  if (isUnreadable(request))
    throw workflowFailure('admit/invalid', `the argument can't be read: ${request.unreadable}`);
  const fields =
    typeof request === 'object' && request !== null && !Array.isArray(request) ? (request as RunRequest) : {};
  try {
    const { workflowId, originalExecutionRunId } = workflowInfo();
    return await admit({ ...fields, runId: workflowId, originalExecutionRunId, behaviour: BEHAVIOUR });
  } catch (error) {
    const { code, message } = reasonOf(error);
    throw workflowFailure(code, message);
  }
}

function isUnreadable(value: unknown): value is UnreadablePayload {
  return typeof value === 'object' && value !== null && 'unreadable' in value;
}

function concluded(outcome: RunOutcome): RunOutcome {
  switch (outcome.state) {
    case 'succeeded':
      return outcome;
    case 'cancelled':
    case 'terminated':
      throw new CancelledFailure('the run was cancelled', [outcome]);
    case 'failed': {
      const { failure, failedStage } = outcome;
      const tail =
        failure === null || failure.stderrTail === ''
          ? ''
          : `\n\nlast lines of its standard error:\n${failure.stderrTail}`;
      const named =
        failure === null || failedStage === null || failure.message.includes(failedStage)
          ? ''
          : `stage ${failedStage}: `;
      const message = failure === null ? 'the run failed' : `${named}${failure.message}${tail}`;
      throw workflowFailure(toErrorCode(failure?.code), message, outcome);
    }
  }
}

type CommandOf<T extends Command['type']> = Extract<Command, { type: T }>;

/** Between the machine and Temporal: events in, commands out, nothing decided here. */
class RunLoop {
  readonly #admission: Admission;
  readonly #queues: RunQueues;
  readonly #plan: MachinePlan;
  /** Null from behaviour 2: it stays in the run's records. */
  readonly #wholePlan: Plan | null;
  readonly #runId: string;
  readonly #behaviour: number;
  readonly #stages: ReadonlyMap<string, MachineStage>;
  readonly #heard: MachineEvent[] = [];
  #gaveUp = false;
  /** Ends the wait for something to hear. */
  #wake: () => void = () => undefined;
  readonly #underWay: WorkUnderWay;
  readonly #timers = new CancellationScope();
  /** Stages that wait for an answer, with the attempt that asks. */
  readonly #asked = new Map<string, number>();
  /** Events that wait for the next activity to write them. */
  #unwritten: NewRunEvent[] = [];
  #appending: Promise<void> = Promise.resolve();

  constructor(admission: Admission, runId: string) {
    this.#admission = admission;
    this.#queues = queuesOf(admission);
    this.#runId = runId;
    this.#behaviour = admission.behaviour ?? 0;
    this.#wholePlan = admission.plan === undefined ? null : fromWire(admission.plan);
    this.#plan = planIn(admission, this.#wholePlan);
    const hear = (event: MachineEvent): void => this.hear(event);
    this.#underWay = this.#behaviour < 2 ? new ScopeForEachCall(hear) : new OneScope(hear);
    this.#stages = new Map(this.#plan.stages.map((stage) => [stage.id, stage]));
  }

  hear(event: MachineEvent): void {
    this.#heard.push(event);
    this.#wake();
  }

  get asked(): ReadonlyMap<string, number> {
    return this.#asked;
  }

  answer(request: AnswerRequest): void {
    const attempt = this.#asked.get(request.stage);
    // Another answer may have come with the same workflow task.
    if (attempt === undefined) return;
    this.#asked.delete(request.stage);
    this.hear({ type: 'answered', stageId: request.stage, attempt, answer: answerOf(request) });
  }

  async toEnd(): Promise<RunOutcome> {
    const plan = this.#plan;
    setAttributes(this.#admission.searchAttributes, {
      name: plan.name,
      host: this.#admission.hostId,
      state: 'running',
    });
    let step = start(plan);
    for (;;) {
      const finish = this.#carryOut(step);
      if (finish !== null) {
        setCurrentDetails(stageTable(plan, step.state));
        return this.#finish(finish);
      }
      if (this.#heard.length === 0) {
        // Once for all that a workflow task brought.
        setCurrentDetails(stageTable(plan, step.state));
        // Not `condition`: each round in which one holds is another entry into the workflow's isolate.
        await new Promise<void>((resolve) => (this.#wake = resolve));
      }
      this.#giveUpInTime();
      step = transition(plan, step.state, this.#heard.shift()!);
    }
  }

  #carryOut(step: Transition): CommandOf<'finish'> | null {
    const atMs = Date.now();
    this.#unwritten.push(...step.events.map((event) => ({ ...event, atMs })));
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
        case 'ask':
          this.#asked.set(command.stageId, command.attempt);
          break;
        case 'withdraw':
          this.#asked.delete(command.stageId);
          break;
        case 'start-timer':
          this.#startTimer(command);
          break;
        case 'cancel-stages':
          this.#underWay.cancel([
            ...command.execKeys,
            ...command.acquiring.map(({ scope, generation }) => vmName(scope, generation)),
          ]);
          break;
        case 'finish':
          return command;
      }
    }
    if (this.#unwritten.length > 0) this.#appendNow();
    return null;
  }

  /** Before what was heard, so that nothing starts because of it. */
  #giveUpInTime(): void {
    const limit = this.#admission.historyLimit;
    const failure = this.#behaviour === 0 || limit === undefined || this.#gaveUp ? null : historyFull(limit);
    if (failure === null) return;
    this.#gaveUp = true;
    this.#heard.unshift({ type: 'give-up', failure });
  }

  #runStage(command: CommandOf<'run-stage'>): void {
    const { stageId, execKey, attempt, lease } = command;
    const stage = this.#stages.get(stageId)!;
    const events = this.#takeUnwritten();
    this.#underWay.start(execKey, {
      run: () =>
        runStage.executeWithOptions(
          {
            ...ACTIVITY_OPTIONS.runStage,
            taskQueue: stageQueue(this.#queues, lease),
            scheduleToCloseTimeout: stageScheduleToCloseMs(stage.timeoutMs),
            summary: attempt === 1 ? stageId : `${stageId} (attempt ${attempt})`,
          },
          [
            this.#behaviour === 0 && this.#wholePlan !== null
              ? wholeStageCall(this.#runId, this.#admission.input, this.#wholePlan, command, events)
              : stageCall(this.#runId, stage, command, events),
          ],
        ),
      onResult: (result) => ({ type: 'stage-finished', result: toStageResult(result) }),
      onFailure: (error, isCancelled) => stageFailureEvent(error, stageId, execKey, isCancelled),
    });
  }

  #acquireVm({ scope, generation }: CommandOf<'acquire-vm'>): void {
    this.#underWay.start(vmName(scope, generation), {
      run: () =>
        acquireVm.executeWithOptions(
          { ...ACTIVITY_OPTIONS.acquireVm, taskQueue: this.#queues.lease, summary: `VM of ${scope}` },
          [this.#scopeCall(scope, generation)],
        ),
      onResult: (answer) => {
        const lease = vmLeaseOf(answer);
        if (lease !== null) return { type: 'vm-acquired', scope, generation, lease };
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

  #releaseVm({ scope, generation, lease }: CommandOf<'release-vm'>): void {
    const taskQueue = releaseQueue(this.#queues, lease, this.#isShared(scope));
    const call = releaseVm.executeWithOptions(
      { ...ACTIVITY_OPTIONS.releaseVm, taskQueue, summary: `stop the VM of ${scope}` },
      [this.#scopeCall(scope, generation)],
    );
    void call
      .catch((error: unknown) => {
        const { code, message } = reasonOf(error);
        this.#unwritten.push({
          id: EVENT_ID.releaseFailed(scope, generation),
          atMs: Date.now(),
          body: {
            type: 'notice',
            level: 'warning',
            message: `the VM of ${scope} could not be released (${code}): ${message}`,
          },
        });
      })
      .then(() => this.hear({ type: 'vm-released', scope, generation }));
  }

  #startTimer({ id, delayMs }: CommandOf<'start-timer'>): void {
    this.#timers
      .run(() => sleep(delayMs, { summary: id }))
      .then(
        () => this.hear({ type: 'timer-fired', id }),
        (error: unknown) => {
          if (!isCancellation(error)) throw error;
        },
      );
  }

  #appendNow(): void {
    const events = this.#takeUnwritten();
    const call = appendEvents.executeWithOptions(
      { ...ACTIVITY_OPTIONS.appendEvents, taskQueue: this.#queues.store, summary: 'record what happened' },
      [{ runId: this.#runId, events }],
    );
    // Events that could not be written within days are offered again with the last activity of the run.
    const settled = call.catch(() => void this.#unwritten.push(...events));
    this.#appending = this.#appending.then(() => settled);
  }

  async #finish({ outcome, merge }: CommandOf<'finish'>): Promise<RunOutcome> {
    this.#timers.cancel();
    await this.#appending;
    const request = { runId: this.#runId, outcome, merge, events: this.#takeUnwritten() };
    const written = await finishRun.executeWithOptions(
      { ...ACTIVITY_OPTIONS.finishRun, taskQueue: this.#queues.store, summary: 'finish' },
      [request],
    );
    setAttributes(this.#admission.searchAttributes, { state: written.state });
    return written;
  }

  #takeUnwritten(): NewRunEvent[] {
    const events = this.#unwritten;
    this.#unwritten = [];
    return events;
  }

  #isShared(scope: string): boolean {
    const index = planIndex(this.#plan);
    return index.isShared(index.scopeById(scope)!);
  }

  #scopeCall(scope: string, generation: number): ScopeCall | WholeScopeCall {
    const whole = this.#behaviour === 0 ? this.#wholePlan?.scopes.find(({ id }) => id === scope) : undefined;
    return whole === undefined
      ? { runId: this.#runId, scope, generation }
      : { runId: this.#runId, scope: whole, generation };
  }
}

function planIn({ machine }: Admission, whole: Plan | null): MachinePlan {
  if (machine !== undefined) return machineFromWire(machine);
  if (whole !== null) return machinePlanOf(whole);
  throw workflowFailure('internal/bug', 'the admission holds no plan');
}

function vmName(scope: string, generation: number): string {
  return `${scope}/${generation}`;
}
