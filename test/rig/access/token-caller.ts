/** Callers of use-cases that have a token, for tests. */
import type { Caller } from '../../../app/access/authenticate.ts';
import type { TokenRow } from '../../../store/access.ts';

/** The token `ci` with the scope `run` for every run, but for what the test changes. */
export function createTokenRow(change: Partial<TokenRow> = {}): TokenRow {
  return {
    name: 'ci',
    scopes: ['run'],
    runs: [],
    groups: [],
    allowGit: [],
    createdAtMs: 0,
    expiresAtMs: null,
    lastUsedAtMs: null,
    revokedAtMs: null,
    ...change,
  };
}

export function createTokenCaller(change: Partial<TokenRow> = {}): Caller {
  return { kind: 'token', token: createTokenRow(change) };
}
