/** Hostile texts in each parameter and each body of each route: they are refused, and lead nowhere. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readEnvironment } from '../setup/environment.ts';
import { openStores } from '../store/open-stores.ts';
import { openUploads } from '../store/open-uploads.ts';
import type { Stores } from '../store/stores.ts';
import { leaveFinishedRuns } from '../test/cli/finished-runs.ts';
import { createMemoryAccess } from '../test/rig/access/memory-access.ts';
import { openAsOwner } from '../test/rig/access/owner.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { listRouteAccess } from './access/route-scopes.ts';
import { createMemorySessions } from '../test/rig/skills/memory-session-control.ts';
import { type Api, createApi } from './api.ts';
import { API_LIMITS } from './limits.ts';

const SECRET = 'sesame-4711';
const RUN = 'sales-good';

let dir: string;
let stores: Stores;
let api: Pick<Api, 'request'>;
let logged: string[] = [];

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-hostile-'));
  const env = readEnvironment({ VOIDBOX_STATE_DIR: join(dir, 'state'), VOIDBOX_CACHE_DIR: join(dir, 'cache') });
  await leaveFinishedRuns(env.stateDir);
  for (const place of ['secret', 'state/secret', `state/runs/secret`]) writeFileSync(join(dir, place), SECRET);
  stores = await openStores(env);
  const access = createMemoryAccess();
  api = openAsOwner(
    createApi({
      machine: createTestMachine(stores, { env }),
      uploads: openUploads(env),
      access: () => Promise.resolve(access),
      openSessions: () => Promise.resolve(createMemorySessions()),
      version: '1.2.3',
      limits: API_LIMITS,
      log: (line) => logged.push(line),
    }),
  );
});
afterAll(async () => {
  await stores.close();
  rmSync(dir, { recursive: true, force: true });
});

/** Segments of a path, as they are sent. */
const SEGMENTS = [
  '..%2Fsecret',
  '..%2F..%2F..%2Fsecret',
  '..%2f..%2fsecret%00',
  '%2e%2e%2fsecret',
  '..%5Csecret',
  '%2Fetc%2Fpasswd',
  '%252e%252e%252fsecret',
  '%00',
  '%0a',
  '%ff',
  '%c0%ae%c0%ae%2fsecret',
  // A lone surrogate, as a careless client writes it.
  '%ed%a0%80',
  '%',
  '__proto__',
  'x'.repeat(4_000),
];

const ROUTES = [...listRouteAccess().keys()].map((route) => route.split(' ') as [string, string]);
const PLACES = ROUTES.flatMap(([method, pattern]) =>
  [...pattern.matchAll(/:(\w+)/g)].map(([, parameter]) => ({ method, pattern, parameter: parameter! })),
);

/** Every other parameter has a value that leads on. */
function fillPath(pattern: string, parameter: string, segment: string): string {
  const others: Readonly<Record<string, string>> = { runId: RUN, stage: 'total', sha256: 'a'.repeat(64) };
  return pattern.replaceAll(/:(\w+)/g, (_match, name: string) =>
    name === parameter ? segment : (others[name] ?? 'x'),
  );
}

/** Without what readers and sessions write: a record of results, and files with hashes as their names. */
function listFiles(): readonly string[] {
  return readdirSync(dir, { recursive: true, encoding: 'utf8' })
    .filter((path) => !/^state\/messages\b|\/records(?:$|\/void-box-results\.json$)/.test(path))
    .toSorted();
}

async function send(method: string, path: string, body?: string): Promise<{ status: number; text: string }> {
  const response = await api.request(path, {
    method,
    ...(body === undefined ? {} : { body, headers: { 'content-type': 'application/json' } }),
  });
  return { status: response.status, text: await response.text() };
}

describe('a text of a path', () => {
  test.each(PLACES)('$method $pattern: `$parameter` is no path', async ({ method, pattern, parameter }) => {
    const before = listFiles();
    logged = [];
    const body = method === 'POST' ? JSON.stringify({ role: 'user', content: 'x' }) : undefined;
    for (const segment of SEGMENTS) {
      const { status, text } = await send(method, fillPath(pattern, parameter, segment), body);
      // A session has any text as its id, and begins with its first message.
      const statuses = parameter === 'sessionId' ? [200, 400] : [400, 404];
      expect(statuses, `${segment.slice(0, 40)}: ${status} ${text}`).toContain(status);
      expect(text).not.toContain(SECRET);
    }
    expect(logged).toEqual([]);
    expect(listFiles()).toEqual(before);
  });
});

