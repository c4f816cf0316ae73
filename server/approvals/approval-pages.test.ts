/** The page of a link to a question: what opens it, what answers, and what strangers get. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { Question } from '../../domain/run/event.ts';
import { readEnvironment } from '../../setup/environment.ts';
import type { AccessStore } from '../../store/access.ts';
import { openUploads } from '../../store/open-uploads.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { type AnsweringRun, openAnsweringRun } from '../../test/rig/runs/answering-run.ts';
import { CLAIM_MS } from '../../app/approval-links/answer-link.ts';
import { LINK_MS } from '../../app/approval-links/approval-links.ts';
import { hashLink, nameLink } from '../../app/approval-links/link-text.ts';
import { type Api, createApi } from '../api.ts';
import { API_LIMITS } from '../limits.ts';
import { ProblemSchema } from '../schemas.ts';
import { FORM_BYTES } from './answer-form.ts';

const BASE = 'https://api.example';

let access: AccessStore;
let run: AnsweringRun;
let api: Api;
let nowMs: number;
let logged: string[];
let base: string | null;

async function ask(change: Partial<Question> = {}): Promise<void> {
  const stateDir = mkdtempSync(join(tmpdir(), 'voidbox-approval-links-'));
  onTestFinished(() => rmSync(stateDir, { recursive: true }));
  [access, nowMs, logged, base] = [createMemoryAccess(), 1_800_000_000_000, [], BASE];
  run = await openAnsweringRun(change, {
    env: readEnvironment({ VOIDBOX_STATE_DIR: stateDir, VOIDBOX_CACHE_DIR: join(stateDir, 'cache') }),
    now: () => new Date(nowMs),
  });
  api = createApi({
    machine: run.machine,
    uploads: openUploads({ stateDir }),
    access: () => Promise.resolve(access),
    readClientUrl: () => Promise.resolve(base),
    version: '1.2.3',
    limits: API_LIMITS,
    log: (line) => logged.push(line),
  });
}

beforeEach(() => ask());

/** The owner on the Unix socket. */
const OWNER = { connection: { listener: 'unix', address: null, end: () => undefined } } as const;
const STRANGER = { connection: { listener: 'tcp', address: '192.0.2.7', end: () => undefined } } as const;

async function create(body: object): Promise<Response> {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  return await api.request('/api/v1/runs/r/approval-links', init, OWNER);
}

/** Returns the path of a link. */
async function link(as = 'anna'): Promise<string> {
  const answer = await create({ as });
  expect(answer.status).toBe(200);
  return ((await answer.json()) as { readonly url: string }).url.slice(BASE.length);
}

async function open(path: string, method = 'GET'): Promise<Response> {
  return await api.request(path, { method }, STRANGER);
}

async function post(path: string, form: Readonly<Record<string, string>> | string, type = FORM): Promise<Response> {
  const body = typeof form === 'string' ? form : new URLSearchParams(form).toString();
  return await api.request(path, { method: 'POST', headers: { 'content-type': type }, body }, STRANGER);
}

const FORM = 'application/x-www-form-urlencoded';
const APPROVE = { decision: 'approve', comment: '' };

async function codeOf(response: Response): Promise<readonly [number, string]> {
  const problem = ProblemSchema.parse(await response.json());
  return [response.status, problem.code];
}

describe('a link is made', () => {
  test('for a name that the approval asks, until 7 days from now if there is no deadline', async () => {
    const answer = await create({ stage: 'ship', as: 'anna' });
    const made = (await answer.json()) as { readonly url: string };
    expect(made).toEqual({
      url: expect.stringMatching(/^https:\/\/api\.example\/approvals\/[\w-]+\.[\w-]{43}$/),
      link: nameLink(made.url.slice(`${BASE}/approvals/`.length)),
      runId: 'r',
      stage: 'ship',
      as: 'anna',
      expiresAt: new Date(nowMs + LINK_MS).toISOString(),
    });
  });

  test.each<[string, Partial<Question>, object, string]>([
    ['a name that the approval does not ask', {}, { as: 'eve' }, 'it asks anna, bob'],
    ['an approval without names', { by: [] }, { as: 'anna' }, 'its approval names no one in `by`'],
    ['an empty name', { by: [''] }, { as: '' }, 'a name has 1 to 256 characters in one line'],
    ['a name of two lines', { by: ['a\nb'] }, { as: 'a\nb' }, 'a name has 1 to 256 characters in one line'],
    ['a deadline that has passed', { deadlineAtMs: 5 }, { as: 'anna' }, 'its deadline has passed'],
  ])('but not for %s', async (_what, change, body, problem) => {
    await ask(change);
    const answer = await create(body);
    const { code, detail } = ProblemSchema.parse(await answer.json());
    expect([answer.status, code, detail]).toEqual([400, 'api/invalid-request', expect.stringContaining(problem)]);
  });

  test('but not for a stage that does not ask, and not without an address', async () => {
    expect(await codeOf(await create({ stage: 'later', as: 'anna' }))).toEqual([409, 'cli/answer-refused']);
    base = null;
    expect(await codeOf(await create({ as: 'anna' }))).toEqual([503, 'api/no-address']);
  });
});

