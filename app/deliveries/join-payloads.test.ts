import { expect, test } from 'vitest';
import { joinPayloads } from './join-payloads.ts';

const join = (...payloads: readonly (readonly [string, string])[]): string =>
  Buffer.from(
    joinPayloads(payloads.map(([text, contentType]) => ({ bytes: Buffer.from(text), contentType }))),
  ).toString();

test('JSON keeps its digits, and other payloads become texts', () => {
  const text = join(
    ['{"n":18446744073709551615, "f":1.0}\n', 'application/json'],
    ['a "b"', 'text/plain'],
    ['[1]', 'application/cloudevents+json'],
  );
  expect(text).toBe('[{"n":18446744073709551615, "f":1.0},\n"a \\"b\\"",\n[1]]');
});

test('a payload that is no JSON cannot change the list', () => {
  expect(JSON.parse(join(['1], "x": [2', 'application/json'], ['', 'application/json']))).toEqual(['1], "x": [2', '']);
});

test('bytes that are not UTF-8 become replacement characters', () => {
  const bytes = new Uint8Array([0x61, 0xff]);
  expect(JSON.parse(Buffer.from(joinPayloads([{ bytes, contentType: 'text/plain' }])).toString())).toEqual(['a\uFFFD']);
});
