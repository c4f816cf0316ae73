/** The sender over an outbox in memory: each notification gets its outcome, whatever fails on the way. */
import { Webhook } from 'standardwebhooks';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { NO_NOTIFY, type Receiver } from '../../domain/notification/notify.ts';
import { MOST_NOTIFY_TRIES } from '../../domain/notification/retry.ts';
import type { GuardedPost, PostResult } from '../../http/guarded-post.ts';
import type { TriggerStore } from '../../store/triggers.ts';
import { makeVersion } from '../../test/conformance/deployments.ts';
import { makeNotification, MESSAGE, NOTIFY } from '../../test/conformance/notifications.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { type CreateApprovalLink, type LinkRequest, type Sender, SENDER_LIMITS, startSender } from './send-due.ts';

const LIMITS = { ...SENDER_LIMITS, idleMs: 5, failureMs: 5 };
const SECRET = Buffer.from('a secret of the receiver').toString('base64');

let triggers: TriggerStore;
let posts: GuardedPost[];
let result: () => Promise<PostResult>;
let secrets: Readonly<Record<string, string>> | null;
let createApprovalLink: CreateApprovalLink;
let nowMs: number;
let lines: string[];
let idles: number;
let sender: Sender | null;

beforeEach(async () => {
  triggers = createMemoryAccess().triggers;
  posts = [];
  result = () => Promise.resolve({ kind: 'answered', status: 204 });
  secrets = { NOTIFY: SECRET };
  createApprovalLink = () => Promise.resolve(null);
  nowMs = Date.now();
  lines = [];
  idles = 0;
  sender = null;
  await deployReceiver({});
});
afterEach(async () => await sender?.close());

async function deployReceiver(changes: Partial<Receiver>, spec = JSON.stringify(changes)): Promise<void> {
  const notify = { ...NOTIFY, receivers: [{ ...NOTIFY.receivers[0]!, ...changes }] };
  await triggers.deployments.deploy(makeVersion('review', { notify, spec }), { isPaused: false });
}

const add = async (id: string, changes: Parameters<typeof makeNotification>[1] = {}): Promise<void> =>
  await triggers.notifications.add([makeNotification(id, { createdAtMs: nowMs, ...changes })]);

function begin(store: TriggerStore = triggers): Sender {
  return startSender({
    openTriggers: () => Promise.resolve(store),
    readSecretValues: () => (secrets === null ? Promise.reject(new Error('no key')) : Promise.resolve(secrets)),
    createApprovalLink: (...asked) => createApprovalLink(...asked),
    async post(post) {
      posts.push(post);
      return await result();
    },
    nowMs: () => nowMs,
    log: (line) => lines.push(line),
    onIdle: () => Promise.resolve(void (idles += 1)),
    limits: LIMITS,
  });
}

const find = async (id: string) => await triggers.notifications.find(id);
const awaitState = async (id: string, state: string): Promise<void> =>
  await expect.poll(async () => (await find(id))?.state).toBe(state);
const awaitTries = async (id: string, tries: number): Promise<void> =>
  await expect.poll(async () => (await find(id))?.tries).toBe(tries);

test('a notification is sent with its id and a signature', async () => {
  await add('n1');
  sender = begin();
  await awaitState('n1', 'sent');
  const [{ url, body, headers }] = posts as [GuardedPost];
  expect(url).toBe('https://ops.example/hooks');
  expect(new Webhook(SECRET).verify(body, { ...headers })).toMatchObject({ data: { run: 'review-01a' } });
  expect(headers['webhook-id']).toBe('n1');
  await expect.poll(() => idles).toBeGreaterThan(0);
});

test('a failed notification is tried eight times in 24 hours, and is dead then', async () => {
  const firstAtMs = nowMs;
  await add('n1');
  result = () => Promise.resolve({ kind: 'answered', status: 500 });
  sender = begin();
  for (let tries = 1; tries < MOST_NOTIFY_TRIES; tries += 1) {
    await awaitTries('n1', tries);
    nowMs = (await find('n1'))!.dueAtMs!;
    sender.wake();
  }
  await awaitState('n1', 'dead');
  expect(nowMs - firstAtMs).toBe(24 * 60 * 60_000);
  expect(await find('n1')).toMatchObject({
    tries: 8,
    code: 'notify/bad-answer',
    problem: 'the receiver answers with status 500',
  });
  expect(new Set(posts.map(({ headers, body }) => [headers['webhook-id'], body].join()))).toHaveProperty('size', 1);
  expect(posts).toHaveLength(8);
});

test('a receiver that is gone gets no further message, and a replay sends again', async () => {
  await add('n1');
  result = () => Promise.resolve({ kind: 'answered', status: 410 });
  sender = begin();
  await awaitState('n1', 'dead');
  expect(posts).toHaveLength(1);
  result = () => Promise.resolve({ kind: 'answered', status: 200 });
  expect(await triggers.notifications.replay('n1', nowMs)).toBe(true);
  sender.wake();
  await awaitState('n1', 'sent');
});

