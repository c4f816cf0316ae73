/** An answer as a person or a program gives it. */
import type { AnswerRequest } from '../../workflows/run/answer-request.ts';

export type GivenAnswer = Omit<AnswerRequest, 'stage'>;

/** @param user  the name of the person, for an answer without a name */
export function nameUser(given: GivenAnswer, user: string | undefined): GivenAnswer {
  return user === undefined || given.by !== undefined ? given : { ...given, by: user };
}
