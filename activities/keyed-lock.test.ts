import { expect, test } from 'vitest';
import { KeyedLock } from './keyed-lock.ts';

test('tasks of one key run one after the other, also after a failure, and tasks of other keys do not wait', async () => {
  const lock = new KeyedLock();
  const { signal } = new AbortController();
  const log: string[] = [];
  let letGo!: () => void;
  const gate = new Promise<void>((resolve) => (letGo = resolve));
  const first = lock.run('vm', signal, async () => {
    log.push('first begins');
    await gate;
    log.push('first ends');
    throw new Error('first failed');
  });
  const second = lock.run('vm', signal, async () => void log.push('second'));
  await lock.run('other', signal, async () => void log.push('other'));
  letGo();
  await expect(first).rejects.toThrow('first failed');
  await second;
  expect(log).toEqual(['first begins', 'other', 'first ends', 'second']);
});

test('a task that gives up waiting does not let the next task start early', async () => {
  const lock = new KeyedLock();
  const gaveUp = new AbortController();
  let letGo!: () => void;
  const gate = new Promise<void>((resolve) => (letGo = resolve));
  let isFirstDone = false;
  const first = lock.run('vm', new AbortController().signal, async () => {
    await gate;
    isFirstDone = true;
  });
  const second = lock.run('vm', gaveUp.signal, async () => undefined);
  const third = lock.run('vm', new AbortController().signal, async () => isFirstDone);
  gaveUp.abort(new Error('no longer'));
  await expect(second).rejects.toThrow('no longer');
  letGo();
  await first;
  expect(await third).toBe(true);
});
