import { describe, expect, test } from 'vitest';
import type { StageFailure } from '../run/stage-result.ts';
import { CodedError } from './coded-error.ts';
import { ERROR_CODES, type ErrorCode } from './codes.ts';
import { endsVm, isErrorCode, isLostVm, remedyOf, retryOf, toErrorCode, withoutLinks } from './error-code.ts';

const CODES = Object.keys(ERROR_CODES) as ErrorCode[];

describe('the consequences of a code', () => {
  test('these codes ask for a new VM, and no others do', () => {
    expect(CODES.filter(isLostVm).sort()).toEqual(['vm/boot-timeout', 'vm/lost', 'vm/protocol']);
  });

  test('these codes end a VM: those after which a new VM is tried, and a disk that stayed full', () => {
    expect(CODES.filter(endsVm).sort()).toEqual(['host/disk-full', 'vm/boot-timeout', 'vm/lost', 'vm/protocol']);
  });

  test('only failures of the infrastructure are retried: not a mistake in a spec, an outcome of a stage or a wrong command', () => {
    const tried = Object.entries(ERROR_CODES).filter(([, { kind, retry }]) => kind !== 'world' && retry !== 'never');
    expect(tried).toEqual([]);
  });
});

test('a remedy names pages of the docs by their paths: terminals have no links', () => {
  expect(remedyOf('stage/condition')).toBe(
    'Correct the condition as the message says; docs/reference/spec.md#conditions lists the limits. Then run again.',
  );
  expect(CODES.filter((code) => remedyOf(code)!.includes(']('))).toEqual([]);
  expect(withoutLinks('`[a](b)` stays')).toBe('`[a](b)` stays');
});

describe('a code of another build', () => {
  test.each(['vm/melted', 'constructor', 'toString', ''])('%j stays unchanged, is final and has no remedy', (text) => {
    const code = toErrorCode(text);
    expect(code).toBe(text);
    expect({ isKnown: isErrorCode(code), retry: retryOf(code), remedy: remedyOf(code) }).toEqual({
      isKnown: false,
      retry: 'never',
      remedy: null,
    });
    expect([isLostVm(code), endsVm(code)]).toEqual([false, false]);
  });

  test('a failure without a code is a bug', () => {
    expect([toErrorCode(null), toErrorCode(undefined)]).toEqual(['internal/bug', 'internal/bug']);
  });
});

test('a code outside of the list, and a text that `toErrorCode` has not converted, do not compile', () => {
  // @ts-expect-error misspelt
  const thrown = new CodedError('vm/losst', 'because');
  // @ts-expect-error misspelt
  const written: StageFailure = { code: 'stage/exit-nonzer', message: '', stderrTail: '' };
  const text: string = 'vm/lost';
  // @ts-expect-error a text goes through `toErrorCode`
  const read: StageFailure = { code: text, message: '', stderrTail: '' };
  expect([thrown, written, read].map(({ code }) => isErrorCode(code))).toEqual([false, false, true]);
});
