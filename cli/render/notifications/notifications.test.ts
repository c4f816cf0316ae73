import { expect, test } from 'vitest';
import type { ShownNotification } from '../../../app/notifications/read-notifications.ts';
import { MESSAGE } from '../../../test/conformance/notifications.ts';
import { createStyle } from '../text/style.ts';
import { renderNotification, renderNotificationReplays, renderNotifications } from './notifications.ts';

const NOW_MS = MESSAGE.atMs + 60_000;
const LAYOUT = { style: createStyle(false), width: Number.POSITIVE_INFINITY, nowMs: NOW_MS };
const SHOWN: ShownNotification = {
  id: 'ntf-1',
  deployment: 'review',
  receiver: 'ops',
  kind: 'failed',
  runId: 'review-01a',
  state: 'waiting',
  createdAtMs: MESSAGE.atMs,
  dueAtMs: NOW_MS + 8_000,
  tries: 2,
  code: 'notify/bad-answer',
  sentAtMs: null,
  problem: 'no \u001B[31manswer',
  message: {
    ...MESSAGE,
    code: 'stage/exit',
    message: 'a\u001B]0;b\nc',
    question: { execKey: 'k', message: 'Deploy?', by: ['ann', 'bob'], deadlineAtMs: null, item: null },
  },
};

test('the list says for each notification whether it was sent, and its latest failure', () => {
  const sent = { ...SHOWN, state: 'sent', dueAtMs: null } as const;
  expect(renderNotifications([SHOWN, sent], LAYOUT)).toEqual([
    'NOTIFICATION  DEPLOYMENT  RECEIVER  ABOUT   MADE    STATE    FAILURE',
    'ntf-1         review      ops       failed  1m ago  waiting  notify/bad-answer',
    'ntf-1         review      ops       failed  1m ago  sent',
  ]);
});

test('a notification is shown with its message, and without control characters', () => {
  const lines = renderNotification(SHOWN, LAYOUT);
  expect(lines.join('\n')).not.toContain('\u001B');
  expect(lines).toContain('next try      in 8.0 s');
  expect(lines).toContain('failure       notify/bad-answer: no answer');
  expect(lines).toContain('for           ann, bob');
});

test('replays are shown with their reasons', () => {
  expect(
    renderNotificationReplays([
      { notification: 'a', problem: null },
      { notification: 'b', problem: 'it does not exist' },
    ]),
  ).toEqual(['a  is sent again', 'b  not replayed: it does not exist']);
});
