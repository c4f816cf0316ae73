import { expect, test } from 'vitest';
import type { AuditRow, TokenRow } from '../../../store/access.ts';
import { createStyle } from '../text/style.ts';
import { renderAudit } from './audit.ts';
import { renderToken, renderTokens } from './tokens.ts';

const HOUR_MS = 3_600_000;
const NOW_MS = 100 * HOUR_MS;
const LAYOUT = { style: createStyle(false), width: Number.POSITIVE_INFINITY, nowMs: NOW_MS };
const TOKEN: TokenRow = {
  name: 'ci',
  scopes: ['run', 'approve'],
  runs: [],
  groups: [],
  allowGit: [],
  createdAtMs: 0,
  expiresAtMs: NOW_MS + HOUR_MS,
  lastUsedAtMs: NOW_MS - HOUR_MS,
  revokedAtMs: null,
};

test('the list has the scopes, the runs and the state of each token', () => {
  const tokens: readonly TokenRow[] = [
    TOKEN,
    { ...TOKEN, name: 'old', expiresAtMs: NOW_MS, runs: ['a-*', 'b-*'], lastUsedAtMs: null },
    { ...TOKEN, name: 'gone', revokedAtMs: 1 },
    { ...TOKEN, name: 'ever', expiresAtMs: null },
  ];
  expect(renderTokens(tokens, LAYOUT)).toEqual([
    'NAME  SCOPES       RUNS       EXPIRES    LAST USED',
    'ci    run,approve  every run  in 1h 00m  1h ago',
    'old   run,approve  a-* b-*    expired    never',
    'gone  run,approve  every run  revoked    1h ago',
    'ever  run,approve  every run  never      1h ago',
  ]);
});

test('a created token is shown with its permissions and its end', () => {
  expect(renderToken({ ...TOKEN, groups: ['ops'], allowGit: ['github.com/acme'] }, NOW_MS)).toEqual([
    'token      ci',
    'scopes     run, approve',
    'runs       every run',
    'groups     ops',
    'may fetch  github.com/acme',
    'expires    1970-01-05T05:00:00.000Z (in 1h 00m)',
  ]);
  expect(renderToken({ ...TOKEN, expiresAtMs: null }, NOW_MS).at(-1)).toBe('expires    never');
});

test('a row of the audit log has the change and its outcome, and no control character', () => {
  const row: AuditRow = {
    id: 1,
    atMs: 0,
    token: 'ci',
    address: '192.0.2.7',
    method: 'POST',
    route: '/api/v1/runs/:runId/cancel',
    runId: 'a\u001B[31m',
    status: 403,
    code: 'api/not-allowed',
  };
  const [, line] = renderAudit([row], LAYOUT);
  expect(line).toMatch(
    /^1970-01-01T00:00:00\.000Z {2}ci {5}192\.0\.2\.7 {2}POST \/runs\/:runId\/cancel {2}a {4}403 api\/not-allowed$/,
  );
  expect(line).not.toContain('\u001B');
});
