import { CloudEvent, HTTP } from 'cloudevents';
import { Webhook } from 'standardwebhooks';
import { expect, test } from 'vitest';
import type { NoticeMessage } from '../../domain/notification/notice.ts';
import { CLOUDEVENTS_MODES, type CloudEventsMode, type NotifyTarget } from '../../domain/notification/notify.ts';
import type { GuardedPost } from '../../http/guarded-post.ts';
import { MESSAGE } from '../../test/conformance/notifications.ts';
import { isNotificationId, makeNotifications } from './make-notifications.ts';
import { type WriteRequest, writeRequest } from './write-message.ts';

const NOW_MS = Date.now();
const SECRET = `whsec_${Buffer.from('a secret of the receiver').toString('base64')}`;
const WEBHOOK: NotifyTarget = { kind: 'webhook', url: 'https://ops.example/hooks', secret: 'NOTIFY' };
const SLACK: NotifyTarget = { kind: 'slack', secret: 'SLACK' };
const EVENTS = { kind: 'cloudevents', url: 'https://events.example/', token: 'TOKEN' } as const satisfies NotifyTarget;
const HOOK_URL = 'https://hooks.slack.com/services/T0/B0/secret';

const FAILED: NoticeMessage = {
  ...MESSAGE,
  stage: 'test',
  code: 'stage/exit',
  message: 'line 1\nline 2 \u001B[31m<!channel> & <https://evil.example|Click>',
};
const ASKING: NoticeMessage = {
  ...MESSAGE,
  kind: 'asking',
  occurrence: 'key',
  text: 'stage approve waits for an answer',
  stage: 'approve',
  question: { execKey: 'key', message: 'Deploy <b>?', by: ['ann'], deadlineAtMs: 1_795_996_352_123, item: null },
};

function write(target: NotifyTarget, secret: string | null, changes: Partial<WriteRequest> = {}): GuardedPost {
  const request = writeRequest({ id: 'ntf-1', message: FAILED, target, secret, link: null, nowMs: NOW_MS, ...changes });
  if ('problem' in request) throw new Error(request.problem);
  return request;
}

test('a webhook is signed as the library of Standard Webhooks verifies it', () => {
  const { url, headers, body, privateHeaders } = write(WEBHOOK, SECRET);
  expect([url, privateHeaders]).toEqual(['https://ops.example/hooks', {}]);
  const verified = new Webhook(SECRET).verify(body, { ...headers });
  expect(verified).toEqual({
    type: 'voidbox.run.failed',
    timestamp: '2026-11-29T23:52:32.123Z',
    data: {
      deployment: 'review',
      version: 1,
      trigger: 'push',
      delivery: '01a',
      run: 'review-01a',
      state: 'failed',
      text: 'the run has failed',
      stage: 'test',
      code: 'stage/exit',
      message: 'line 1␊line 2 <!channel> & <https://evil.example|Click>',
      question: null,
      link: null,
    },
  });
  expect(headers['webhook-id']).toBe('ntf-1');
  expect(() => new Webhook(SECRET).verify(body.replace('failed', 'fine'), { ...headers })).toThrow(
    'No matching signature',
  );
});

test('a question has its text, its deadline and its link', () => {
  const link = 'https://api.example/answer/abc';
  const { body } = write(WEBHOOK, SECRET, { message: ASKING, link });
  expect((JSON.parse(body) as { readonly data: object }).data).toMatchObject({
    state: 'asking',
    question: { message: 'Deploy <b>?', by: ['ann'], deadline: '2026-11-29T23:52:32.123Z', item: null },
    link,
  });
});

const FORMS: Readonly<Record<CloudEventsMode, readonly [string, readonly string[]]>> = {
  structured: ['application/cloudevents+json; charset=utf-8', []],
  binary: ['application/json', ['ce-id', 'ce-source', 'ce-specversion', 'ce-subject', 'ce-time', 'ce-type']],
  batched: ['application/cloudevents-batch+json; charset=utf-8', []],
};

