import { expect, test } from 'vitest';
import { parseAudit, parseCreatedToken, parseToken, parseTokens } from './answers.ts';

const TOKEN = {
  name: 'ci',
  scopes: ['run'],
  runs: [],
  groups: [],
  allowGit: [],
  createdAtMs: 0,
  expiresAtMs: null,
  lastUsedAtMs: null,
  revokedAtMs: null,
};

test('answers about tokens are read', () => {
  expect(parseToken(TOKEN)).toEqual(TOKEN);
  expect(parseTokens({ tokens: [TOKEN], next: 'x' })).toEqual({ tokens: [TOKEN], next: 'x' });
  expect(parseTokens({ tokens: [] })).toEqual({ tokens: [], next: null });
  expect(parseCreatedToken({ ...TOKEN, text: 'x' })).toEqual({ ...TOKEN, text: 'x' });
  expect(parseAudit({ rows: [], next: null })).toEqual({ rows: [], next: null });
});

test.each([null, [], 'text', {}, { ...TOKEN, name: undefined, scopes: undefined }, { tokens: [{}] }, { rows: [{}] }])(
  'the answer %j is of another version',
  (answer) => {
    for (const parse of [parseTokens, parseCreatedToken, parseAudit])
      expect(() => parse(answer)).toThrow('an answer of another version');
  },
);
