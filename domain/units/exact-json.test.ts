import { expect, test } from 'vitest';
import { randomOf } from '../../test/machine/random.ts';
import { PrintedNumber, readExactJson, writeExactJson } from './exact-json.ts';

test.each([
  '18446744073709551615',
  '-9007199254740993',
  '1.0',
  '0.12345678901234567891',
  '1e3',
  '-0',
  '1E400',
  '{"__proto__":{"a":1},"constructor":2,"b":[1.50,1.5]}',
])('a value keeps its digits and keys: %s', (text) => {
  const read = readExactJson(` ${text}\n`);
  expect('value' in read && writeExactJson(read.value)).toBe(text);
});

test('lists and mappings have at most 200 levels', () => {
  const nested = (levels: number): string => `${'['.repeat(levels)}1${']'.repeat(levels)}`;
  expect(readExactJson(nested(201))).toHaveProperty('value');
  expect(readExactJson(nested(202))).toMatchObject({ isTooDeep: true });
});

test.each([
  ['{"a":1,}', 'there is something else at character 8'],
  ['[1', 'it ends too early'],
  ['01', 'there is something else at character 2'],
  ['"\\x"', 'there is something else at character 1'],
  ['', 'it ends too early'],
  ['['.repeat(100_000), 'its values are nested more than 200 deep'],
])('a text that is not JSON %#', (text, problem) => {
  expect(readExactJson(text)).toMatchObject({ problem });
});

test('JSON is what the built-in parser accepts', () => {
  const plain = (value: unknown): unknown => {
    if (value instanceof Map) return Object.fromEntries([...value].map(([key, each]) => [key, plain(each)]));
    if (Array.isArray(value)) return value.map(plain);
    return value instanceof PrintedNumber ? Number(value.text) : value;
  };
  const parts = ['{', '}', '[', ']', ',', ':', '"a"', '"\\u00e9\\n"', '1', '-0', '2.5e3', 'true', 'null', ' ', '"'];
  for (let seed = 1; seed <= 5_000; seed += 1) {
    const random = randomOf(seed);
    const text = Array.from({ length: 1 + random(8) }, () => parts[random(parts.length)]!).join('');
    let wanted: unknown;
    try {
      wanted = { value: JSON.parse(text) as unknown };
    } catch {
      wanted = null;
    }
    const read = readExactJson(text);
    const got = 'value' in read ? JSON.stringify({ value: plain(read.value) }) : 'null';
    expect(got, text).toBe(JSON.stringify(wanted));
  }
});
