import { expect, test } from 'vitest';
import { answerIn } from './skill-answers.ts';

test('the agent is asked again after an answer with a number that would change', () => {
  expect(answerIn('```json\n{"id": 18446744073709551615}\n```')).toEqual({
    problem: 'the number 18446744073709551615 has no exact value: give it as a string.',
  });
  expect(answerIn('{"id": 9007199254740991, "f": 1.0}')).toEqual({ output: { id: 9007199254740991, f: 1 } });
  expect(answerIn('the id is 18446744073709551615')).toEqual({ output: 'the id is 18446744073709551615' });
});
