import { expect, test } from 'vitest';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import type { TokenRow } from '../../store/access.ts';
import { authenticate, type Caller, requireRun, requireScope } from './authenticate.ts';
import {
  createToken,
  MOST_TOKEN_GROUPS,
  MOST_TOKEN_LIFE_MS,
  MOST_TOKEN_REPOSITORIES,
  revokeToken,
  type TokenRequest,
} from './tokens.ts';

const REQUEST: TokenRequest = { name: 'ci', scopes: ['run'], runs: [], groups: [], allowGit: [], lifeMs: 1_000 };

function openRig() {
  const { tokens } = createMemoryAccess();
  return {
    tokens,
    create: (change: Partial<TokenRequest> = {}, nowMs = 5_000) =>
      createToken({ ...REQUEST, ...change }, { tokens, nowMs }),
    enter: (authorization: string | undefined, nowMs = 5_000) =>
      authenticate(authorization, { openTokens: () => Promise.resolve(tokens), nowMs }),
  };
}

test('a created token enters with its text, and the store has only its hash', async () => {
  const { tokens, create, enter } = openRig();
  const { token, text } = await create({ scopes: ['run', 'run', 'read'], runs: ['a-*'], groups: ['ops'] });
  expect(token).toEqual({
    name: 'ci',
    scopes: ['run', 'read'],
    runs: ['a-*'],
    groups: ['ops'],
    allowGit: [],
    createdAtMs: 5_000,
    expiresAtMs: 6_000,
    lastUsedAtMs: null,
    revokedAtMs: null,
  });
  expect(await enter(`Bearer ${text}`)).toMatchObject(token);
  expect(await enter(`bearer  ${text}`)).toMatchObject({ name: 'ci' });
  expect(JSON.stringify(await tokens.list())).not.toContain(text.slice(8));
});

test('two tokens have different texts', async () => {
  const { create } = openRig();
  const [one, other] = await Promise.all([create({ name: 'one' }), create({ name: 'other' })]);
  expect(one.text).not.toBe(other.text);
});

test('a second token of one name is refused, and the first one remains', async () => {
  const { create, enter } = openRig();
  const { text } = await create();
  await expect(create()).rejects.toMatchObject({ code: 'api/token-exists' });
  expect(await enter(`Bearer ${text}`)).toMatchObject({ name: 'ci' });
});

test.each([undefined, '', 'Bearer', 'Bearer x', 'Basic dTpw', `Bearer voidbox_${'a'.repeat(42)}`])(
  'a request with the header %j has no token, and no database is asked',
  async (header) => {
    const openTokens = () => Promise.reject(new Error('asked'));
    await expect(authenticate(header, { openTokens, nowMs: 0 })).rejects.toMatchObject({ code: 'api/no-token' });
  },
);

test('a text of the right form that no token has is refused', async () => {
  await expect(openRig().enter(`Bearer voidbox_${'a'.repeat(43)}`)).rejects.toMatchObject({
    code: 'api/no-token',
    message: 'the token is not known',
  });
});

test('a token is refused from the millisecond of its expiry', async () => {
  const { create, enter } = openRig();
  const { text } = await create();
  expect(await enter(`Bearer ${text}`, 5_999)).toMatchObject({ name: 'ci' });
  await expect(enter(`Bearer ${text}`, 6_000)).rejects.toMatchObject({
    code: 'api/no-token',
    message: 'the token ci expired at 1970-01-01T00:00:06.000Z',
  });
});

test('a revoked token is refused', async () => {
  const { tokens, create, enter } = openRig();
  const { text } = await create({ lifeMs: null });
  expect(await revokeToken('ci', { tokens, nowMs: 7_000 })).toMatchObject({ revokedAtMs: 7_000, expiresAtMs: null });
  await expect(enter(`Bearer ${text}`)).rejects.toMatchObject({ message: 'the token ci was revoked' });
});

test.each(['other', '../ci', ''])('a revocation of the token %j names no token', async (name) => {
  const { tokens, create } = openRig();
  await create();
  await expect(revokeToken(name, { tokens, nowMs: 0 })).rejects.toMatchObject({ code: 'api/no-such-token' });
});

test.each([
  ['name', { name: 'a b' }],
  ['scopes', { scopes: [] }],
  ['runs', { runs: [''] }],
  ['runs', { runs: ['a'.repeat(1_001)] }],
  ['runs', { runs: Array.from({ length: 33 }, (_, at) => `${at}`) }],
  ['groups', { groups: ['a b'] }],
  ['groups', { groups: Array.from({ length: MOST_TOKEN_GROUPS + 1 }, (_, at) => `g${at}`) }],
  ['allowGit', { allowGit: Array.from({ length: MOST_TOKEN_REPOSITORIES + 1 }, () => 'github.com/acme') }],
  ['expires', { lifeMs: 0 }],
  ['expires', { lifeMs: MOST_TOKEN_LIFE_MS + 1 }],
] as const)('a token with a wrong `%s` is not created: %j', async (key, change) => {
  const { tokens, create } = openRig();
  await expect(create(change)).rejects.toMatchObject({
    code: 'api/invalid-request',
    message: expect.stringContaining(`\`${key}\``) as string,
  });
  expect(await tokens.list()).toEqual([]);
});

test('a token at each limit is created', async () => {
  const { create } = openRig();
  await create({
    name: 'a'.repeat(64),
    runs: Array.from({ length: 32 }, () => 'a'.repeat(1_000)),
    groups: Array.from({ length: MOST_TOKEN_GROUPS }, (_, at) => `g${at}`),
    allowGit: Array.from({ length: MOST_TOKEN_REPOSITORIES }, () => 'github.com/acme'),
    lifeMs: MOST_TOKEN_LIFE_MS,
  });
});

test('a repository with a wildcard is no permission', async () => {
  await expect(openRig().create({ allowGit: ['*'] })).rejects.toThrow('HOST/PATH');
});

const ROW: TokenRow = {
  ...REQUEST,
  name: 'ci',
  createdAtMs: 0,
  expiresAtMs: null,
  lastUsedAtMs: null,
  revokedAtMs: null,
};

test('the owner may do everything, and sees every run', () => {
  const owner: Caller = { kind: 'owner' };
  requireScope(owner, 'admin');
  requireRun(owner, 'any');
});

test('a token may not use another scope, and the error names both', () => {
  const caller: Caller = { kind: 'token', token: ROW };
  requireScope(caller, 'read');
  requireScope(caller, 'run');
  expect(() => requireScope(caller, 'approve')).toThrow('the token ci has the scope run; the request needs approve');
});

test('a token sees only the runs that its patterns match', () => {
  const caller: Caller = { kind: 'token', token: { ...ROW, runs: ['nightly-*'] } };
  requireRun(caller, 'nightly-1');
  expect(() => requireRun(caller, 'weekly-1')).toThrow(
    'the token ci may not see the run `weekly-1`: its runs are `nightly-*`',
  );
});