test('a sender that dies between the message and its record leaves a message that is sent again with its id', async () => {
  await add('n1');
  const { notifications } = triggers;
  // As if the process ended: its record never arrives.
  const dying = { ...triggers, notifications: { ...notifications, record: () => Promise.reject(new Error('ended')) } };
  const first = begin(dying);
  await expect.poll(() => posts.length).toBe(1);
  await first.close();
  expect(await find('n1')).toMatchObject({ state: 'waiting', tries: 0 });
  sender = begin();
  nowMs += LIMITS.leaseMs - 1;
  sender.wake();
  expect(await notifications.claim({ token: 'x', nowMs, leaseMs: LIMITS.leaseMs, limit: 1 })).toEqual([]);
  nowMs += 1;
  sender.wake();
  await awaitState('n1', 'sent');
  expect(posts.map(({ headers }) => headers['webhook-id'])).toEqual(['n1', 'n1']);
  expect(posts[0]!.body).toBe(posts[1]!.body);
});

test('two senders send a notification once', async () => {
  for (const id of ['n1', 'n2', 'n3']) await add(id);
  const other = begin();
  sender = begin();
  for (const id of ['n1', 'n2', 'n3']) await awaitState(id, 'sent');
  await other.close();
  expect(posts.map(({ headers }) => headers['webhook-id']).toSorted()).toEqual(['n1', 'n2', 'n3']);
});

test('the enabled version decides where a message goes', async () => {
  await add('n1');
  await deployReceiver({ target: { kind: 'webhook', url: 'https://new.example/', secret: 'NOTIFY' } });
  sender = begin();
  await awaitState('n1', 'sent');
  expect(posts.map(({ url }) => url)).toEqual(['https://new.example/']);
  await triggers.deployments.deploy(makeVersion('review', { notify: NO_NOTIFY, spec: 'none' }), { isPaused: false });
  await add('n2');
  sender.wake();
  await awaitState('n2', 'dead');
  expect(await find('n2')).toMatchObject({ code: 'notify/no-receiver', tries: 1 });
  expect(posts).toHaveLength(1);
});

test('a deployment that was deleted sends nothing', async () => {
  await triggers.deployments.delete('review', nowMs);
  await add('n1');
  sender = begin();
  await awaitState('n1', 'dead');
  expect(posts).toEqual([]);
});

test('a secret that is missing or cannot be read is a failed try, and nothing is sent', async () => {
  secrets = {};
  await add('n1');
  sender = begin();
  await awaitTries('n1', 1);
  expect(await find('n1')).toMatchObject({ state: 'waiting', code: 'notify/bad-secret' });
  secrets = null;
  await add('n2');
  sender.wake();
  await awaitTries('n2', 1);
  expect(await find('n2')).toMatchObject({ code: 'notify/bad-secret', problem: 'no key' });
  expect(posts).toEqual([]);
  expect(lines.join()).not.toContain(SECRET);
});

test('a closed address is a failed try with its code', async () => {
  result = () => Promise.resolve({ kind: 'failed', code: 'notify/closed-address', problem: 'ops.example is 10.0.0.1' });
  await add('n1');
  sender = begin();
  await awaitTries('n1', 1);
  expect(await find('n1')).toMatchObject({ code: 'notify/closed-address', problem: 'ops.example is 10.0.0.1' });
  expect(lines).toEqual(['notification n1: notify/closed-address: ops.example is 10.0.0.1']);
});

test('a message about a question has the link of the person that the receiver names', async () => {
  const asked: LinkRequest[] = [];
  createApprovalLink = (request) => {
    asked.push(request);
    return Promise.resolve('https://api.example/answer/abc');
  };
  const question = { execKey: 'key', message: '?', by: [], deadlineAtMs: null, item: null };
  const message = { ...MESSAGE, kind: 'asking', stage: 'approve', question } as const;
  const linkOf = ({ body }: GuardedPost): unknown =>
    (JSON.parse(body) as { readonly data: { readonly link: unknown } }).data.link;
  sender = begin();
  await add('n1', { message });
  await awaitState('n1', 'sent');
  expect(asked).toEqual([]);
  await deployReceiver({ as: 'ann' });
  await add('n2', { message });
  await awaitState('n2', 'sent');
  expect(asked).toEqual([{ runId: 'review-01a', stage: 'approve', execKey: 'key', as: 'ann' }]);
  createApprovalLink = () => Promise.reject(new Error('no key'));
  await add('n3', { message });
  await awaitState('n3', 'sent');
  expect(posts.map(linkOf)).toEqual([null, 'https://api.example/answer/abc', null]);
});
