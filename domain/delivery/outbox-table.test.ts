import { expect, test } from 'vitest';
import { parseOutboxTable, quoteOutboxTable } from './outbox-table.ts';

test.each([
  ['orders_outbox', '"public"."orders_outbox"'],
  ['Sales.Orders', '"Sales"."Orders"'],
  [`a.${'b'.repeat(63)}`, `"a"."${'b'.repeat(63)}"`],
])('the name of a table is quoted in a statement: %s', (text, quoted) => {
  expect(quoteOutboxTable(parseOutboxTable(text)!)).toBe(quoted);
});

test.each(['', 'a.b.c', 'a"b', 'a; DROP TABLE b', 'a b', '1a', 'a.', '.a', 'ä', `${'b'.repeat(64)}`, 'a\0'])(
  'another text names no table: %j',
  (text) => {
    expect(parseOutboxTable(text)).toBeNull();
  },
);
