import { expect, it } from 'vitest';
import { readCodexLogin, tokensOfLogin } from './codex-login.ts';

const TOKENS = { id_token: 'a.id.c', access_token: 'an.access.c', refresh_token: 'rt-refresh', account_id: 'acc-1' };
const FILE = { OPENAI_API_KEY: null, tokens: TOKENS, last_refresh: '2026-11-20T08:00:00.123456Z', extra: 'x' };

const read = (file: unknown): string | null => readCodexLogin(JSON.stringify(file))?.forGuest ?? null;

it('a guest gets the access token and the account, and no token or name that renews or identifies the person', () => {
  expect(JSON.parse(read(FILE)!)).toEqual({
    auth_mode: 'chatgptAuthTokens',
    OPENAI_API_KEY: null,
    tokens: {
      id_token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      access_token: 'an.access.c',
      refresh_token: '',
      account_id: 'acc-1',
    },
    last_refresh: '2026-11-20T08:00:00.123456Z',
  });
  for (const text of [TOKENS.refresh_token, TOKENS.id_token, 'extra']) expect(read(FILE)).not.toContain(text);
});

it('the text for a guest does not change, and does not contain a key next to the tokens', () => {
  expect(readCodexLogin(read(FILE)!)?.forGuest).toBe(read(FILE));
  expect(read({ ...FILE, OPENAI_API_KEY: 'sk-beside' })).toBe(read(FILE));
});

it.each([undefined, 7, 'yesterday', '2026-11-20', '2026-11-20T08:00:00.123456Z\n'])(
  'a time that Codex would not read (%j) does not cost the login',
  (time) => {
    expect(JSON.parse(read({ ...FILE, last_refresh: time })!).last_refresh).toBe('1970-01-01T00:00:00Z');
  },
);

it.each([
  ['a key', 'sk-key'],
  ['no JSON', '{'],
  ['null', 'null'],
  ['a list', '[]'],
  ['a login by a key', JSON.stringify({ OPENAI_API_KEY: 'sk-key' })],
  ['no access token', JSON.stringify({ tokens: { ...TOKENS, access_token: '' } })],
  ['no account', JSON.stringify({ tokens: { ...TOKENS, account_id: null } })],
])('%s is not a login by a subscription', (_, text) => {
  expect(readCodexLogin(text)).toBeNull();
});

it('every token of a login is a secret, and other values contain no tokens', () => {
  const tokens = ['a.id.c', 'an.access.c', 'rt-refresh'];
  expect(tokensOfLogin(JSON.stringify(FILE, null, 2))).toEqual(tokens);
  expect(tokensOfLogin(JSON.stringify({ ...FILE, OPENAI_API_KEY: 'sk-key' }))).toEqual([...tokens, 'sk-key']);
  for (const text of ['sk-key', '{"tokens":"x"}', '{"tokens":[1]}', '', '{']) expect(tokensOfLogin(text)).toEqual([]);
});
