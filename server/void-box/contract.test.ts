/** The contract with clients of Void-Box: a row for each route and each code. `states.test.ts` has the rows of runs. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { VOID_BOX_CODES } from '../../domain/void-box/error-codes.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { leaveRuns } from '../../test/rig/runs/void-box-runs.ts';
import { openVoidBoxService, type VoidBoxService } from '../../test/rig/runs/void-box-service.ts';
import { listRouteAccess } from '../access/route-scopes.ts';
import { createProblem } from '../problems.ts';
import { toVoidBoxResponse } from './errors.ts';

const TCP = { connection: { listener: 'tcp', address: '192.0.2.7', end: () => undefined } } as const;

let service: VoidBoxService;

beforeAll(async () => {
  service = openVoidBoxService();
  await leaveRuns(service.stores);
});
afterAll(() => service.close());

async function errorOf(response: Response): Promise<{ code: string; message: string; retryable: boolean }> {
  expect(response.headers.get('content-type')).toBe('application/json');
  const body = (await response.json()) as { code: string; message: string; retryable: boolean };
  expect(Object.keys(body)).toEqual(['code', 'message', 'retryable']);
  expect(body.retryable).toBe(VOID_BOX_CODES[body.code as keyof typeof VOID_BOX_CODES]);
  return body;
}

const part = (value: object): unknown => expect.objectContaining(value);

/** Each route, with a request, the status of its answer, and its body or a part of it. */
const ROUTES: readonly (readonly [string, string, unknown, number, unknown])[] = [
  ['GET /v1/health', '/v1/health', undefined, 200, part({ status: 'ok', persistence: 'disk' })],
  [
    'POST /v1/runs',
    '/v1/runs',
    { file: '/none.yaml', run_id: 'new' },
    200,
    part({ run_id: 'new', attempt_id: 1, state: 'running' }),
  ],
  [
    'GET /v1/runs',
    '/v1/runs?state=active',
    undefined,
    200,
    part({ runs: expect.arrayContaining([expect.objectContaining({ id: 'open' })]) }),
  ],
  ['GET /v1/runs/:runId', '/v1/runs/good', undefined, 200, part({ id: 'good', status: 'succeeded', attempt_id: 1 })],
  ['GET /v1/runs/:runId/events', '/v1/runs/good/events', undefined, 200, expect.arrayContaining([])],
  [
    'POST /v1/runs/:runId/cancel',
    '/v1/runs/good/cancel',
    { reason: 'x' },
    200,
    part({ run_id: 'good', state: 'succeeded', terminal_event_id: expect.any(String) }),
  ],
  ['GET /v1/runs/:runId/stages', '/v1/runs/good/stages', undefined, 200, part({ run_id: 'good', attempt_id: 1 })],
  [
    'GET /v1/runs/:runId/telemetry',
    '/v1/runs/good/telemetry?from_seq=0&stage_name=a',
    undefined,
    200,
    part({ run_id: 'good', attempt_id: 1, next_seq: 5 }),
  ],
  [
    'GET /v1/runs/:runId/stages/:stage/output-file',
    '/v1/runs/good/stages/a/output-file',
    undefined,
    200,
    part({ status: 'success' }),
  ],
  [
    'GET /v1/runs/:runId/stages/:stage/artifacts/:name',
    '/v1/runs/good/stages/a/artifacts/report.md',
    undefined,
    200,
    '# report\n',
  ],
  ['PUT /v1/runs/:runId/inbox', '/v1/runs/good/inbox', {}, 404, part({ code: 'NOT_FOUND' })],
  ['GET /v1/runs/:runId/intents', '/v1/runs/good/intents', undefined, 404, part({ code: 'NOT_FOUND' })],
  ['POST /v1/runs/:runId/messages', '/v1/runs/good/messages', {}, 404, part({ code: 'NOT_FOUND' })],
  ['GET /v1/sessions/:sessionId/messages', '/v1/sessions/new/messages', undefined, 200, []],
  [
    'POST /v1/sessions/:sessionId/messages',
    '/v1/sessions/default/messages',
    { role: 'user', content: 'hi' },
    200,
    part({ ts_ms: expect.any(Number), role: 'user', content: 'hi' }),
  ],
];

