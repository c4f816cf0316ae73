import { Buffer } from 'node:buffer';
import { describe, expect, test } from 'vitest';
import {
  DOOR_NOTICE_LIMITS,
  NOTHING_READ,
  type NoticesRead,
  readNotices,
  formatTarget,
  flushCounts,
  type ToldNotice,
} from './door-notice.ts';

const decode = (bytes: Uint8Array): string => Buffer.from(bytes).toString();
const linesOf = (...lines: readonly (object | string)[]): Buffer =>
  Buffer.from(lines.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join(''));

const REFUSED = { kind: 'refused', atMs: 5, host: 'a.example', port: 443, cause: 'rules', reason: 'no' };
const CLOSED = { kind: 'closed', atMs: 6, service: 'db', end: 'clean', sentBytes: 3, receivedBytes: 4, ms: 7 };

/** Reads the bytes in pieces of this size. */
function readAll(bytes: Buffer, size = bytes.length): { readonly read: NoticesRead; readonly told: ToldNotice[] } {
  let read = NOTHING_READ;
  const told: ToldNotice[] = [];
  for (let end = size; ; end += size) {
    const next = readNotices(read, bytes.subarray(read.offset, Math.min(end, bytes.length)), decode);
    told.push(...next.told);
    read = next.read;
    if (end >= bytes.length) return { read, told };
  }
}

describe('notices of a door', () => {
  test('become events with their content, each at its offset', () => {
    const bytes = linesOf(REFUSED, CLOSED, { kind: 'dropped', of: 'refused' }, { kind: 'unwritten', count: 2 });
    const { read, told } = readAll(bytes);
    expect(read.offset).toBe(bytes.length);
    const { kind: _kind, atMs: _atMs, ms, ...closed } = CLOSED;
    expect(told.map(({ notice }) => notice)).toEqual([
      { kind: 'refused', host: 'a.example', port: 443, cause: 'rules', reason: 'no' },
      { kind: 'closed', ...closed, durationMs: ms },
      { kind: 'dropped', of: 'refused' },
      { kind: 'unwritten', count: 2 },
    ]);
    expect(told.map(({ atMs }) => atMs)).toEqual([5, 6, null, null]);
    expect(told.map(({ offset }) => bytes.subarray(offset).indexOf('{'))).toEqual([0, 0, 0, 0]);
  });

  test('give the same result however they are cut, and half a line waits', () => {
    const flood = Array.from({ length: 700 }, (_, index) => ({ ...REFUSED, host: `é${index}.example` }));
    const bytes = linesOf(...flood, CLOSED);
    const whole = readAll(bytes);
    for (const size of [1, 7, 1_000]) expect(readAll(bytes, size)).toEqual(whole);
    expect(readNotices(NOTHING_READ, bytes.subarray(0, 20), decode)).toEqual({ read: NOTHING_READ, told: [] });
  });

  test('are counted beyond the first ones, and events report the counts at intervals and at the end', () => {
    const { refused, closed, counted } = DOOR_NOTICE_LIMITS;
    const bytes = linesOf(
      ...Array.from({ length: refused + counted + 10 }, () => REFUSED),
      ...Array.from({ length: closed + 2 }, () => CLOSED),
    );
    const { read, told } = readAll(bytes);
    const ofKind = (kind: string): number => told.filter(({ notice }) => notice.kind === kind).length;
    expect([ofKind('refused'), ofKind('closed'), ofKind('more')]).toEqual([refused, closed, 1]);
    const end = flushCounts(read);
    expect(end.told).toEqual([
      {
        offset: bytes.length,
        atMs: null,
        notice: { kind: 'more', refused: counted + 10, closed: 2, sentBytes: 6, receivedBytes: 8 },
      },
    ]);
    expect(flushCounts(end.read).told).toEqual([]);
  });

  test('a line that no keeper of this build writes makes no notice, and later lines count', () => {
    const { told } = readAll(linesOf('no JSON', '[]', 'null', { kind: 'later' }, { kind: 4 }, '', REFUSED));
    expect(told).toHaveLength(1);
  });

  test('are bounded, whatever they contain', () => {
    const bad = { kind: 'closed', atMs: 1e300, host: 'x'.repeat(9_000), port: -1, end: {}, sentBytes: 'many' };
    expect(readAll(linesOf(bad)).told[0]).toEqual({
      offset: 0,
      atMs: null,
      notice: {
        kind: 'closed',
        host: 'x'.repeat(255),
        port: 0,
        end: '',
        sentBytes: 0,
        receivedBytes: 0,
        durationMs: 0,
      },
    });
  });
});

test('a target is shown as people type it', () => {
  expect(formatTarget({ host: 'a.example', port: 443 })).toBe('a.example:443');
  expect(formatTarget({ host: '::1', port: 80 })).toBe('[::1]:80');
  expect(formatTarget({ service: 'db' })).toBe('service db');
});
