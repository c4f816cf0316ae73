/**
 * The conditions that are being decided, and the times of waits that are being found. The server limits the concurrent
 * activities of a workflow, so most of them wait here.
 */
import type { ConditionResult, EvaluateCall, FindTimeCall, FoundTime } from '../../activities/contract.ts';
import type { Command } from '../../domain/pipeline/command.ts';
import type { MachineEvent } from '../../domain/pipeline/event.ts';
import { reasonOf } from '../activity-outcome.ts';

/** Concurrent calls; a host decides one at a time anyway. */
const MOST_UNDER_WAY = 20;

type Evaluate = Extract<Command, { type: 'evaluate' }>;
type FindTime = Extract<Command, { type: 'find-time' }>;

export interface ConditionIo {
  /** The call; the run loop adds the other fields. */
  evaluate(call: Omit<EvaluateCall, 'runId' | 'events'>): Promise<ConditionResult>;
  findTime(call: Omit<FindTimeCall, 'runId' | 'events'>): Promise<FoundTime>;
  receive(event: MachineEvent): void;
}

export class Conditions {
  readonly #io: ConditionIo;
  readonly #waiting: (Evaluate | FindTime)[] = [];
  #underWay = 0;

  constructor(io: ConditionIo) {
    this.#io = io;
  }

  decide(command: Evaluate | FindTime): void {
    this.#waiting.push(command);
    this.#next();
  }

  /** Drops all of them, because the run has nothing to decide any longer. */
  drop(): void {
    this.#waiting.length = 0;
  }

  #next(): void {
    if (this.#underWay >= MOST_UNDER_WAY) return;
    const command = this.#waiting.shift();
    if (command === undefined) return;
    this.#underWay += 1;
    if (command.type === 'find-time') this.#findTime(command);
    else this.#evaluate(command);
  }

  #findTime({ stageId, attempt, upstream }: FindTime): void {
    const about = { type: 'time-found', stageId, attempt } as const;
    this.#io.findTime({ stage: stageId, attempt, upstream }).then(
      ({ untilMs }) => this.#done({ ...about, outcome: 'found', untilMs }),
      (error: unknown) => this.#done({ ...about, outcome: 'failed', failure: { ...reasonOf(error), stderrTail: '' } }),
    );
  }

  #evaluate(command: Evaluate): void {
    const { stageId, evaluation, upstream } = command;
    const about = { type: 'condition-evaluated', stageId, evaluation } as const;
    this.#io.evaluate({ stage: stageId, evaluation, upstream }).then(
      ({ holds, output }) =>
        this.#done(holds ? { ...about, outcome: 'holds' } : { ...about, outcome: 'does-not-hold', output }),
      (error: unknown) => this.#done({ ...about, outcome: 'failed', failure: { ...reasonOf(error), stderrTail: '' } }),
    );
  }

  #done(event: MachineEvent): void {
    this.#underWay -= 1;
    this.#io.receive(event);
    this.#next();
  }
}
