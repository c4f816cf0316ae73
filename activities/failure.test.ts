/** What Temporal is told of each code. Written down, so that a change of the list shows what it changes here. */
import type { ApplicationFailure } from '@temporalio/activity';
import { expect, test } from 'vitest';
import { CodedError } from '../domain/errors/coded-error.ts';
import { ERROR_CODES, type ErrorCode } from '../domain/errors/codes.ts';
import { toActivityFailure } from './failure.ts';

const CODES = Object.keys(ERROR_CODES) as ErrorCode[];

function failureOf(code: ErrorCode): ApplicationFailure {
  return toActivityFailure(new CodedError(code, 'because')) as ApplicationFailure;
}

test('the type of a failure is its code', () => {
  expect(CODES.map((code) => failureOf(code).type)).toEqual(CODES);
});

test('Temporal tries these again, and no other code', () => {
  expect(CODES.filter((code) => failureOf(code).nonRetryable !== true).sort()).toEqual([
    'attempt/detached',
    'fence/stale',
    'host/elsewhere',
    'skill/away',
    'store/io',
    'vm/no-capacity',
  ]);
});

test('waiting for room is no fault', () => {
  expect(CODES.filter((code) => failureOf(code).category === 'BENIGN')).toEqual(['vm/no-capacity']);
});
