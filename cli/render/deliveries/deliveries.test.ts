import { expect, test } from 'vitest';
import type { ShownDelivery } from '../../../app/deliveries/read-deliveries.ts';
import { createStyle } from '../text/style.ts';
import { renderDeliveries, renderDelivery, renderReplays } from './deliveries.ts';

const NOW_MS = 100 * 3_600_000;
const LAYOUT = { style: createStyle(false), width: Number.POSITIVE_INFINITY, nowMs: NOW_MS };
const SHOWN: ShownDelivery = {
  id: '01a',
  deployment: 'review',
  trigger: 'push',
  version: 2,
  acceptedAtMs: NOW_MS - 60_000,
  state: 'held',
  hold: 'retry',
  dueAtMs: NOW_MS + 8_000,
  runId: 'review-01a',
  runEndedAtMs: null,
  into: null,
  code: 'api/bug',
  message: 'no \u001B[31manswer',
  chain: [
    { delivery: null, deployment: null, runId: null },
    { delivery: '019', deployment: 'build', runId: 'build-019' },
  ],
  tries: 4,
  decidedAtMs: NOW_MS,
  replayOf: null,
  notBeforeMs: null,
  expiresAtMs: null,
  schedule: null,
  contentType: 'text/plain',
  bodyBytes: 9,
  bodySha256: 'f'.repeat(8),
  details: {
    senderId: 'x\u001B]0;y',
    traceparent: '00-1-2-01',
    cloudEvent: { source: '/s', id: 'e-1' },
    headers: { 'x-event': 'push' },
    params: {},
    keys: { dedupe: 'x', debounce: null, batch: null, rate: null, order: 'main' },
    payload: 'a\u001B[2Jb\nc',
    isCut: true,
  },
};

test('the list says for each delivery which run it started, or why none', () => {
  const rows = [
    SHOWN,
    { ...SHOWN, state: 'started', hold: null } as const,
    { ...SHOWN, state: 'merged', hold: null, into: '01b' } as const,
    { ...SHOWN, state: 'filtered', hold: null, code: 'trigger/no-match' } as const,
  ];
  expect(renderDeliveries(rows, LAYOUT)).toEqual([
    'DELIVERY  DEPLOYMENT  TRIGGER  ACCEPTED  STATE     OUTCOME',
    '01a       review      push     1m ago    held      retry',
    '01a       review      push     1m ago    started   review-01a',
    '01a       review      push     1m ago    merged    into 01b',
    '01a       review      push     1m ago    filtered  trigger/no-match',
  ]);
});

test('a delivery is shown with its reason and its payload, and without control characters', () => {
  const lines = renderDelivery(SHOWN, LAYOUT);
  expect(lines.join('\n')).not.toContain('\u001B');
  expect(lines).toEqual([
    'delivery    01a',
    'state       held',
    'deployment  review, version 2',
    'trigger     push',
    'accepted    1970-01-05T03:59:00.000Z (1m ago)',
    'waits for   the last try failed (4); the service looks again in 8.0 s',
    'run         review-01a',
    'follows     (hidden) → build-019',
    'reason      api/bug: no answer',
    'tries       4 failed',
    'payload     9 bytes, text/plain, SHA-256 ffffffff',
    'sender id   x␛]0;y',
    'event       e-1 of /s',
    'trace       00-1-2-01',
    'headers     {"x-event":"push"}',
    'keys        dedupe "x", order "main"',
    '',
    'ab',
    'c',
    '…',
  ]);
  expect(renderDelivery({ ...SHOWN, details: null }, LAYOUT).at(-1)).toContain('cannot be read');
  expect(renderDelivery({ ...SHOWN, details: { ...SHOWN.details!, payload: null } }, LAYOUT).at(-1)).toContain(
    'deleted',
  );
});

test('replays are shown with the new delivery or the reason', () => {
  const made = { delivery: '01a', replay: '01c', code: null, message: null };
  const refused = { delivery: '01b', replay: null, code: 'api/delivery-open', message: 'it is held' };
  expect(renderReplays([made, refused], false)).toEqual([
    '01a  replayed as 01c',
    '01b  not replayed: api/delivery-open: it is held',
  ]);
  expect(renderReplays([{ ...made, replay: null }], true)).toEqual(['01a  would be replayed']);
});
