import { expect, test } from 'vitest';
import { Problems } from '../../text/diagnostics.ts';
import { compileCondition } from './condition.ts';

test.each([
  ['an open placeholder', '${{', ' '],
  ['placeholders', '', '${{ '],
  ['ends of placeholders', '${{', ' } '],
])('a condition of %s is read in time in proportion to its length', (_what, begin, part) => {
  const value = begin + part.repeat(Math.ceil((256 * 1024) / part.length));
  const at = { file: 'spec', line: 1, column: 1 };
  const beganMs = performance.now();
  compileCondition(
    { value, at } as never,
    '`when`',
    new Map(),
    () => ({ problems: [] }) as never,
    new Problems('spec'),
  );
  expect(performance.now() - beganMs).toBeLessThan(2_000);
});
