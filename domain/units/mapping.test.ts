import { expect, test } from 'vitest';
import { createMapping, valueAt } from './mapping.ts';

test('a mapping has its own keys only', () => {
  const mapping = createMapping([['__proto__', 1]]);
  mapping['toString'] = 2;
  expect(JSON.stringify(mapping)).toBe('{"__proto__":1,"toString":2}');
  expect(mapping['constructor']).toBeUndefined();
});

test('a value is read from the mapping itself', () => {
  const values = JSON.parse('{"__proto__":1}') as Record<string, number>;
  expect(valueAt(values, '__proto__')).toBe(1);
  expect(valueAt(values, 'constructor')).toBeUndefined();
});
