/**
 * The failure that each code gives to Temporal. The lists are literal, so that a change of the codes shows its effect
 * here.
 */
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

test('Temporal retries these codes and no others', () => {
  expect(CODES.filter((code) => failureOf(code).nonRetryable !== true).sort()).toEqual([
    'attempt/detached',
    'fence/stale',
    'host/elsewhere',
    'host/no-service',
    'skill/away',
    'store/io',
    'vm/no-capacity',
  ]);
});

test('failures for missing room and for a reset of an ended run are benign', () => {
  expect(CODES.filter((code) => failureOf(code).category === 'BENIGN').sort()).toEqual([
    'host/no-service',
    'run/ended',
    'vm/no-capacity',
  ]);
});

test('no failure contains the folder in which this code is installed', () => {
  const here = import.meta.dirname;
  for (const code of CODES) expect(failureOf(code).stack).toBe('');
  const detached = toActivityFailure(new DetachedError('its worker was shut down'));
  expect(detached.stack).toBe('');
  const bug = toActivityFailure(new TypeError(`Cannot find module '${here}/gone.js' imported from ${here}/failure.js`));
  expect(bug.message).toBe("TypeError: Cannot find module 'gone.js' imported from failure.js");
  expect(bug.stack).not.toContain(here);
  // The stack stays, because a bug report needs it.
  expect(bug.stack).toMatch(/^TypeError: [^\n]*\n +at .*failure\.test\.ts:\d+:\d+/);
});

test("the message of a failure is cut to the length of an event's text", () => {
  const message = 'x'.repeat(900_000);
  for (const error of [new CodedError('admit/invalid', message), new TypeError(message)]) {
    const failure = toActivityFailure(error);
    expect(failure.message).toHaveLength(EVENT_LIMITS.textCharacters);
    expect(failure.message).toMatch(/… \(\d+ characters more\)$/);
    expect(failure.stack!.length).toBeLessThanOrEqual(EVENT_LIMITS.textCharacters);
  }
});
