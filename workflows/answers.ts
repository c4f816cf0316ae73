/** Answers to stages that ask: who may give one now, and what the run machine hears of it. */
import type { Answer } from '../domain/pipeline/event.ts';
import { sanitizeLine } from '../domain/security/sanitize.ts';

/** What a client sends with the update `answer`. */
export interface AnswerRequest {
  readonly stage: string;
  readonly outcome: 'succeeded' | 'failed';
  /** For people: why. */
  readonly message?: string;
}

const MESSAGE_CHARACTERS = 2_048;

/** @returns why the request is none, or comes for a stage that does not ask; null when it can be taken */
export function answerProblem(value: unknown, asked: ReadonlyMap<string, number> | null): string | null {
  if (typeof value !== 'object' || value === null)
    return 'an answer is {"stage":"…","outcome":"succeeded" or "failed","message":"…"}';
  const { stage, outcome, message } = value as Partial<Record<keyof AnswerRequest, unknown>>;
  if (typeof stage !== 'string') return 'an answer names its `stage`';
  if (outcome !== 'succeeded' && outcome !== 'failed') return '`outcome` of an answer is "succeeded" or "failed"';
  if (message !== undefined && (typeof message !== 'string' || message.length > MESSAGE_CHARACTERS))
    return `\`message\` of an answer is a text of at most ${MESSAGE_CHARACTERS} characters`;
  if (asked === null) return 'the run is not admitted yet: answer when its stage asks';
  return asked.has(stage) ? null : `no stage ${JSON.stringify(stage.slice(0, 80))} of this run waits for an answer`;
}

export function answerOf({ stage, outcome, message }: AnswerRequest): Answer {
  if (outcome === 'succeeded') return { outcome, outputs: { output: null, outputs: {} } };
  return {
    outcome,
    failure: {
      code: 'stage/declined',
      message: message === undefined ? `stage ${stage} was declined` : sanitizeLine(message),
      stderrTail: '',
    },
  };
}
