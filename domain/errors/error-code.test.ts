import { expect, test } from 'vitest';
import { ERROR_CODES } from './codes.ts';
import { endsVm, isLostVm, remedyOf, retryOf } from './error-code.ts';

const CODES = Object.keys(ERROR_CODES);

test('a new VM is asked for after these, and after no other code', () => {
  expect(CODES.filter(isLostVm).sort()).toEqual(['vm/boot-timeout', 'vm/lost', 'vm/protocol']);
});

test('these end a VM: those after which a new one is tried, and a disk that stayed full', () => {
  expect(CODES.filter(endsVm).sort()).toEqual(['host/disk-full', 'vm/boot-timeout', 'vm/lost', 'vm/protocol']);
});

test('of a mistake in a spec and of an outcome of a stage, nothing is tried again but by the author', () => {
  const tried = Object.entries(ERROR_CODES).filter(([, { kind, retry }]) => kind !== 'world' && retry !== 'never');
  expect(tried).toEqual([]);
});

test.each(['vm/melted', 'constructor', 'toString', ''])(
  '%j is no code of this build: final, without a remedy',
  (code) => {
    expect([retryOf(code), remedyOf(code), isLostVm(code), endsVm(code)]).toEqual(['never', null, false, false]);
  },
);
