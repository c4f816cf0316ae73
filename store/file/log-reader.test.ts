import { createHook } from 'node:async_hooks';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { createFileEventLog, type FileEventLog } from './event-log.ts';
import { LogReader } from './log-reader.ts';
import { createFileRunReader } from './run-reader.ts';

const EVENTS = 2_000;

let stateDir: string;
let log: FileEventLog;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-log-reader-'));
  log = createFileEventLog(stateDir);
  for (let first = 0; first < EVENTS; first += 100)
    await log.append(
      'r',
      Array.from({ length: 100 }, (_, n) => passed(first + n)),
    );
});

afterEach(async () => {
  await log.close();
  rmSync(stateDir, { recursive: true, force: true });
});

function passed(number: number): NewRunEvent {
  return { id: `resumed/${number}`, atMs: number, body: { type: 'run-resumed', by: `w${number}` } };
}

async function promisesDuring(work: () => Promise<void>): Promise<number> {
  let promises = 0;
  const hook = createHook({ init: (_, type) => void (type === 'PROMISE' && promises++) }).enable();
  await work();
  hook.disable();
  return promises;
}

test('reading takes few promises an event, of which a run with many items reads tens of thousands', async () => {
  let read = 0;
  const promises = await promisesDuring(async () => {
    for await (const { seq } of createFileRunReader(stateDir).read('r', 0)) read = seq;
  });
  expect(read).toBe(EVENTS);
  expect(promises / EVENTS).toBeLessThan(4);
});

test('a reader that stops in the middle of a batch continues after that batch', async () => {
  const reader = new LogReader(stateDir, 'r', 0, false);
  for await (const { seq } of reader.toEnd()) if (seq === 150) break;
  const rest: number[] = [];
  for await (const { seq } of reader.toEnd()) rest.push(seq);
  expect([rest[0], rest.at(-1), rest.length]).toEqual([201, EVENTS, EVENTS - 200]);
  await reader.close();
});

test('a reader returns nothing after the end, until more is appended and it reads again', async () => {
  const reader = new LogReader(stateDir, 'r', EVENTS - 1, false);
  const first = reader.toEnd();
  expect((await first.next()).value).toMatchObject({ seq: EVENTS });
  expect(await first.next()).toEqual({ done: true, value: undefined });
  await log.append('r', [passed(EVENTS)]);
  expect(await first.next()).toEqual({ done: true, value: undefined });
  expect((await reader.toEnd().next()).value).toMatchObject({ seq: EVENTS + 1 });
  await reader.close();
});
