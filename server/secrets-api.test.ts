/** The routes of secrets, on the whole API. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { createToken } from '../app/access/tokens.ts';
import { readSecrets } from '../app/secrets/read-secrets.ts';
import type { AccessUse } from '../app/access/access-opener.ts';
import { readEnvironment } from '../setup/environment.ts';
import type { AccessStore } from '../store/access.ts';
import { openUploads } from '../store/open-uploads.ts';
import { createMemoryAccess } from '../test/rig/access/memory-access.ts';
import { OWNER } from '../test/rig/access/owner.ts';
import { MemoryPlace, openMemoryStores } from '../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { type Api, createApi } from './api.ts';
import { API_LIMITS } from './limits.ts';
import type { Bindings } from './listener.ts';

const CANARY = 'canary-of-a-secret';
const TCP: Bindings = { connection: { listener: 'tcp', address: '192.0.2.7', end: () => undefined } };

let access: AccessStore;
let api: Api;
let dir: string;
let uses: AccessUse[];
let logged: string[];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-secrets-api-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  access = createMemoryAccess();
  uses = [];
  logged = [];
  api = createApi({
    machine: createTestMachine(openMemoryStores(new MemoryPlace()), {
      env: readEnvironment({ VOIDBOX_STATE_DIR: dir, VOIDBOX_CACHE_DIR: join(dir, 'cache') }),
    }),
    uploads: openUploads({ stateDir: dir }),
    access: (use) => Promise.resolve((uses.push(use), access)),
    version: '1.2.3',
    limits: { ...API_LIMITS, requestsPerSecond: 100_000 },
    log: (line) => logged.push(line),
  });
});

interface Sent {
  readonly body?: unknown;
  readonly token?: string;
  /** The text of the body, if it is no JSON. */
  readonly text?: string;
}

