import { expect, test } from 'vitest';
import type { NewRunEvent, RunEventBody } from '../domain/run/event.ts';
import { countUtf8Bytes } from '../domain/units/utf8.ts';
import { eventsSummary, summaryOf } from './summary.ts';

const event = (body: RunEventBody): NewRunEvent => ({ id: 'x', atMs: 1, body });
const SKIPPED = event({ type: 'stage-skipped', stage: 'a', reason: 'x' });
const NOTICE = event({ type: 'notice', level: 'info', message: 'x' });

test('a summary of events has their number, and each kind once', () => {
  expect(eventsSummary([SKIPPED])).toBe('1 event: stage-skipped');
  expect(eventsSummary([SKIPPED, NOTICE, SKIPPED])).toBe('3 events: stage-skipped, notice');
});

test.each(['x'.repeat(1_000), 'ü'.repeat(1_000), '😀'.repeat(1_000)])(
  'is short enough for the server: %.3s',
  (text) => {
    const summary = summaryOf(text);
    expect(countUtf8Bytes(summary)).toBeLessThanOrEqual(200);
    expect(countUtf8Bytes(summary)).toBeGreaterThan(190);
    expect(summary.endsWith('…')).toBe(true);
    expect(summaryOf(text.slice(0, 20))).toBe(text.slice(0, 20));
  },
);

test('is one line without control characters', () => {
  expect(summaryOf('a\nb\u001b[31m')).not.toMatch(/\p{Cc}/u);
});
