import { expect, test } from 'vitest';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { createWakeCalls, type WakeCalls } from './wake-calls.ts';

interface Service extends WakeCalls {
  readonly wakes: () => number;
  readonly lines: readonly string[];
}

function startService(): Service {
  const lines: string[] = [];
  let wakes = 0;
  const calls = createWakeCalls({ onWake: () => void (wakes += 1), log: (line) => lines.push(line) });
  return { ...calls, wakes: () => wakes, lines };
}

test('a call of one service wakes each service of the database once', async () => {
  const { deliveries } = createMemoryAccess().triggers;
  const [one, other] = [startService(), startService()];
  for (const service of [one, other]) {
    service.keepListening(deliveries);
    service.keepListening(deliveries);
  }
  await new Promise(setImmediate);
  one.wake();
  expect([one.wakes(), other.wakes()]).toEqual([1, 1]);
  await other.close();
  one.wake();
  expect([one.wakes(), other.wakes()]).toEqual([2, 1]);
});

test('a service that hears no others wakes itself, and tries again to listen', async () => {
  const { deliveries } = createMemoryAccess().triggers;
  let failures = 2;
  const failing = {
    wake: () => deliveries.wake(),
    listen: async (onWake: () => void) => {
      if ((failures -= 1) >= 0) throw new Error('away');
      return await deliveries.listen(onWake);
    },
  };
  const service = startService();
  for (let tries = 1; tries <= 3; tries += 1) {
    service.keepListening(failing);
    await new Promise(setImmediate);
    service.wake();
    expect(service.wakes()).toBe(tries);
  }
  expect(service.lines).toEqual(['deliveries: the service hears no calls of others: away']);
  deliveries.wake();
  expect(service.wakes()).toBe(4);
});

test('a service that is closed while it begins to listen hears nothing', async () => {
  const { deliveries } = createMemoryAccess().triggers;
  const service = startService();
  service.keepListening(deliveries);
  await service.close();
  service.keepListening(deliveries);
  deliveries.wake();
  expect(service.wakes()).toBe(0);
});