const SPEC = 'kind: workflow\nname: a\nworkflow: { steps: [{ name: a, run: ls }] }\n';
const START = { spec: SPEC, baseDir: '/' };
const LONE = '\ud800';
/** Each route with a body, and each of its texts. */
const SURROGATES: readonly (readonly [string, string, object])[] = [
  ['/api/v1/runs', 'spec', { ...START, spec: `${SPEC}# ${LONE}` }],
  ['/api/v1/runs', 'runId', { ...START, runId: LONE }],
  ['/api/v1/runs', 'baseDir', { ...START, baseDir: `/${LONE}` }],
  ['/api/v1/runs', 'params', { ...START, params: { a: LONE } }],
  ['/api/v1/runs', 'a name of params', { ...START, params: { [LONE]: 'a' } }],
  ['/api/v1/runs', 'input', { ...START, input: LONE }],
  ['/api/v1/runs', 'variables', { ...START, variables: { A: LONE } }],
  ['/api/v1/runs', 'a name of variables', { ...START, variables: { [LONE]: 'a' } }],
  ['/api/v1/runs', 'uploads', { spec: SPEC, uploads: { [LONE]: 'a'.repeat(64) } }],
  ['/api/v1/runs', 'allowMounts', { ...START, allowMounts: [`/${LONE}`] }],
  ['/api/v1/runs', 'mock', { ...START, mock: [LONE] }],
  ['/api/v1/runs', 'plan', { plan: { name: LONE }, baseDir: '/' }],
  [`/api/v1/runs/${RUN}/retry`, 'runId', { runId: LONE }],
  [`/api/v1/runs/${RUN}/retry`, 'from', { from: LONE }],
  [`/api/v1/runs/${RUN}/retry`, 'params', { params: { a: LONE } }],
  [`/api/v1/runs/${RUN}/retry`, 'input', { input: LONE }],
  [`/api/v1/runs/${RUN}/fork`, 'spec', { ...START, spec: `${SPEC}# ${LONE}` }],
  [`/api/v1/runs/${RUN}/answer`, 'stage', { decision: 'approve', stage: LONE }],
  [`/api/v1/runs/${RUN}/answer`, 'comment', { decision: 'approve', comment: LONE }],
  [`/api/v1/runs/${RUN}/answer`, 'by', { decision: 'approve', by: LONE }],
  [`/api/v1/runs/${RUN}/answer`, 'fields', { decision: 'approve', fields: { a: LONE } }],
  ['/api/v1/runs/actions', 'filter', { action: 'cancel', filter: { name: LONE } }],
  ['/api/v1/sessions', 'params', { skill: 'a', session: 'a', params: { [LONE]: 'a' } }],
  ['/api/v1/sessions/first/advance', 'output', { step: 'ask', turn: 1, output: LONE }],
  ['/api/v1/deployments', 'spec', { spec: `${SPEC}# ${LONE}` }],
  ['/api/v1/deployments', 'name', { spec: SPEC, name: LONE }],
  ['/api/v1/deployments', 'specDir', { spec: SPEC, specDir: LONE }],
  ['/api/v1/deployments', 'a name of bundles', { spec: SPEC, bundles: { [LONE]: 'a'.repeat(64) } }],
  ['/api/v1/deployments', 'params', { spec: SPEC, params: { a: LONE } }],
  ['/api/v1/deployments', 'allowMounts', { spec: SPEC, allowMounts: [`/${LONE}`] }],
  ['/api/v1/deployments/none/runs', 'input', { input: LONE }],
  ['/api/v1/deployments/none/runs', 'params', { params: { a: LONE } }],
  ['/api/v1/deployments/none/runs', 'a name of params', { params: { [LONE]: 'a' } }],
  ['/api/v1/deployments/none/schedules/none/pause', 'note', { note: LONE }],
  ['/api/v1/deployments/none/schedules/none/times', 'owner', { owner: LONE, atMs: 1, firedAtMs: 1, firing: 'a' }],
  ['/api/v1/deployments/none/schedules/none/times', 'firing', { owner: 'a', atMs: 1, firedAtMs: 1, firing: LONE }],
  ['/api/v1/deployments/none/triggers/none/send', 'contentType', { bodies: ['e30='], contentType: LONE }],
  ['/api/v1/runs/none/approval-links', 'as', { stage: 'a', as: LONE }],
  ['/api/v1/secrets/A/rotate', 'value', { value: LONE }],
  ['/api/v1/secrets/A/rotate', 'deployments', { value: 'a', deployments: [LONE] }],
  ['/api/v1/tokens', 'name', { name: LONE, scopes: ['read'] }],
  ['/api/v1/tokens', 'runs', { name: 'a', scopes: ['read'], runs: [LONE] }],
  ['/api/v1/tokens', 'groups', { name: 'a', scopes: ['read'], groups: [LONE] }],
  ['/api/v1/tokens', 'allowGit', { name: 'a', scopes: ['read'], allowGit: [`example.org/${LONE}`] }],
  ['/api/v1/deliveries/replay', 'deployment', { filter: { deployment: LONE } }],
  ['/api/v1/deliveries/replay', 'trigger', { filter: { deployment: 'a', trigger: LONE } }],
  ['/api/v1/notifications/replay', 'deadOf', { deadOf: LONE }],
  ['/api/v1/deployments/a/triggers/b/explain', 'contentType', { body: 'e30=', contentType: LONE }],
  ['/v1/runs', 'file', { file: `/${LONE}` }],
  ['/v1/runs', 'run_id', { file: '/none.yaml', run_id: LONE }],
  ['/v1/runs', 'input', { file: '/none.yaml', input: LONE }],
  ['/v1/runs/none/cancel', 'reason', { reason: LONE }],
  ['/v1/sessions/s/messages', 'content', { role: 'user', content: LONE }],
];
/** They read no text of a body. */
const WITHOUT_TEXTS: readonly string[] = [
  // Its body is bytes.
  '/hooks/:deployment/:name',
  // It is a form of a browser, which server/approvals tests.
  '/approvals/:link',
  '/api/v1/runs/:runId/cancel',
  '/api/v1/sessions/:session/cancel',
  '/api/v1/deployments/:deployment/schedules/:trigger/trigger',
  '/api/v1/deployments/:deployment/schedules/:trigger/backfill',
  '/api/v1/deployments/:deployment/schedules/:trigger/resume',
  '/api/v1/tokens/:name/revoke',
  '/api/v1/secrets/rekey',
  '/api/v1/deployments/:deployment/pause',
  '/api/v1/deployments/:deployment/resume',
  '/api/v1/deployments/:deployment/rollback',
  '/v1/runs/:runId/messages',
];

describe('a lone surrogate in a body', () => {
  test.each(SURROGATES)('POST %s: `%s` is refused', async (path, _field, body) => {
    logged = [];
    const before = listFiles();
    const { status, text } = await send('POST', path, JSON.stringify(body));
    expect([status, text]).toEqual([400, expect.stringContaining('it is not Unicode text')]);
    expect(logged).toEqual([]);
    expect(listFiles()).toEqual(before);
  });

  test('each route with texts in its body has a row', () => {
    const patterns = ROUTES.flatMap(([method, pattern]) => (method === 'POST' ? [pattern] : []));
    const rows = SURROGATES.map(([path]) => path);
    const missing = patterns.filter(
      (pattern) => !rows.some((path) => new RegExp(`^${pattern.replaceAll(/:\w+/g, '[^/]+')}$`).test(path)),
    );
    expect(missing).toEqual(WITHOUT_TEXTS);
  });

  test('a pair of surrogates is a character, as an escape too', async () => {
    const { status, text } = await send(
      'POST',
      '/api/v1/tokens',
      '{"name":"b","scopes":["read"],"runs":["\\ud83d\\ude00-*"]}',
    );
    expect([status, text]).toEqual([201, expect.stringContaining('😀-*')]);
  });
});
