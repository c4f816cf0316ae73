/** Readings of long logs leave room for other work of the process. */
import { expect, test } from 'vitest';
import type { RunReader } from '../../activities/ports/run-reader.ts';
import type { RunEvent } from '../../domain/run/event.ts';
import { type PieceMaker, readSelected, type Selection } from './select-events.ts';

const READINGS = 10;
const EVENTS = 20;
/** Two events fit into a turn of 5 ms. */
const WORK_MS = 2.5;

test.each([null, 1])('readings without a match leave room after each turn, with the tail %s', async (tail) => {
  let pushed = 0;
  const maker: PieceMaker<string> = {
    push() {
      const endMs = performance.now() + WORK_MS;
      while (performance.now() < endMs);
      pushed += 1;
      return [];
    },
    flush: () => [],
  };
  const reader: Pick<RunReader, 'read'> = {
    async *read() {
      for (let seq = 1; seq <= EVENTS; seq += 1)
        yield { id: `e/${seq}`, seq, atMs: 0, body: { type: 'run-resumed', by: 'a' } } satisfies RunEvent;
    },
  };
  const selection: Selection<string> = {
    runId: 'a',
    after: 0,
    from: 0,
    tail,
    output: true,
    signal: new AbortController().signal,
    createMaker: () => maker,
  };
  const read = async (): Promise<void> => {
    for await (const _ of readSelected(selection, reader as RunReader));
  };
  let isOver = false;
  const readings = Promise.all(Array.from({ length: READINGS }, read)).finally(() => {
    isOver = true;
  });
  let most = 0;
  while (!isOver) {
    const before = pushed;
    await new Promise((resolve) => setImmediate(resolve));
    most = Math.max(most, pushed - before);
  }
  await readings;
  expect(pushed).toBe(READINGS * EVENTS * (tail === null ? 1 : 2));
  expect(most).toBeLessThanOrEqual(3);
});
