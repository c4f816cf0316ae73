import { expect, test } from 'vitest';
import type { ApprovalField } from '../plan/plan.ts';
import { ANSWER_LIMITS, checkFields } from './approval-answer.ts';

const field = (name: string, change: Partial<ApprovalField> = {}): ApprovalField => ({
  name,
  type: 'text',
  required: true,
  description: '',
  choices: [],
  ...change,
});

const FIELDS = [
  field('why'),
  field('count', { type: 'number', required: false }),
  field('sure', { type: 'boolean', required: false }),
  field('when', { type: 'choice', required: false, choices: ['now', 'later'] }),
];

test('values are typed, or text as a command line sends it', () => {
  const typed = { why: '', count: 3, sure: true, when: 'now' };
  expect(checkFields(FIELDS, typed)).toEqual({ values: typed });
  expect(checkFields(FIELDS, { why: '', count: '3', sure: 'true', when: 'now' })).toEqual({ values: typed });
  expect(checkFields(FIELDS, { why: 'x' })).toEqual({ values: { why: 'x' } });
  expect(checkFields([], undefined)).toEqual({ values: {} });
});

test.each<[string, unknown, string]>([
  ['no required field', {}, 'the approval needs the field why (text)'],
  ['a stranger', { why: 'x', who: 'y' }, 'the approval has no field "who"; its fields: why, count, sure, when'],
  ['a field of every object', { why: 'x', constructor: 'y' }, 'the approval has no field "constructor"'],
  ['a number for a text', { why: 7 }, 'the field why must be text, got 7'],
  ['a text that is no number', { why: 'x', count: 'many' }, 'the field count must be a number, got "many"'],
  ['an empty number', { why: 'x', count: ' ' }, 'the field count must be a number'],
  ['no number at all', { why: 'x', count: 'Infinity' }, 'the field count must be a number'],
  ['a hexadecimal number', { why: 'x', count: '0x10' }, 'the field count must be a number, got "0x10"'],
  ['a number with leading zeros', { why: 'x', count: '007' }, 'the field count must be a number, got "007"'],
  ['a number behind a space', { why: 'x', count: ' 5' }, 'the field count must be a number, got " 5"'],
  ['a rounded number', { why: 'x', count: '9007199254740993' }, 'is "9007199254740993", which has no exact value'],
  ['a number that was rounded', { why: 'x', count: 9007199254740992 }, 'which has no exact value'],
  ['a larger number', { why: 'x', count: '12345678901234567890' }, 'which has no exact value'],
  ['a long fraction', { why: 'x', count: '0.12345678901234567891' }, 'which has no exact value'],
  ['a number without an end', { why: 'x', count: Infinity }, 'which has no exact value'],
  ['digits that are lost', { why: 'x', count: '1.50' }, 'is "1.50", which would become 1.5: write 1.5'],
  ['a text that is no flag', { why: 'x', sure: 'yes' }, 'the field sure must be true or false, got "yes"'],
  ['another choice', { why: 'x', when: 'never' }, 'the field when must be one of: now, later, got "never"'],
  ['null', { why: null }, 'the field why must be text, got null'],
  ['a list', ['x'], '`fields` of an answer must be an object'],
  ['a text', 'x', '`fields` of an answer must be an object'],
  ['too much', { why: 'x'.repeat(ANSWER_LIMITS.fieldBytes) }, 'have more than 65536 bytes'],
])('%s is refused', (_what, given, problem) => {
  expect(checkFields(FIELDS, given)).toEqual({ problem: expect.stringContaining(problem) });
});

test('the largest allowed fields are accepted', () => {
  const why = 'x'.repeat(ANSWER_LIMITS.fieldBytes - '{"why":""}'.length);
  expect(checkFields(FIELDS, { why })).toEqual({ values: { why } });
});

test('a field in the answer to an approval without fields is a problem', () => {
  expect(checkFields([], { x: 1 })).toEqual({ problem: 'the approval has no field "x"; it has no fields' });
});
