/**
 * The answer that a client sends to a stage that asks, and its check. Any client that reaches the server can send any
 * value.
 */
import { ANSWER_LIMITS } from '../../domain/run/approval-answer.ts';

export const DECISIONS = ['approve', 'reject'] as const;
export type Decision = (typeof DECISIONS)[number];

/** The argument of the update `answer`. */
export interface AnswerRequest {
  readonly stage: string;
  readonly decision: Decision;
  /** The name that the answering person gives. */
  readonly by?: string;
  readonly comment?: string;
  /** Values of the approval's fields, by name. With `reject` none of them is required. */
  readonly fields?: Readonly<Record<string, unknown>>;
}

/** The result of the update `answer`: the answer that won. The same answer sent again gets the same receipt. */
export interface AnswerReceipt {
  readonly stage: string;
  /** The number of the stage's question, from 1. */
  readonly attempt: number;
  readonly decision: Decision;
  readonly by: string | null;
  /** Whether a token or a link proved who sent the answer; else `by` is a claim. */
  readonly verified: boolean;
  readonly comment: string | null;
  /** ISO 8601. */
  readonly at: string;
}

const EXAMPLE = '{"stage":"…","decision":"approve" or "reject","by":"…","comment":"…","fields":{…}}';

/** @returns the problem of the argument, or null */
export function answerProblem(value: unknown): string | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return `an answer is ${EXAMPLE}`;
  const request = value as Partial<Record<keyof AnswerRequest, unknown>>;
  const { stage, decision, by, comment, fields } = request;
  if (typeof stage !== 'string') return `an answer names its \`stage\`: ${EXAMPLE}`;
  if (decision !== 'approve' && decision !== 'reject')
    return `\`decision\` of an answer must be "approve" or "reject": ${EXAMPLE}`;
  if (!isNote(by, ANSWER_LIMITS.byCharacters))
    return `\`by\` of an answer must be a string of at most ${ANSWER_LIMITS.byCharacters} characters`;
  if (!isNote(comment, ANSWER_LIMITS.commentCharacters))
    return `\`comment\` of an answer must be a string of at most ${ANSWER_LIMITS.commentCharacters} characters`;
  if (fields !== undefined && (typeof fields !== 'object' || fields === null || Array.isArray(fields)))
    return '`fields` of an answer must be an object';
  return null;
}

function isNote(value: unknown, mostCharacters: number): boolean {
  return value === undefined || (typeof value === 'string' && value.length <= mostCharacters);
}
