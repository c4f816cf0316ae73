import { describe, expect, test } from 'vitest';
import type { StageFailure } from '../run/stage-result.ts';
import { CodedError } from './coded-error.ts';
import { ERROR_CODES, type ErrorCode } from './codes.ts';
import { endsVm, isErrorCode, isLostVm, remedyOf, retryOf, toErrorCode, withoutLinks } from './error-code.ts';

const CODES = Object.keys(ERROR_CODES) as ErrorCode[];

describe('what follows from the list', () => {
  test('a new VM is asked for after these, and after no other code', () => {
    expect(CODES.filter(isLostVm).sort()).toEqual(['vm/boot-timeout', 'vm/lost', 'vm/protocol']);
  });

  test('these end a VM: those after which a new one is tried, and a disk that stayed full', () => {
    expect(CODES.filter(endsVm).sort()).toEqual(['host/disk-full', 'vm/boot-timeout', 'vm/lost', 'vm/protocol']);
  });

  test('only a broken world is tried again: not a mistake in a spec, an outcome of a stage or a wrong command', () => {
    const tried = Object.entries(ERROR_CODES).filter(([, { kind, retry }]) => kind !== 'world' && retry !== 'never');
    expect(tried).toEqual([]);
  });
});

test('a remedy names pages of the docs by their paths: terminals have no links', () => {
  expect(remedyOf('stage/condition')).toBe(
    'Correct the condition as the message says; docs/reference/spec.md#conditions names its limits. Then run again.',
  );
  expect(CODES.filter((code) => remedyOf(code)!.includes(']('))).toEqual([]);
  expect(withoutLinks('`[a](b)` stays')).toBe('`[a](b)` stays');
});

describe('a code of another build', () => {
  test.each(['vm/melted', 'constructor', 'toString', ''])('%j stays what it is, is final and has no remedy', (text) => {
    const code = toErrorCode(text);
    expect(code).toBe(text);
    expect({ isKnown: isErrorCode(code), retry: retryOf(code), remedy: remedyOf(code) }).toEqual({
      isKnown: false,
      retry: 'never',
      remedy: null,
    });
    expect([isLostVm(code), endsVm(code)]).toEqual([false, false]);
  });

  test('a failure that came without a code is a bug', () => {
    expect([toErrorCode(null), toErrorCode(undefined)]).toEqual(['internal/bug', 'internal/bug']);
  });
});

test('a code that is not of the list, and a text that was not read as a code, do not compile', () => {
  // @ts-expect-error misspelt
  const thrown = new CodedError('vm/losst', 'because');
  // @ts-expect-error misspelt
  const written: StageFailure = { code: 'stage/exit-nonzer', message: '', stderrTail: '' };
  const text: string = 'vm/lost';
  // @ts-expect-error a text goes through `toErrorCode`
  const read: StageFailure = { code: text, message: '', stderrTail: '' };
  expect([thrown, written, read].map(({ code }) => isErrorCode(code))).toEqual([false, false, true]);
});
