import { expect, test } from 'vitest';
import { hasTriggerExpression, splitTriggerText } from './trigger-texts.ts';

test.each([
  ['', []],
  ['plain', ['plain']],
  ['${{ input.a }}', [{ source: 'input.a', offset: 4 }]],
  ['pr-${{input.a}}!', ['pr-', { source: 'input.a', offset: 6 }, '!']],
  ['$${{ input.a }}', ['${{ input.a }}']],
  ['${{ "}}" + input.a }}', [{ source: '"}}" + input.a', offset: 4 }]],
  ['${{ params.a }}', [{ source: 'params.a', offset: 4 }]],
])('a text of a trigger has literal parts and expressions: %s', (text, parts) => {
  expect(splitTriggerText(text)).toEqual(parts);
});

test('a text with an open placeholder has no parts', () => {
  expect(splitTriggerText('a ${{ input.a')).toBeNull();
});

test('only a text with an expression depends on the delivery', () => {
  expect(['a', '$${{ a }}', 'a${{ input }}'].map(hasTriggerExpression)).toEqual([false, false, true]);
});