describe('the page of a link', () => {
  test('shows the question, without a script, and to no other page or cache', async () => {
    const page = await open(await link());
    expect([page.status, Object.fromEntries(page.headers)]).toEqual([
      200,
      expect.objectContaining({
        'content-type': 'text/html; charset=utf-8',
        'cache-control': 'no-store',
        'referrer-policy': 'no-referrer',
        'x-content-type-options': 'nosniff',
        'content-security-policy': expect.stringMatching(
          /^default-src 'none'; style-src 'sha256-[^']+'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'$/,
        ),
      }),
    ]);
    const html = await page.text();
    expect(html).toContain('<pre>Ship it?</pre>');
    expect(html).toContain('You answer as anna.');
    expect(html).not.toMatch(/<script|javascript:|\son\w+=|https?:\/\//i);
  });

  test('shows hostile texts as text', async () => {
    const hostile = `</pre><script>alert(1)</script><img src=x onerror=alert(1)>&lt;"'\u202e\u001b[2J`;
    await ask({
      message: hostile,
      item: hostile,
      by: ['<b>anna</b>'],
      fields: [
        { name: 'size', type: 'choice', required: true, description: hostile, choices: ['"><script>1</script>'] },
      ],
    });
    const html = await (await open(await link('<b>anna</b>'))).text();
    for (const text of ['<script', '<img', '<b>', '\u202e', '\u001b']) expect(html).not.toContain(text);
    expect(html).toContain('&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;');
    expect(html).toContain('You answer as &lt;b&gt;anna&lt;/b&gt;.');
    const refused = await post(await link('<b>anna</b>'), { decision: 'approve', 'field.size': '<script>' });
    expect([refused.status, await refused.text()]).toEqual([422, expect.not.stringContaining('<script')]);
  });

  test('is opened as often as a chat program wants, and opening it approves nothing', async () => {
    const path = await link();
    for (const method of ['GET', 'HEAD', 'GET']) {
      const page = await open(`${path}?decision=approve`, method);
      expect([method, page.status, (await page.text()) === '']).toEqual([method, 200, method === 'HEAD']);
    }
    expect(run.sent).toEqual([]);
    expect((await post(path, APPROVE)).status).toBe(200);
  });

  test('takes no other method', async () => {
    for (const method of ['PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      const answer = await open(await link(), method);
      expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET, HEAD, POST']);
    }
    expect(run.sent).toEqual([]);
  });
});

describe('an answer', () => {
  test('reaches the run once, under the name of the link', async () => {
    const path = await link();
    const first = await post(path, { decision: 'approve', comment: ' all\r\nright ' });
    expect([first.status, await first.text()]).toEqual([
      200,
      expect.stringContaining('Approved ship of run r as anna.'),
    ]);
    expect(run.sent).toEqual([{ stage: 'ship', decision: 'approve', by: 'anna', comment: 'all\nright' }]);
    expect((await post(path, APPROVE)).status).toBe(404);
    expect((await open(path)).status).toBe(404);
    expect(run.sent).toHaveLength(1);
  });

  test('may reject, without the fields that an approval needs', async () => {
    await ask({ fields: [{ name: 'when', type: 'text', required: true, description: '', choices: [] }] });
    const answer = await post(await link(), { decision: 'reject', comment: 'no', 'field.when': '' });
    expect([answer.status, run.sent]).toEqual([
      200,
      [{ stage: 'ship', decision: 'reject', by: 'anna', comment: 'no' }],
    ]);
  });

  test('that the run refuses leaves the link for another one', async () => {
    await ask({ fields: [{ name: 'size', type: 'number', required: true, description: '', choices: [] }] });
    const path = await link();
    const refused = await post(path, { decision: 'approve', 'field.size': 'big', 'field.other': 'x' });
    expect([refused.status, await refused.text()]).toEqual([
      422,
      expect.stringContaining('the field size must be a number, got &quot;big&quot;'),
    ]);
    expect((await post(path, { decision: 'approve', 'field.size': '3' })).status).toBe(200);
    expect(run.sent.at(-1)).toMatchObject({ fields: { size: '3' } });
  });

  test('reaches the run once if six are sent at once', async () => {
    const path = await link();
    const answers = await Promise.all(Array.from({ length: 6 }, () => post(path, APPROVE)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 404, 404, 404, 404, 404]);
    expect(run.sent).toHaveLength(1);
  });

  test('whose service died in the middle may be sent again after the lease', async () => {
    const path = await link();
    const hash = hashLink(path.slice('/approvals/'.length));
    const used = { hash, expiresAtMs: nowMs + LINK_MS };
    await access.triggers.approvalLinks.claim(used, { token: 'died', nowMs, leaseMs: CLAIM_MS });
    nowMs += CLAIM_MS - 1;
    expect((await post(path, APPROVE)).status).toBe(404);
    nowMs += 1;
    expect((await post(path, APPROVE)).status).toBe(200);
  });

  test('that did not arrive leaves the link', async () => {
    const path = await link();
    run.failNext(new Error('the connection is lost'));
    expect((await post(path, APPROVE)).status).toBe(500);
    expect((await post(path, APPROVE)).status).toBe(200);
  });

  test.each([
    ['has no decision', { comment: 'x' }, FORM, 400],
    ['has another decision', { decision: 'maybe' }, FORM, 400],
    ['has two decisions', 'decision=reject&decision=approve', FORM, 400],
    ['is JSON', '{"decision":"approve"}', 'application/json', 415],
    ['has several parts', 'x', 'multipart/form-data; boundary=x', 415],
    ['has a comment beyond the limit', { decision: 'approve', comment: 'x'.repeat(2_049) }, FORM, 400],
    ['is larger than a form', { decision: 'approve', x: 'x'.repeat(FORM_BYTES) }, FORM, 413],
  ])('is refused if it %s', async (_what, form, type, status) => {
    expect((await post(await link(), form, type)).status).toBe(status);
    expect(run.sent).toEqual([]);
  });

  test('has a comment of the most characters, and a form of the most bytes', async () => {
    const form = new URLSearchParams({ decision: 'approve', comment: 'x'.repeat(2_048), pad: '' }).toString();
    expect((await post(await link(), form.padEnd(FORM_BYTES, 'x'))).status).toBe(200);
  });
});

describe('every link that opens nothing has the same answer', () => {
  async function readEqual(path: string): Promise<string> {
    const [shown, sent] = [await open(path), await post(path, APPROVE)];
    expect([shown.status, sent.status]).toEqual([404, 404]);
    const html = await shown.text();
    expect(await sent.text()).toBe(html);
    expect(run.sent).toEqual([]);
    return html;
  }

  test('whether it is unknown, changed, expired or for another question', async () => {
    const path = await link();
    const unknown = await readEqual('/approvals/x');
    expect(await readEqual(`${path.slice(0, -1)}${path.endsWith('A') ? 'B' : 'A'}`)).toBe(unknown);
    nowMs += LINK_MS;
    expect(await readEqual(path)).toBe(unknown);
    nowMs -= 1;
    expect((await open(path)).status).toBe(200);
    // The stage asks again, in another attempt.
    await run.stores.events.append('r', [
      {
        id: 'asking-2',
        atMs: 4,
        body: {
          type: 'stage-asking',
          stage: 'ship',
          execKey: 'ship/0/2',
          attempt: 2,
          question: { message: 'Really?', by: ['anna'], fields: [], deadlineAtMs: null, onTimeout: 'fail' },
        },
      },
    ]);
    expect(await readEqual(path)).toBe(unknown);
  });

  test('also after the deadline of its question', async () => {
    await ask({ deadlineAtMs: 1_800_000_000_500 });
    const path = await link();
    nowMs = 1_800_000_000_499;
    expect((await open(path)).status).toBe(200);
    nowMs = 1_800_000_000_500;
    await readEqual(path);
  });

  test('and needs no database and no file of keys', async () => {
    const failing = { ...access, triggers: undefined } as unknown as AccessStore;
    access = failing;
    expect((await open('/approvals/x')).status).toBe(404);
  });
});

test('an address that sends many requests waits, whether or not they have a right link', async () => {
  const path = await link();
  const statuses: number[] = [];
  for (let at = 0; at <= API_LIMITS.unprovenPerSecond; at += 1)
    statuses.push((await open(at % 2 === 0 ? path : '/approvals/x')).status);
  expect(statuses.filter((status) => status === 429)).toHaveLength(1);
  expect(statuses.at(-1)).toBe(429);
  nowMs += 1_000;
  expect((await open(path)).status).toBe(200);
});

test('logs and the audit log have a name of the link, and not the link', async () => {
  const path = await link();
  await post(path, { decision: 'maybe' });
  await post(path, APPROVE);
  await post(path, APPROVE);
  const rows = await access.audit.list({ limit: 9 });
  const shared = { token: nameLink(path.slice('/approvals/'.length)), route: '/approvals/:link', runId: 'r' };
  expect(rows).toMatchObject([
    { ...shared, method: 'POST', status: 200, code: null, address: '192.0.2.7' },
    { ...shared, method: 'POST', status: 400, code: 'api/invalid-request' },
  ]);
  expect(logged).toEqual([`${shared.token}: approve ship of run r as anna`]);
  expect(JSON.stringify([rows, logged])).not.toContain(path.slice('/approvals/'.length, 40));
});
