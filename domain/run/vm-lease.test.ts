import { expect, test } from 'vitest';
import { readHeld, vmLeaseOf } from './vm-lease.ts';

test.each([
  { vmKey: 'r/s/0' },
  { vmKey: 'r/s/0', queue: 'voidbox-host:b' },
  { vmKey: 'r/s/0', queue: 'q'.repeat(1_000), host: 'b-1' },
])('%j is a lease', (lease) => {
  expect(vmLeaseOf({ ...lease, ofALaterBuild: 1 })).toEqual(lease);
});

test.each([
  null,
  'r/s/0',
  {},
  { vmKey: '' },
  { vmKey: 1 },
  { vmKey: 'r/s/0', queue: null },
  { vmKey: 'r/s/0', queue: '' },
  { vmKey: 'r/s/0', queue: 'q'.repeat(1_001) },
  { vmKey: 'r/s/0', host: '../b' },
  { vmKey: 'r/s/0', host: 'b'.repeat(65) },
])('%j is not a lease', (value) => {
  expect(vmLeaseOf(value)).toBeNull();
});

test('held attempts are read from the answer to a call that resumes', () => {
  const holds = [
    { stage: 'a', attempt: 1 },
    { stage: 'b', attempt: 2 },
  ];
  expect(readHeld({ vmKey: 'r/s/1', holds }, true)).toEqual({ holds });
  expect(readHeld({ vmKey: 'r/s/1', holds }, undefined)).toEqual({});
  expect(readHeld({ vmKey: 'r/s/1' }, true)).toEqual({});
});

test.each([null, 'a', {}, [null], [{ stage: 'a' }], [{ stage: 1, attempt: 1 }], [{ stage: 'a', attempt: 1.5 }]])(
  '%j names no held attempts',
  (holds) => {
    expect(readHeld({ vmKey: 'r/s/1', holds }, true)).toEqual({});
  },
);