async function send(method: string, path: string, { body, token, text }: Sent = {}) {
  const sent = text ?? (body === undefined ? undefined : JSON.stringify(body));
  const response = await api.request(
    `/api/v1/secrets${path}`,
    {
      method,
      headers: {
        ...(sent === undefined ? {} : { 'content-type': 'application/json' }),
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      ...(sent === undefined ? {} : { body: sent }),
    },
    token === undefined ? OWNER : TCP,
  );
  const answer = await response.text();
  expect(answer).not.toContain('canary');
  return { status: response.status, answer: JSON.parse(answer) as Record<string, unknown> };
}

async function createAdmin(runs: readonly string[] = []): Promise<string> {
  const request = { name: 'root', scopes: ['admin'] as const, runs, groups: [], allowGit: [], lifeMs: 60_000 };
  return (await createToken(request, { tokens: access.tokens, nowMs: Date.now() })).text;
}

const readValue = async (deployment: string, name: string) => {
  const keyFile = { path: join(dir, 'secrets.key'), isOwn: true };
  const place = { secrets: access.triggers.secrets, keyFile, nowMs: Date.now() };
  return (await readSecrets(deployment, [name], place)).values[name];
};

describe('an owner', () => {
  test('sets, rotates, lists and removes a secret, and no answer has its value', async () => {
    const set = await send('PUT', '/KEY', { body: { value: CANARY, deployments: ['web', 'api'] } });
    expect(set).toMatchObject({ status: 200, answer: { secrets: [{ deployment: 'web' }, { deployment: 'api' }] } });
    expect(await readValue('web', 'KEY')).toBe(CANARY);
    const rotation = { value: `new ${CANARY}`, deployments: ['web'], keepMs: 5_000 };
    const rotated = await send('POST', '/KEY/rotate', { body: rotation });
    expect(rotated).toMatchObject({ status: 200, answer: { secrets: [{ previousUntilMs: expect.any(Number) }] } });
    expect(await readValue('web', 'KEY')).toBe(`new ${CANARY}`);
    expect((await send('GET', '')).answer).toMatchObject({ secrets: [{ name: 'KEY' }, { name: 'KEY' }] });
    expect((await send('POST', '/rekey')).answer).toEqual({ keyId: expect.any(String), changed: 0 });
    const removed = await send('DELETE', '/KEY?deployments=web,api');
    expect(removed).toMatchObject({ status: 200, answer: { secrets: [{ deployment: 'web' }, { deployment: 'api' }] } });
    expect((await send('GET', '')).answer).toEqual({ secrets: [] });
    expect(logged).toEqual([]);
  });

  test('makes the database by the first secret, and by no other request', async () => {
    await send('GET', '');
    await send('POST', '/KEY/rotate', { body: { value: CANARY } });
    await send('DELETE', '/KEY');
    await send('POST', '/rekey');
    expect(uses).toEqual(['find', 'find', 'find', 'find']);
    await send('PUT', '/KEY', { body: { value: CANARY } });
    expect(uses.at(-1)).toBe('make');
  });

  test.each([
    ['PUT', '/KEY', { body: { value: '' } }, 400, 'api/invalid-request'],
    ['PUT', '/KEY', { body: {} }, 400, 'api/invalid-request'],
    ['PUT', '/KEY', { body: { value: 5 } }, 400, 'api/invalid-request'],
    ['PUT', '/KEY', { body: { value: [CANARY] } }, 400, 'api/invalid-request'],
    ['PUT', '/KEY', { body: { value: CANARY, deployment: 'web' } }, 400, 'api/invalid-request'],
    ['PUT', '/KEY', { body: { value: `${CANARY}\0` } }, 400, 'api/invalid-request'],
    ['PUT', '/KEY', { body: { value: `${CANARY}\uD800` } }, 400, 'api/invalid-request'],
    ['PUT', '/KEY', { body: { value: CANARY.repeat(4_000) } }, 400, 'api/invalid-request'],
    ['PUT', '/K-Y', { body: { value: CANARY } }, 400, 'api/invalid-request'],
    ['PUT', '/KEY', { text: `{"value":"x" ${CANARY}}` }, 400, 'api/invalid-request'],
    ['PUT', '/KEY', { text: CANARY }, 400, 'api/invalid-request'],
    ['PUT', '/KEY', { text: `{"value":"${CANARY}` }, 400, 'api/invalid-request'],
    ['POST', '/KEY/rotate', { body: { value: CANARY } }, 404, 'api/no-secret'],
    ['POST', '/KEY/rotate', { body: { value: CANARY, keepMs: 604_800_001 } }, 400, 'api/invalid-request'],
    ['DELETE', '/KEY', {}, 404, 'api/no-secret'],
    ['DELETE', '/KEY?deployments=', {}, 400, 'api/invalid-request'],
    ['DELETE', '/KEY?deployment=web', {}, 400, 'api/invalid-request'],
  ] as const)('is refused %s %s with %j, and the answer does not repeat the value', async (...row) => {
    const [method, path, sent, status, code] = row;
    expect(await send(method, path, sent)).toMatchObject({ status, answer: { code } });
    expect((await access.triggers.secrets.list()).length).toBe(0);
    expect(logged.join('')).not.toContain('canary');
  });

  test('reads the reason if the key file is missing', async () => {
    await send('PUT', '/KEY', { body: { value: CANARY } });
    rmSync(join(dir, 'secrets.key'));
    expect(await send('PUT', '/OTHER', { body: { value: CANARY } })).toMatchObject({
      status: 503,
      answer: { code: 'api/secrets-key', detail: expect.stringContaining(join(dir, 'secrets.key')) as string },
    });
    expect((await send('DELETE', '/KEY')).status).toBe(200);
  });
});

describe('a token with the scope `admin`', () => {
  test('and patterns of runs sees and changes only secrets of deployments that it may see', async () => {
    const token = await createAdmin(['web-*']);
    for (const deployments of [[], ['api'], ['web']])
      await send('PUT', '/KEY', { body: { value: CANARY, deployments } });
    const body = { value: CANARY };
    for (const [method, path, sent] of [
      ['PUT', '/KEY', body],
      ['PUT', '/KEY', { ...body, deployments: ['web', 'api'] }],
      ['POST', '/KEY/rotate', { ...body, deployments: ['api'] }],
      ['DELETE', '/KEY?deployments=api', undefined],
      ['DELETE', '/KEY', undefined],
    ] as const)
      expect(await send(method, path, { token, body: sent })).toMatchObject({
        status: 403,
        answer: { code: 'api/not-allowed' },
      });
    expect((await send('GET', '', { token })).answer).toMatchObject({
      secrets: [
        { name: 'KEY', deployment: null },
        { name: 'KEY', deployment: 'web' },
      ],
    });
    expect((await send('DELETE', '/KEY?deployments=web', { token })).status).toBe(200);
  });

  test('changes secrets, and the audit log has each change without a name and a value', async () => {
    const token = await createAdmin();
    await send('PUT', '/SECRET_OF_WEB', { token, body: { value: CANARY, deployments: ['web'] } });
    await send('POST', '/SECRET_OF_WEB/rotate', { token, body: { value: CANARY } });
    await send('GET', '', { token });
    expect(await readValue('web', 'SECRET_OF_WEB')).toBe(CANARY);
    const rows = await access.audit.list({ limit: 9 });
    expect(rows.map(({ method, route, status, code }) => [method, route, status, code])).toEqual([
      ['POST', '/api/v1/secrets/:name/rotate', 404, 'api/no-secret'],
      ['PUT', '/api/v1/secrets/:name', 200, null],
    ]);
    expect(JSON.stringify(rows)).not.toMatch(/canary|SECRET_OF_WEB/);
    expect(uses, 'it makes no database').not.toContain('make');
  });

  test('does not read in an error where the state folder is', async () => {
    const token = await createAdmin();
    await send('PUT', '/KEY', { token, body: { value: CANARY } });
    rmSync(join(dir, 'secrets.key'));
    const { answer } = await send('PUT', '/KEY', { token, body: { value: CANARY } });
    expect(JSON.stringify(answer)).toContain('<state folder>/secrets.key');
    expect(JSON.stringify(answer)).not.toContain(dir);
  });
});
