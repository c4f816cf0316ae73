import { expect, test } from 'vitest';
import { WEBHOOK } from '../../test/conformance/deployments.ts';
import { findGroupRule, joinGroup, makeGroup, MOST_BATCH_BYTES } from './grouping.ts';

const MIB = 1024 * 1024;

test('a batch holds payloads of 16 MiB together, and not one byte more', () => {
  expect(MOST_BATCH_BYTES).toBe(16 * MIB);
  const rule = findGroupRule({ ...WEBHOOK, batch: { key: null, size: 1_000, timeoutMs: 1_000 } })!;
  const delivery = { id: 'a', acceptedAtMs: 0, bodyBytes: MIB } as Parameters<typeof makeGroup>[0];
  let group = makeGroup(delivery);
  while (group.count < 15) group = joinGroup(group, delivery);
  expect(rule.hasRoom(group, { bodyBytes: MIB + 1 })).toBe(false);
  expect(rule.hasRoom(group, delivery)).toBe(true);
  group = joinGroup(group, delivery);
  expect([group.sizeBytes, rule.isFull(group)]).toEqual([MOST_BATCH_BYTES, false]);
  expect([rule.hasRoom(group, { bodyBytes: 0 }), rule.hasRoom(group, { bodyBytes: 1 })]).toEqual([true, false]);
});
