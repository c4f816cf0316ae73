/** The questions of the items of a window, under their names for people: `review[3].ok`. */
import type { Command } from '../../domain/pipeline/command.ts';
import type { MachineStage } from '../../domain/pipeline/machine-plan.ts';
import { workflowFailure } from '../failure.ts';
import type { AnswerReceipt, AnswerRequest } from '../run/answer-request.ts';
import { type QuestionIo, Questions } from '../run/questions.ts';

/** The questions of one item, while its machine runs. */
export interface QuestionsOfItem {
  open(stage: MachineStage, command: Extract<Command, { type: 'ask' }>): void;
  withdraw(stageId: string): void;
}

export class ItemQuestions {
  /** By name. An answered question stays, so that the same answer gets the same receipt until the window ends. */
  readonly #known = new Map<string, { readonly questions: Questions; readonly stageId: string }>();
  readonly #asking = new Set<string>();

  of(io: QuestionIo): QuestionsOfItem {
    const receive: QuestionIo['receive'] = (event) => {
      if (event.type === 'answered') this.#asking.delete(io.nameOf(event.stageId));
      io.receive(event);
    };
    const questions = new Questions({ ...io, receive });
    return {
      open: (stage, command) => {
        const name = io.nameOf(stage.id);
        this.#known.set(name, { questions, stageId: stage.id });
        this.#asking.add(name);
        questions.open(stage, command);
      },
      withdraw: (stageId) => {
        this.#asking.delete(io.nameOf(stageId));
        questions.withdraw(stageId);
      },
    };
  }

  /** The names of waiting stages, in the order in which they began to wait. */
  get asking(): readonly string[] {
    return [...this.#asking];
  }

  /** @returns why no answer is accepted now, or null */
  problem(name: string): string | null {
    const known = this.#known.get(name);
    if (known !== undefined) return known.questions.problem(known.stageId);
    const waiting = this.asking;
    const shown = JSON.stringify(name.slice(0, 240));
    return `no stage ${shown} of these items waits for an answer${waiting.length === 0 ? '' : `; waiting: ${waiting.slice(0, 8).join(', ')}`}`;
  }

  /** @throws ApplicationFailure `call/refused` */
  async answer(request: AnswerRequest): Promise<AnswerReceipt> {
    const known = this.#known.get(request.stage);
    if (known === undefined) throw workflowFailure('call/refused', this.problem(request.stage) ?? 'withdrawn');
    return known.questions.answer({ ...request, stage: known.stageId });
  }
}
