import type { Client } from '@temporalio/client';
import { expect, test } from 'vitest';
import type { EventLog } from '../../activities/ports/event-log.ts';
import type { NewRunEvent, RunReply } from '../../domain/run/event.ts';
import { repairRun } from './runs.ts';

const REPLY: RunReply = {
  state: 'succeeded',
  failedStage: null,
  failure: null,
  output: { sha256: 'a'.repeat(64), sizeBytes: 3, mediaType: 'text/plain' },
  tolerated: ['lint'],
  outputText: 'key',
};

/** A server on which the workflow of each run has ended with `REPLY`. */
const client = {
  workflow: {
    getHandle: () => ({
      describe: () =>
        Promise.resolve({ status: { name: 'COMPLETED' }, startTime: new Date(0), closeTime: new Date(1) }),
      result: () => Promise.resolve(REPLY),
    }),
  },
} as unknown as Client;

test('a repaired run has an event without the text that the workflow returned', async () => {
  const appended: NewRunEvent[] = [];
  const events = {
    find: () => Promise.resolve(null),
    append: (_runId: string, added: readonly NewRunEvent[]) => Promise.resolve(appended.push(...added)),
  } as unknown as EventLog;
  const { outputText, ...outcome } = REPLY;
  expect(outputText).toBe('key');
  expect(await repairRun(client, events, 'lost-end', { now: () => 5 })).toEqual(outcome);
  expect(appended).toEqual([{ id: 'run/finished', atMs: 5, body: { type: 'run-finished', outcome } }]);
});
