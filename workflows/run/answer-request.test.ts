import { expect, test } from 'vitest';
import { ANSWER_LIMITS } from '../../domain/run/approval-answer.ts';
import { answerProblem } from './answer-request.ts';

test.each([
  { stage: 'a', decision: 'approve' },
  { stage: 'a', decision: 'reject', by: 'ada', comment: 'no' },
  { stage: 'a', decision: 'approve', fields: { x: 1 } },
  { stage: 'a', decision: 'reject', fields: {} },
  { stage: 'a', decision: 'reject', fields: { x: 1 } },
  { stage: 'a', decision: 'approve', comment: 'x'.repeat(ANSWER_LIMITS.commentCharacters) },
])('%j is an answer', (value) => {
  expect(answerProblem(value)).toBeNull();
});

test.each<[unknown, string]>([
  [undefined, 'an answer is {"stage"'],
  [null, 'an answer is {"stage"'],
  ['approve', 'an answer is {"stage"'],
  [[], 'an answer is {"stage"'],
  [{ decision: 'approve' }, 'names its `stage`'],
  [{ stage: 7, decision: 'approve' }, 'names its `stage`'],
  [{ stage: 'a' }, '`decision` of an answer must be "approve" or "reject"'],
  [{ stage: 'a', decision: 'yes' }, '`decision` of an answer must be "approve" or "reject"'],
  [{ stage: 'a', decision: 'approve', by: 7 }, '`by` of an answer must be a string of at most 256 characters'],
  [{ stage: 'a', decision: 'approve', by: 'x'.repeat(257) }, '`by` of an answer'],
  [{ stage: 'a', decision: 'approve', comment: 'x'.repeat(2_049) }, '`comment` of an answer'],
  [{ stage: 'a', decision: 'approve', fields: [] }, '`fields` of an answer must be an object'],
  [{ stage: 'a', decision: 'approve', fields: null }, '`fields` of an answer must be an object'],
])('%j is not an answer', (value, problem) => {
  expect(answerProblem(value)).toContain(problem);
});
