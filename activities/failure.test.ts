/** What Temporal is told of each code. Written down, so that a change of the list shows what it changes here. */
import type { ApplicationFailure } from '@temporalio/activity';
import { expect, test } from 'vitest';
import { CodedError } from '../domain/errors/coded-error.ts';
import { ERROR_CODES, type ErrorCode } from '../domain/errors/codes.ts';
import { EVENT_LIMITS } from '../domain/run/event-limits.ts';
import { DetachedError, toActivityFailure } from './failure.ts';

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

test('waiting for room and a reset of a run that has ended are no faults of a worker', () => {
  expect(CODES.filter((code) => failureOf(code).category === 'BENIGN').sort()).toEqual(['run/ended', 'vm/no-capacity']);
});

test('no failure says where this code is installed', () => {
  const here = import.meta.dirname;
  for (const code of CODES) expect(failureOf(code).stack).toBe('');
  const detached = toActivityFailure(new DetachedError('its worker was shut down'));
  expect(detached.stack).toBe('');
  const bug = toActivityFailure(new TypeError(`Cannot find module '${here}/gone.js' imported from ${here}/failure.js`));
  expect(bug.message).toBe("TypeError: Cannot find module 'gone.js' imported from failure.js");
  expect(bug.stack).not.toContain(here);
  // What a report of a bug needs stays.
  expect(bug.stack).toMatch(/^TypeError: [^\n]*\n +at .*failure\.test\.ts:\d+:\d+/);
});

test('a history takes no more of a message than an event does', () => {
  const message = 'x'.repeat(900_000);
  for (const error of [new CodedError('admit/invalid', message), new TypeError(message)]) {
    const failure = toActivityFailure(error);
    expect(failure.message).toHaveLength(EVENT_LIMITS.textCharacters);
    expect(failure.message).toMatch(/… \(\d+ characters more\)$/);
    expect(failure.stack!.length).toBeLessThanOrEqual(EVENT_LIMITS.textCharacters);
  }
});
