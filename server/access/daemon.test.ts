/** The token of Void-Box's daemon, on the whole API. */
import { expect, test } from 'vitest';
import { createDaemonToken } from '../../app/access/daemon-token.ts';
import { createToken, hashToken, revokeToken } from '../../app/access/tokens.ts';
import { NO_TOKENS } from '../../app/access/no-tokens.ts';
import type { OpenAccess } from '../../app/access/access-opener.ts';
import { hasScope } from '../../domain/access/scopes.ts';
import { openUploads } from '../../store/open-uploads.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import { createApi } from '../api.ts';
import { API_LIMITS } from '../limits.ts';
import { listRouteAccess } from './route-scopes.ts';

const TEXT = '0123456789abcdef0123456789abcdef';

function openApi(access: OpenAccess, checkTokensEveryMs = API_LIMITS.checkTokensEveryMs) {
  const ended: string[] = [];
  const logged: string[] = [];
  const api = createApi({
    machine: createTestMachine(openMemoryStores(new MemoryPlace()), {}),
    uploads: openUploads({ stateDir: '/nowhere/state' }),
    access,
    daemon: createDaemonToken(Buffer.from(hashToken(TEXT)).toString('hex'), 0),
    version: '1.2.3',
    limits: { ...API_LIMITS, requestsPerSecond: 100_000, checkTokensEveryMs },
    log: (line) => logged.push(line),
  });
  const ask = async (path: string, { method = 'GET', token = TEXT }: { method?: string; token?: string } = {}) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const connection = { listener: 'tcp', address: '192.0.2.7', end: () => void ended.push(token) } as const;
    // The answer of each request is on its way until the test ends.
    const outgoing = { destroyed: false, once: () => undefined };
    const body = method === 'GET' ? {} : { body: '{}' };
    return await api.request(path, { method, headers, ...body }, { connection, outgoing });
  };
  return { ask, logged, ended };
}

test('its holder reads without a database, and another text gets 401', async () => {
  const { ask } = openApi(() => Promise.reject(new Error('a database was opened')));
  expect((await ask('/v1/runs')).status).toBe(200);
  expect((await ask('/api/v1/runs')).status).toBe(200);
  const refused = await ask('/v1/runs', { token: `${TEXT}0` });
  expect([refused.status, await refused.json()]).toEqual([401, expect.objectContaining({ code: 'UNAUTHORIZED' })]);
});

test.each(
  [...listRouteAccess()].flatMap(([route, scope]) =>
    scope !== 'public' && !hasScope(['run'], scope) ? [route.split(' ') as [string, string]] : [],
  ),
)('its holder is no owner: %s %s is refused', async (method, path) => {
  const { ask } = openApi(() => Promise.resolve(NO_TOKENS));
  const answer = await ask(path.replaceAll(/:\w+/g, 'x'), { method });
  expect([answer.status, await answer.json()]).toEqual([403, expect.objectContaining({ code: 'api/not-allowed' })]);
});

test('its changes are rows of the audit log, or lines of the log if no database exists', async () => {
  const memory = createMemoryAccess();
  const kept = openApi(() => Promise.resolve(memory));
  await kept.ask('/v1/runs/none/cancel', { method: 'POST' });
  expect(await memory.audit.list({ limit: 9 })).toMatchObject([
    { token: 'daemon', address: '192.0.2.7', route: '/v1/runs/:runId/cancel', runId: 'none' },
  ]);
  const without = openApi(() => Promise.resolve(NO_TOKENS));
  await without.ask('/v1/runs/none/cancel', { method: 'POST' });
  expect(without.logged).toEqual([
    expect.stringContaining('POST /v1/runs/:runId/cancel of the token daemon from 192.0.2.7, run "none"') as string,
  ]);
  expect(without.logged.join()).not.toContain(TEXT);
});

test('the check of open requests ends one of a revoked token, and none of the daemon', async () => {
  const memory = createMemoryAccess();
  const nowMs = Date.now();
  const request = { name: 'ci', scopes: ['read' as const], runs: [], groups: [], allowGit: [], lifeMs: 60_000 };
  const { text } = await createToken(request, { tokens: memory.tokens, nowMs });
  const { ask, ended } = openApi(() => Promise.resolve(memory), 1);
  for (const token of [TEXT, text]) expect((await ask('/api/v1/runs', { token })).status).toBe(200);
  await revokeToken('ci', { tokens: memory.tokens, nowMs });
  await expect.poll(() => ended).toEqual([text]);
});