describe('routes', () => {
  test.each(ROUTES)('%s', async (route, path, body, status, expected) => {
    const response = await service.request(route.split(' ')[0]!, path, body);
    expect(response.status).toBe(status);
    const isJson = response.headers.get('content-type') === 'application/json';
    expect(isJson ? await response.json() : await response.text()).toEqual(expected);
  });

  test('each route below `/v1` has a row', () => {
    const routes = [...listRouteAccess().keys()].filter((route) => route.includes(' /v1/'));
    expect(ROUTES.map(([route]) => route).toSorted()).toEqual(routes.toSorted());
  });

  test('each route about a run refuses an unknown run', async () => {
    for (const [route, path] of ROUTES.filter(([route]) => route.includes(':runId'))) {
      const response = await service.request(
        route.split(' ')[0]!,
        path.replace(/good/, 'none'),
        route.startsWith('GET') ? undefined : {},
      );
      expect([route, response.status, (await errorOf(response)).code]).toEqual([route, 404, 'NOT_FOUND']);
    }
  });

  test('a message of a session is read again', async () => {
    await service.request('POST', '/v1/sessions/a%2F..%2Fb/messages', { role: 'assistant', content: 'ho' });
    expect(await service.get('/v1/sessions/a%2F..%2Fb/messages')).toEqual([
      { ts_ms: expect.any(Number), role: 'assistant', content: 'ho' },
    ]);
  });
});

/** Each code with a request that gets it. */
const CODES: readonly (readonly [keyof typeof VOID_BOX_CODES, number, string, string, unknown?])[] = [
  ['INVALID_SPEC', 400, 'POST', '/v1/runs', 'not json'],
  ['INVALID_SPEC', 400, 'POST', '/v1/runs', {}],
  ['INVALID_SPEC', 400, 'POST', '/v1/runs', { file: 7 }],
  ['INVALID_SPEC', 400, 'POST', '/v1/runs', { file: 'x', policy: { stage_timeout_secs: -1 } }],
  ['INVALID_SPEC', 400, 'POST', '/v1/runs', { file: 'x', snapshot: 'abc' }],
  ['INVALID_SPEC', 400, 'POST', '/v1/runs', { file: 'x', run_id: '..' }],
  ['INVALID_SPEC', 400, 'POST', '/v1/sessions/a/messages', { role: 'user' }],
  ['INVALID_POLICY', 400, 'POST', '/v1/runs', { file: 'x', policy: { max_parallel_microvms_per_run: 0 } }],
  ['INVALID_POLICY', 400, 'POST', '/v1/runs', { file: 'x', policy: { stage_timeout_secs: 0 } }],
  ['NOT_FOUND', 404, 'GET', '/v1/nonexistent'],
  ['NOT_FOUND', 404, 'GET', '/v1/runs/none'],
  ['NOT_FOUND', 404, 'DELETE', '/v1/runs/good'],
  ['ALREADY_TERMINAL', 409, 'POST', '/v1/runs', { file: 'x', run_id: 'good' }],
  ['INVALID_PARAMS', 400, 'GET', '/v1/runs/good/telemetry?from_seq=x'],
  ['INVALID_PARAMS', 400, 'GET', '/v1/runs/good/telemetry?from_seq=-1'],
  ['INVALID_PARAMS', 400, 'GET', '/v1/runs/%ff'],
  ['INVALID_PARAMS', 400, 'POST', '/v1/runs/good/cancel', 'not json'],
  ['INVALID_PARAMS', 400, 'PUT', '/v1/runs/good/inbox', 'not json'],
  ['INVALID_PARAMS', 400, 'GET', `/v1/sessions/${'x'.repeat(1_001)}/messages`],
  ['STRUCTURED_OUTPUT_MISSING', 404, 'GET', '/v1/runs/no-result/stages/a/output-file'],
  ['STRUCTURED_OUTPUT_MISSING', 404, 'GET', '/v1/runs/bad/stages/none/output-file'],
  ['ARTIFACT_NOT_FOUND', 404, 'GET', '/v1/runs/good/stages/a/artifacts/none.md'],
  ['ARTIFACT_NOT_FOUND', 404, 'GET', '/v1/runs/good/stages/a/artifacts/..%2F..%2Fetc%2Fpasswd'],
  ['ARTIFACT_PUBLICATION_INCOMPLETE', 409, 'GET', '/v1/runs/open/stages/a/artifacts/report.md'],
  ['PAYLOAD_TOO_LARGE', 413, 'POST', '/v1/runs', JSON.stringify({ file: 'x'.repeat(4 * 1024 * 1024) })],
];

