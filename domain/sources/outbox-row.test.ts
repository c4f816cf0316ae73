import { expect, test } from 'vitest';
import { MOST_PAYLOAD_BYTES } from '../delivery/delivery.ts';
import { findRowProblem, MOST_ROW_ID } from './outbox-row.ts';

const ROW = { id: '7', createdAt: '2026-11-30 10:00:00+00', payload: '{"a": 1}', payloadBytes: 8 };

test('a row with JSON may start a run, also at each limit', () => {
  expect(findRowProblem(ROW)).toBeNull();
  expect(findRowProblem({ ...ROW, id: 'i'.repeat(MOST_ROW_ID) })).toBeNull();
  expect(findRowProblem({ ...ROW, payload: 'null' })).toBeNull();
});

test.each([
  [{ payload: '{' }, 'its payload is not JSON'],
  [{ payload: '' }, 'its payload is not JSON'],
  [{ payload: null, payloadBytes: 0 }, 'its payload is NULL'],
  [
    { payload: null, payloadBytes: MOST_PAYLOAD_BYTES + 1 },
    'its payload has 1048577 bytes; at most 1048576 are allowed',
  ],
  [{ id: 'i'.repeat(MOST_ROW_ID + 1) }, 'its id has more than 256 characters'],
])('another row starts none, for a reason: %o', (changes, problem) => {
  expect(findRowProblem({ ...ROW, ...changes })).toBe(problem);
});
