import { expect, test } from 'vitest';
import type { HeldArtifacts } from '../../../store/ports/held-artifacts.ts';
import { makeDelivery } from '../../../test/conformance/deliveries.ts';
import { makeVersion } from '../../../test/conformance/deployments.ts';
import { createMemoryTriggers } from '../../../test/rig/access/memory-triggers.ts';
import { HELD_MS, sweepHeld } from './sweep-held.ts';

const NOW_MS = 1_795_996_352_123;

test('the file of an open delivery stays held, and that of a delivery with its outcome is released after its payload', async () => {
  const times = new Map([
    ['a'.repeat(64), NOW_MS],
    ['b'.repeat(64), NOW_MS],
  ]);
  const held: HeldArtifacts = {
    hold: (sha256) => Promise.resolve(void times.set(sha256, NOW_MS + HELD_MS)),
    listOlder: (beforeMs) => Promise.resolve([...times].flatMap(([name, atMs]) => (atMs < beforeMs ? [name] : []))),
    release: (sha256) => Promise.resolve(void times.delete(sha256)),
  };
  const { deployments, deliveries } = createMemoryTriggers();
  await deployments.deploy(makeVersion('review'), { isPaused: false });
  const write = (letter: string): Buffer => Buffer.from(JSON.stringify({ sha256: letter.repeat(64) }));
  await deliveries.accept(makeDelivery({ body: write('a') }));
  await deliveries.accept(makeDelivery({ body: write('b'), refusal: { code: 'trigger/x', message: '' } }));
  await sweepHeld(held, deliveries, NOW_MS + HELD_MS);
  expect(times.size).toBe(2);
  await sweepHeld(held, deliveries, NOW_MS + HELD_MS + 1);
  expect([...times]).toEqual([['a'.repeat(64), NOW_MS + HELD_MS]]);
});