describe('codes', () => {
  test.each(CODES.map((row) => [row[0], row[1], row] as const))(
    '%s with %i',
    async (code, status, [, , method, path, body]) => {
      const response = await service.request(method, path, body);
      expect(response.status).toBe(status);
      expect((await errorOf(response)).code).toBe(code);
    },
  );

  test('UNAUTHORIZED with 401: a request over TCP without a token', async () => {
    const response = await service.request('GET', '/v1/runs', undefined, { bindings: TCP });
    expect(response.status).toBe(401);
    expect((await errorOf(response)).code).toBe('UNAUTHORIZED');
  });

  test('TOO_MANY_REQUESTS with 429, and the time after which a client may try again', async () => {
    const limited = openVoidBoxService({ limits: { requestsPerSecond: 1 }, access: createMemoryAccess() });
    await limited.request('GET', '/v1/runs', undefined, { bindings: TCP });
    const response = await limited.request('GET', '/v1/runs', undefined, { bindings: TCP });
    limited.close();
    expect([response.status, response.headers.get('retry-after')]).toEqual([429, '1']);
    expect((await errorOf(response)).code).toBe('TOO_MANY_REQUESTS');
  });

  test.each<readonly [string, number, Error]>([
    ['ARTIFACT_STORE_UNAVAILABLE', 503, new CodedError('store/io', 'the disk is gone')],
    ['RESOURCE_LIMIT_EXCEEDED', 503, new CodedError('host/disk-full', 'no room')],
    ['RESOURCE_LIMIT_EXCEEDED', 507, new CodedError('api/messages-full', 'no room')],
    ['INTERNAL_ERROR', 500, new TypeError('secret of the process')],
  ])('%s with %i', async (code, status, error) => {
    const failing = openVoidBoxService({
      stores: (stores) => ({ ...stores, index: { ...stores.index, has: () => Promise.reject(error) } }),
    });
    const response = await failing.request('GET', '/v1/runs/good');
    failing.close();
    expect(response.status).toBe(status);
    const body = await errorOf(response);
    expect(body.code).toBe(code);
    expect(body.message).not.toContain('secret');
  });

  test('RETRIEVAL_TIMEOUT with 408: a request that arrives too slowly', async () => {
    const problem = createProblem('api/too-slow', 'too slow');
    const response = toVoidBoxResponse(null, problem, { method: 'POST', path: '/v1/runs', headers: {} });
    expect([response.status, (await errorOf(response)).code]).toEqual([408, 'RETRIEVAL_TIMEOUT']);
  });

  test('STRUCTURED_OUTPUT_MALFORMED is not the code of an answer: malformed bytes are read', async () => {
    const response = await service.request('GET', '/v1/runs/malformed/stages/review/output-file');
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/plain']);
    expect(await response.text()).toBe('no json');
  });
});
