import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createToken, revokeToken } from '../../app/access/tokens.ts';
import type { AccessStore, TokenRow } from '../../store/access.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { API_LIMITS } from '../limits.ts';
import { createTokenWatch } from './token-watch.ts';

const CHECK_MS = API_LIMITS.checkTokensEveryMs;

beforeEach(() => void vi.useFakeTimers({ now: 0 }));
afterEach(() => void vi.useRealTimers());

async function openRig(open: (access: AccessStore) => Promise<AccessStore> = (access) => Promise.resolve(access)) {
  const access = createMemoryAccess();
  const { tokens } = access;
  const { token } = await createToken(
    { name: 'ci', scopes: ['read'], runs: [], groups: [], allowGit: [], lifeMs: 60_000 },
    { tokens, nowMs: 0 },
  );
  const logged: string[] = [];
  const watch = createTokenWatch({
    access: () => open(access),
    nowMs: Date.now,
    checkEveryMs: CHECK_MS,
    log: (line) => logged.push(line),
  });
  const hold = (row: TokenRow = token) => {
    const state = { isOpen: true };
    const held = watch.hold(row, { listener: 'tcp', address: '192.0.2.7', end: () => void (state.isOpen = false) });
    return { state, release: held.release };
  };
  return { tokens, hold, logged };
}

test('a revocation ends the open requests of the token at the next check', async () => {
  const { tokens, hold } = await openRig();
  const { state } = hold();
  await vi.advanceTimersByTimeAsync(10 * CHECK_MS);
  expect(state.isOpen).toBe(true);
  await revokeToken('ci', { tokens, nowMs: Date.now() });
  await vi.advanceTimersByTimeAsync(CHECK_MS);
  expect(state.isOpen).toBe(false);
});

test('a check asks only for tokens of open requests, each once', async () => {
  const asked: unknown[] = [];
  const { hold } = await openRig((access) =>
    Promise.resolve({
      ...access,
      tokens: { ...access.tokens, list: (names) => (asked.push(names), access.tokens.list(names)) },
    }),
  );
  const [one, two] = [hold(), hold()];
  await vi.advanceTimersByTimeAsync(CHECK_MS);
  expect(asked).toEqual([['ci']]);
  expect([one.state.isOpen, two.state.isOpen]).toEqual([true, true]);
});

test('the expiry of a token ends its open requests', async () => {
  const { hold } = await openRig();
  const { state } = hold();
  await vi.advanceTimersByTimeAsync(60_000 - CHECK_MS);
  expect(state.isOpen).toBe(true);
  await vi.advanceTimersByTimeAsync(CHECK_MS);
  expect(state.isOpen).toBe(false);
});

test('a request that has ended is not watched, and no timer remains', async () => {
  const { tokens, hold } = await openRig();
  const { state, release } = hold();
  release();
  await revokeToken('ci', { tokens, nowMs: 0 });
  await vi.advanceTimersByTimeAsync(2 * CHECK_MS);
  expect(state.isOpen).toBe(true);
  expect(vi.getTimerCount()).toBe(0);
});

test('a database that restarts ends no request', async () => {
  let failures = 2;
  const { hold, logged } = await openRig((access) =>
    failures-- > 0 ? Promise.reject(new Error('it starts')) : Promise.resolve(access),
  );
  const { state } = hold();
  await vi.advanceTimersByTimeAsync(10 * CHECK_MS);
  expect(state.isOpen).toBe(true);
  expect(logged).toEqual([]);
});

test.each([
  ['fails', () => Promise.reject(new Error('it is gone'))],
  ['does not answer', () => new Promise<never>(() => undefined)],
])('a database that %s ends the requests within 5 seconds', async (_name, open) => {
  const { hold, logged } = await openRig(open);
  const { state } = hold();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(state.isOpen).toBe(false);
  expect(logged).toEqual([expect.stringContaining('their database does not answer')]);
});