test.each(CLOUDEVENTS_MODES)(
  'a CloudEvent in the mode %s is read by the library of the standard, and its token is a private header',
  (mode) => {
    const { headers, privateHeaders, body } = write({ ...EVENTS, mode }, 'abc');
    const [type, names] = FORMS[mode];
    expect(headers['content-type']).toBe(type);
    expect(Object.keys(headers).toSorted()).toEqual([...names, 'content-type'].toSorted());
    expect(privateHeaders).toEqual({ authorization: 'Bearer abc' });
    const read = HTTP.toEvent<unknown>({ headers: { ...headers }, body });
    expect(Array.isArray(read)).toBe(mode === 'batched');
    const [event, ...others] = [read].flat();
    expect(others).toEqual([]);
    // The library checks the event.
    expect(new CloudEvent({ ...event! }, true).toJSON()).toMatchObject({
      specversion: '1.0',
      id: 'ntf-1',
      source: '/deployments/review',
      type: 'voidbox.run.failed',
      time: '2026-11-29T23:52:32.123Z',
      subject: 'review-01a',
      datacontenttype: 'application/json',
      data: { state: 'failed', run: 'review-01a' },
    });
  },
);

test('a CloudEvent without a mode is structured, and one of a schedule that did not fire names its trigger', () => {
  expect(write(EVENTS, 'abc')).toEqual(write({ ...EVENTS, mode: 'structured' }, 'abc'));
  const unfired = { ...MESSAGE, kind: 'late', runId: null, delivery: null } as const;
  const { privateHeaders: none, body: late } = write({ ...EVENTS, token: null }, null, { message: unfired });
  expect(none).toEqual({});
  expect(JSON.parse(late)).toMatchObject({ type: 'voidbox.schedule.late', subject: 'push' });
});

test('a text of a guest mentions no channel of Slack and hides no address', () => {
  const { url, body } = write(SLACK, `${HOOK_URL}\n`);
  expect(url).toBe(HOOK_URL);
  expect(body).not.toMatch(/<!channel>|<https:/);
  expect(body).not.toContain('\\n');
  const sent = JSON.parse(body) as { readonly text: string; readonly blocks: readonly object[] };
  expect(sent.text).toBe('review: failed: the run has failed (run review-01a)');
  expect(sent.blocks).toHaveLength(2);
  expect(sent.blocks[1]).toEqual({
    type: 'section',
    text: {
      type: 'plain_text',
      text: expect.stringContaining('&lt;!channel&gt; &amp; &lt;https://evil.example|Click&gt;') as string,
      emoji: false,
    },
  });
});

test('a question in Slack has its link', () => {
  const { body } = write(SLACK, HOOK_URL, { message: ASKING, link: 'https://api.example/answer/abc' });
  expect(body).toContain('Deploy &lt;b&gt;?');
  expect(body).toContain('<https://api.example/answer/abc|Answer the question>');
});

test.each([
  [WEBHOOK, null, 'the deployment has no secret NOTIFY'],
  [WEBHOOK, '', 'the deployment has no secret NOTIFY'],
  [WEBHOOK, 'not base64!', 'base64'],
  [SLACK, null, 'the deployment has no secret SLACK'],
  [SLACK, 'SECRET', 'is not the URL of an incoming webhook'],
  [SLACK, 'https://a:SECRET@x', 'is not the URL of an incoming webhook'],
  [EVENTS, null, 'the deployment has no secret TOKEN'],
  [EVENTS, 'SECRET\r\nx: 1', 'a header cannot have'],
] as const)('a secret of another form is a problem without its value: %j', (target, secret, problem) => {
  const request = writeRequest({ id: 'ntf-1', message: FAILED, target, secret, link: null, nowMs: NOW_MS });
  expect(request).toEqual({ problem: expect.stringContaining(problem) as string });
  expect(JSON.stringify(request)).not.toContain('SECRET');
});

test('the id of a notification follows from its fact and its receiver', () => {
  const receiver = { states: ['failed', 'asking'], as: null, target: WEBHOOK } as const;
  const receivers = [
    { ...receiver, name: 'a' },
    { ...receiver, name: 'b' },
    { ...receiver, name: 'c', states: ['late'] as const },
  ];
  const make = (message: NoticeMessage, nowMs = 1) =>
    makeNotifications([message], message, { receivers }, nowMs).map(({ id }) => id);
  const ids = [
    ...make(FAILED),
    ...make(ASKING),
    ...make({ ...ASKING, occurrence: 'other' }),
    ...make({ ...FAILED, runId: 'x' }),
  ];
  expect(new Set(ids).size).toBe(8);
  expect(ids.every(isNotificationId)).toBe(true);
  expect(make({ ...FAILED, atMs: 5, text: 'other' }, 2)).toEqual(make(FAILED));
  expect(isNotificationId('ntf-1')).toBe(false);
});
