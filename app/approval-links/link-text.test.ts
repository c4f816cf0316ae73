import { createSecretKey, randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import type { SecretKeys } from '../secrets/secret-keys.ts';
import { hashLink, nameLink, readLink, signLink } from './link-text.ts';

const NOW_MS = 1_800_000_000_000;
const FACTS = { runId: 'site-01', execKey: 'ship/0/1', as: 'anna', expiresAtMs: NOW_MS + 1 };
const make = (count: number): SecretKeys => ({
  file: '/keys',
  keys: Array.from({ length: count }, (_, at) => ({ id: `${at}`.repeat(16), key: createSecretKey(randomBytes(32)) })),
});
const KEYS = make(2);

test('a link has its facts until its end, which is exact', () => {
  const link = signLink(FACTS, KEYS);
  expect(link).toMatch(/^[\w-]+\.[\w-]{43}$/);
  expect(readLink(link, KEYS, NOW_MS)).toEqual(FACTS);
  expect(readLink(link, KEYS, NOW_MS + 1)).toBeNull();
});

test('a link that is changed in one character is no link', () => {
  const link = signLink(FACTS, KEYS);
  const changed = Array.from(link, (character, at) =>
    ['A', 'B', '.', '=', '\0', 'é']
      .filter((other) => other !== character)
      .map((other) => `${link.slice(0, at)}${other}${link.slice(at + 1)}`),
  ).flat();
  expect(changed.length).toBeGreaterThan(5 * link.length);
  expect(changed.filter((text) => readLink(text, KEYS, NOW_MS) !== null)).toEqual([]);
});

test.each([
  ['an empty text', ''],
  ['only a dot', '.'],
  ['facts without a signature', signLink(FACTS, KEYS).split('.')[0]!],
  ['a signature of no bytes', `${signLink(FACTS, KEYS).split('.')[0]!}.`],
  [
    'the signature of other facts',
    `${Buffer.from('[]').toString('base64url')}.${signLink(FACTS, KEYS).split('.')[1]!}`,
  ],
  ['a link with a third part', `${signLink(FACTS, KEYS)}.x`],
  ['a text beyond the limit', `${'a'.repeat(5_000)}.${'b'.repeat(43)}`],
])('%s is no link', (_what, text) => {
  expect(readLink(text, KEYS, NOW_MS)).toBeNull();
});

test('each key of the file reads its links, and no other key does', () => {
  const rotated = { ...KEYS, keys: [...make(1).keys, ...KEYS.keys] };
  const link = signLink(FACTS, KEYS);
  expect(readLink(link, rotated, NOW_MS)).toEqual(FACTS);
  expect(readLink(signLink(FACTS, rotated), KEYS, NOW_MS)).toBeNull();
});

test('the same facts have the same link, and its name in a log does not contain it', () => {
  const link = signLink(FACTS, KEYS);
  expect(signLink(FACTS, KEYS)).toBe(link);
  expect(nameLink(link)).toMatch(/^link:[0-9a-f]{16}$/);
  expect(hashLink(link)).toHaveLength(32);
});
