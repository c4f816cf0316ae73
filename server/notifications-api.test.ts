/** The routes of notifications, over notifications in memory. */
import { expect, test } from 'vitest';
import { createToken } from '../app/access/tokens.ts';
import { openUploads } from '../store/open-uploads.ts';
import { makeNotification, MESSAGE } from '../test/conformance/notifications.ts';
import { createMemoryAccess } from '../test/rig/access/memory-access.ts';
import { OWNER } from '../test/rig/access/owner.ts';
import { MemoryPlace, openMemoryStores } from '../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { createApi } from './api.ts';
import { API_LIMITS } from './limits.ts';
import { NotificationListSchema, ShownNotificationSchema } from './routes/notifications/schemas.ts';

const ids = ['a', 'b', 'c'].map((digit) => `ntf-${digit.repeat(32)}`);
const [FIRST, SECOND, THIRD] = ids as [string, string, string];

async function openRig() {
  const access = createMemoryAccess();
  const { notifications } = access.triggers;
  let wakes = 0;
  const api = createApi({
    machine: createTestMachine(openMemoryStores(new MemoryPlace())),
    uploads: openUploads({ stateDir: '/nowhere/state' }),
    access: () => Promise.resolve(access),
    wakeNotifications: () => void (wakes += 1),
    version: '1.2.3',
    limits: API_LIMITS,
    log: () => undefined,
  });
  const send = async (method: string, path: string, body?: object, token?: string): Promise<Response> =>
    await api.request(
      `/api/v1/notifications${path}`,
      {
        method,
        headers: {
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      },
      token === undefined ? OWNER : { connection: { listener: 'tcp', address: '192.0.2.7', end: () => undefined } },
    );
  const makeToken = async (runs: readonly string[], scope: 'read' | 'run'): Promise<string> => {
    const request = {
      name: `token-${scope}`,
      scopes: [scope],
      runs,
      groups: [],
      allowGit: [],
      lifeMs: 60_000,
    };
    return (await createToken(request, { tokens: access.tokens, nowMs: Date.now() })).text;
  };
  const other = { ...MESSAGE, deployment: 'other', runId: 'other-01b', kind: 'asking' } as const;
  await notifications.add([
    makeNotification(FIRST),
    makeNotification(SECOND, { message: other }),
    makeNotification(THIRD),
  ]);
  await notifications.claim({ token: 't', nowMs: Date.now(), leaseMs: 1, limit: 9 });
  const failed = { kind: 'failed', code: 'notify/bad-answer', problem: 'no', nextAtMs: null } as const;
  await notifications.record({ id: FIRST, token: 't' }, failed, 1);
  return { send, makeToken, notifications, countWakes: () => wakes };
}

const listIds = async (answer: Response): Promise<readonly string[]> =>
  NotificationListSchema.parse(await answer.json()).notifications.map(({ id }) => id);

test('notifications are listed with filters and pages', async () => {
  const { send } = await openRig();
  expect(await listIds(await send('GET', ''))).toEqual([THIRD, SECOND, FIRST]);
  expect(await listIds(await send('GET', '?state=dead'))).toEqual([FIRST]);
  expect(await listIds(await send('GET', '?kind=asking'))).toEqual([SECOND]);
  expect(await listIds(await send('GET', '?deployment=review'))).toEqual([THIRD, FIRST]);
  const page = NotificationListSchema.parse(await (await send('GET', '?limit=2')).json());
  expect(page.next).not.toBeNull();
  expect(await listIds(await send('GET', `?limit=2&before=${page.next}`))).toEqual([FIRST]);
  for (const query of ['?limit=201', '?state=other', '?kind=other', '?before=x', '?other=1'])
    expect((await send('GET', query)).status, query).toBe(400);
});

test('a notification is shown with its message and its failure', async () => {
  const { send } = await openRig();
  const shown = ShownNotificationSchema.parse(await (await send('GET', `/${FIRST}`)).json());
  expect(shown).toMatchObject({ state: 'dead', code: 'notify/bad-answer', problem: 'no', message: MESSAGE });
  const absent = await send('GET', `/ntf-${'d'.repeat(32)}`);
  expect([absent.status, await absent.json()]).toEqual([404, expect.objectContaining({ code: 'api/no-notification' })]);
  expect((await send('GET', '/other')).status).toBe(400);
});

test('a token sees and replays only notifications of its runs', async () => {
  const { send, makeToken, notifications } = await openRig();
  const token = await makeToken(['other-*'], 'run');
  expect(await listIds(await send('GET', '', undefined, token))).toEqual([SECOND]);
  expect((await send('GET', `/${FIRST}`, undefined, token)).status).toBe(404);
  const replay = await send('POST', '/replay', { notifications: [FIRST] }, token);
  expect(await replay.json()).toEqual({ replays: [{ notification: FIRST, problem: 'it does not exist' }] });
  const dead = await send('POST', '/replay', { deadOf: 'review' }, token);
  expect(await dead.json()).toEqual({ replays: [] });
  expect((await notifications.find(FIRST))?.state).toBe('dead');
  const reader = await makeToken(['other-*'], 'read');
  expect((await send('POST', '/replay', { deadOf: 'review' }, reader)).status).toBe(403);
});

test('dead notifications are replayed by id or for a deployment', async () => {
  const { send, notifications, countWakes } = await openRig();
  const answer = await send('POST', '/replay', { notifications: [FIRST, SECOND, FIRST] });
  expect(await answer.json()).toEqual({
    replays: [
      { notification: FIRST, problem: null },
      { notification: SECOND, problem: 'it waits for its next try' },
    ],
  });
  expect(await notifications.find(FIRST)).toMatchObject({ state: 'waiting', tries: 0 });
  expect(await (await send('POST', '/replay', { deadOf: 'review' })).json()).toEqual({ replays: [] });
  expect(countWakes()).toBe(2);
  for (const body of [{}, { notifications: [] }, { notifications: [FIRST], deadOf: 'review' }, { deadOf: 'a', b: 1 }])
    expect((await send('POST', '/replay', body)).status, JSON.stringify(body)).toBe(400);
});
