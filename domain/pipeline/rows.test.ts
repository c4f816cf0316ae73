import { expect, test } from 'vitest';
import { flattenRows, rowAt, RowsDraft, rowsOf } from './rows.ts';

test.each([0, 1, 31, 32, 33, 100])('%i values come back in order', (count) => {
  const values = Array.from({ length: count }, (_, index) => index);
  const rows = rowsOf(values);
  expect(flattenRows(rows)).toEqual(values);
  expect(values.map((index) => rowAt(rows, index))).toEqual(values);
});

test('a draft does not change the rows that it began with, and copies no row that it does not change', () => {
  const before = rowsOf(Array.from({ length: 100 }, (_, index) => index));
  const draft = new RowsDraft(before);
  expect(draft.rows).toBe(before);
  draft.set(40, -1);
  draft.set(41, -2);
  expect([draft.at(40), draft.at(41), draft.at(39)]).toEqual([-1, -2, 39]);
  expect(rowAt(before, 40)).toBe(40);
  expect(draft.rows.map((row, index) => row === before[index])).toEqual([true, false, true, true]);
});
