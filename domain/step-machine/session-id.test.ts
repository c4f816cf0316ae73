import { describe, expect, test } from 'vitest';
import {
  createChildSessionId,
  isCalledSession,
  isCallOf,
  isSessionId,
  isSessionName,
  outermostSession,
} from './session-id.ts';

describe('the form of an id', () => {
  test.each<[string, boolean, boolean]>([
    ['greeter-20260304-050607-ab12', true, true],
    ['.hidden', false, false],
    ['..', false, false],
    ['a/b', false, false],
    ['a b', false, false],
    ['', false, false],
    ['x'.repeat(128), true, true],
    ['x'.repeat(129), false, true],
    ['x'.repeat(200), false, true],
    ['x'.repeat(201), false, false],
    ['a~1', false, true],
    ['~1', false, false],
    ['a\n', false, false],
  ])('%j: by its name %s, at all %s', (text, isName, isId) => {
    expect([isSessionName(text), isSessionId(text)]).toEqual([isName, isId]);
  });
});

test('the id of a called session names its caller, and the outermost caller', () => {
  const inner = createChildSessionId('greeter', 3);
  const innermost = createChildSessionId(inner, 12);
  expect([inner, innermost]).toEqual(['greeter~3', 'greeter~3~12']);
  expect([inner, innermost].map(outermostSession)).toEqual(['greeter', 'greeter']);
  expect(['greeter', inner, innermost].map(isCalledSession)).toEqual([false, true, true]);
  expect([isCallOf('greeter', inner), isCallOf(inner, innermost)]).toEqual([true, true]);
});

test.each(['greeter', 'greeter~', 'greeter~x', 'greeter~3~12', 'greeter2~3', `greeter~${'1'.repeat(17)}`])(
  '%j was not called by greeter',
  (session) => {
    expect(isCallOf('greeter', session)).toBe(false);
  },
);
