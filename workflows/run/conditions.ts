/** The conditions that are being decided. The server bounds how many activities of a workflow may be under way, so most wait here. */
import type { ConditionResult, EvaluateCall } from '../../activities/contract.ts';
import type { Command } from '../../domain/pipeline/command.ts';
import type { MachineEvent } from '../../domain/pipeline/event.ts';
import { reasonOf } from '../activity-outcome.ts';

/** Calls at once; a host decides one at a time anyway. */
const MOST_UNDER_WAY = 20;

type Evaluate = Extract<Command, { type: 'evaluate' }>;

export interface ConditionIo {
  /** The call, without what the run loop adds. */
  evaluate(call: Omit<EvaluateCall, 'runId' | 'events'>): Promise<ConditionResult>;
  receive(event: MachineEvent): void;
}

export class Conditions {
  readonly #io: ConditionIo;
  readonly #waiting: Evaluate[] = [];
  #underWay = 0;

  constructor(io: ConditionIo) {
    this.#io = io;
  }

  decide(command: Evaluate): void {
    this.#waiting.push(command);
    this.#next();
  }

  /** The run has nothing to decide any more. */
  drop(): void {
    this.#waiting.length = 0;
  }

  #next(): void {
    if (this.#underWay >= MOST_UNDER_WAY) return;
    const command = this.#waiting.shift();
    if (command === undefined) return;
    this.#underWay += 1;
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
