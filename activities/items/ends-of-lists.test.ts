import { beforeEach, describe, expect, test } from 'vitest';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { formatInstance } from '../../domain/run/instance.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { createEndsOfLists, type EndsOfLists } from './ends-of-lists.ts';
import type { EventLog } from '../ports/event-log.ts';

const REF = { sha256: 'a'.repeat(64), sizeBytes: 3, mediaType: 'text/plain' };
const LIST = 'in/out~1/1';

/** A log that already has events with these ids, so that they are not new. */
function logWith(ids: readonly string[]): EventLog {
  return {
    append: (_runId, events) => Promise.resolve(events.filter(({ id }) => !ids.includes(id)).length),
    find: () => Promise.resolve(null),
    outputCursor: () => Promise.resolve(7),
  };
}

function begun(execKey = LIST, items: number | null = 2): NewRunEvent {
  const stage = execKey.slice(0, execKey.indexOf('/'));
  const body = {
    type: 'stage-started',
    stage,
    execKey,
    attempt: 1,
    ...(items === null ? {} : { items }),
  } as const;
  return { id: EVENT_ID.attempt(execKey, 'started'), atMs: 5, body };
}

function finished(item: number, more: Partial<StageResult> = {}, outer = 1, attempt = 1): NewRunEvent {
  const instance = [
    { part: 'out', item: outer },
    { part: 'in', item },
  ];
  const execKey = `in/${formatInstance(instance)}/${attempt}`;
  const result: StageResult = {
    stage: 'in',
    instance,
    attempt,
    execKey,
    outcome: 'succeeded',
    failure: null,
    durationMs: 1,
    output: REF,
    outputs: {},
    vm: null,
    usage: {},
    command: null,
    ...more,
  };
  return {
    id: EVENT_ID.attempt(execKey, 'finished'),
    atMs: 6,
    body: { type: 'stage-finished', stage: 'in', execKey, result },
  };
}

let lists: EndsOfLists;
const hear = async (...events: readonly NewRunEvent[]): Promise<void> => {
  for (const event of events) await lists.events.append('run', [event]);
};
const itemsOf = (execKey = LIST, runId = 'run') => [...(lists.take(runId, execKey)?.succeeded.keys() ?? [])];

beforeEach(() => (lists = createEndsOfLists(logWith([]))));

test('successful items are remembered by list until `take` is called', async () => {
  await hear(begun(), begun('in/out~2/1'), finished(1), finished(0), finished(4, {}, 2));
  expect(lists.take('run', LIST)).toEqual({
    startedAtMs: 5,
    succeeded: new Map([1, 0].map((item) => [item, expect.objectContaining({ output: REF, vm: null })])),
  });
  expect(lists.take('run', LIST)).toBeNull();
  expect(itemsOf('in/out~2/1')).toEqual([4]);
});

describe('ends in the memory of the worker', () => {
  test.each<[string, readonly NewRunEvent[]]>([
    ['of a list that another worker began', [finished(0)]],
    [
      'of items that failed or were cancelled',
      [begun(), finished(0, { outcome: 'failed' }), finished(1, { outcome: 'cancelled' })],
    ],
    ['of a list of the run itself', [begun('in/0/1'), finished(0)]],
    ['of a stage without a list', [begun(LIST, null), finished(0)]],
  ])('the worker knows no ends %s', async (_what, events) => {
    await hear(...events);
    expect(itemsOf()).toEqual([]);
  });

  test('the worker knows no ends of another run', async () => {
    await hear(begun(), finished(0));
    expect(itemsOf(LIST, 'other')).toEqual([]);
  });

  test('the worker knows no ends of events that were stored before, or of a batch that has such an event', async () => {
    const old = finished(0);
    lists = createEndsOfLists(logWith([old.id]));
    await hear(begun(), old);
    expect(await lists.events.append('run', [old, finished(1)])).toBe(1);
    expect(itemsOf()).toEqual([]);
  });
});

test('a further item drops the list that began first', async () => {
  lists = createEndsOfLists(logWith([]), 3);
  await hear(begun(), finished(0), finished(1), begun('in/out~2/1'), finished(0, {}, 2));
  await hear(finished(1, {}, 2));
  expect(itemsOf()).toEqual([]);
  expect(itemsOf('in/out~2/1')).toEqual([0, 1]);
});
