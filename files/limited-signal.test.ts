import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { limitSignal } from './limited-signal.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

async function awaitAbort(signal: AbortSignal): Promise<unknown> {
  return await new Promise((resolve) => signal.addEventListener('abort', () => resolve(signal.reason), { once: true }));
}

test('a limit ends the wait after a garbage collection', async () => {
  const ended = awaitAbort(limitSignal(new AbortController().signal, 300));
  for (let at = 0; at < 3; at++) {
    await sleep(50);
    collectGarbage();
  }
  expect(await Promise.race([ended, sleep(10_000, 'no end')])).toMatchObject({ name: 'TimeoutError' });
});

test('the signal aborts with the one that it was made of', async () => {
  const own = new AbortController();
  const ended = awaitAbort(limitSignal(own.signal, 60_000));
  own.abort(new Error('gone'));
  expect(await ended).toMatchObject({ message: 'gone' });
});
