import { expect, test } from 'vitest';
import type { EventLog } from '../../activities/ports/event-log.ts';
import type { IndexedRun, RunIndex } from '../../activities/ports/run-index.ts';
import type { RunRecords } from '../../activities/ports/run-records.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { createOpenRuns } from './open-runs.ts';

const ADMITTED = {
  type: 'run-admitted',
  name: 'n',
  kind: 'workflow',
  hostId: 'h',
  stages: [],
  outputStage: null,
} as const;
const FINISHED = {
  type: 'run-finished',
  outcome: { state: 'succeeded', failedStage: null, failure: null, output: null },
} as const;
const event = (body: NewRunEvent['body']): NewRunEvent => ({ id: body.type, atMs: 0, body });

const notAskedFor = (): Promise<never> => Promise.reject(new Error('not asked for'));

/** Logs and admissions in memory that count how often they are looked at. */
function store() {
  const logs = new Map<string, NewRunEvent[]>();
  const owners = new Map<string, unknown>();
  const counts = { pages: 0, records: 0 };
  const append: EventLog['append'] = async (runId, written) => {
    logs.set(runId, [...(logs.get(runId) ?? []), ...written]);
    return written.length;
  };
  const events: EventLog = { append, find: notAskedFor, outputCursor: notAskedFor };
  const indexed = ([runId, written]: readonly [string, readonly NewRunEvent[]]): IndexedRun => {
    const common = { runId, label: runId, name: 'n', startedAtMs: 0 };
    if (written.length === 0) return { ...common, state: 'damaged', endedAtMs: null, problem: 'its log is no log' };
    const hasEnded = written.some(({ body }) => body.type === 'run-finished');
    return { ...common, state: hasEnded ? 'succeeded' : 'running', endedAtMs: hasEnded ? 0 : null, problem: null };
  };
  const index: RunIndex = {
    async list({ before, limit }) {
      counts.pages += 1;
      const all = [...logs];
      const from = before === undefined ? 0 : all.findIndex(([runId]) => runId === before.label) + 1;
      const runs = all.slice(from, from + limit).map(indexed);
      const last = runs.at(-1);
      return {
        runs,
        next: last === undefined || from + limit >= all.length ? null : { startedAtMs: 0, label: last.label },
      };
    },
    openRuns: notAskedFor,
    listIds: notAskedFor,
    idsFrom: notAskedFor,
    has: notAskedFor,
  };
  const records: RunRecords = {
    put: notAskedFor,
    create: notAskedFor,
    async get(runId) {
      counts.records += 1;
      const owner = owners.get(runId);
      if (owner === 'damaged') throw new Error('admission.json is no JSON');
      if (owner === undefined || typeof owner === 'object') return owner ?? null;
      return { serverId: owner, hostId: 'h' };
    },
    drop: notAskedFor,
  };
  /** As another worker on the same state folder writes them. */
  const elsewhere = async (runId: string, owner: unknown, ...bodies: NewRunEvent['body'][]): Promise<void> => {
    if (owner !== undefined) owners.set(runId, owner);
    await append(runId, bodies.map(event));
  };
  return { events, index, records, counts, elsewhere, logs };
}

test('2,000 ended runs are read once, however often the open runs are listed', async () => {
  const { events, index, records, counts, elsewhere } = store();
  for (let run = 0; run < 2_000; run += 1) await elsewhere(`done-${run}`, 'here', ADMITTED, FINISHED);
  await elsewhere('open', 'here', ADMITTED);
  const openRuns = createOpenRuns({
    events,
    index,
    records,
    serverId: 'here',
    hostId: 'h',
    log: () => undefined,
    now: () => 0,
  });
  expect(await openRuns.list()).toEqual(['open']);
  expect(counts).toEqual({ pages: 3, records: 2_001 });
  for (let round = 0; round < 20; round += 1) expect(await openRuns.list()).toEqual(['open']);
  expect(counts, 'nothing more').toEqual({ pages: 3, records: 2_001 });
});

test('`onEnded` is called once for runs of this server that had ended before, and never for others', async () => {
  const { events, index, records, elsewhere } = store();
  await elsewhere('ended', 'here', ADMITTED, FINISHED);
  await elsewhere('ended-there', 'there', ADMITTED, FINISHED);
  await elsewhere('open', 'here', ADMITTED);
  const told: string[] = [];
  let now = 0;
  const onEnded = async (runId: string): Promise<void> => void told.push(runId);
  const openRuns = createOpenRuns({
    events,
    index,
    records,
    serverId: 'here',
    hostId: 'h',
    log: () => undefined,
    onEnded,
    now: () => now,
  });
  await openRuns.list();
  now += 10 * 60_000;
  await openRuns.list();
  expect(told).toEqual(['ended']);
});

test('runs that are listed again later are looked at only where they are new', async () => {
  const { events, index, records, counts, elsewhere } = store();
  for (let run = 0; run < 50; run += 1) await elsewhere(`done-${run}`, 'here', ADMITTED, FINISHED);
  let now = 0;
  const openRuns = createOpenRuns({
    events,
    index,
    records,
    serverId: 'here',
    hostId: 'h',
    log: () => undefined,
    now: () => now,
  });
  await openRuns.list();
  await elsewhere('of-another-worker', 'here', ADMITTED);
  await elsewhere('of-another-server', 'there', ADMITTED);
  expect(await openRuns.list()).toEqual([]);
  now += 10 * 60_000;
  expect(await openRuns.list()).toEqual(['of-another-worker']);
  expect(counts.records).toBe(52);
});

test('runs that this worker admits and finishes are known at once', async () => {
  const { events, index, records, counts } = store();
  const openRuns = createOpenRuns({
    events,
    index,
    records,
    serverId: 'here',
    hostId: 'h',
    log: () => undefined,
    now: () => 0,
  });
  expect(await openRuns.list()).toEqual([]);
  await openRuns.events.append('a', [event(ADMITTED)]);
  await openRuns.events.append('b', [event(ADMITTED)]);
  expect(await openRuns.list()).toEqual(['a', 'b']);
  await openRuns.events.append('a', [event(FINISHED)]);
  expect(await openRuns.list()).toEqual(['b']);
  openRuns.ended('b');
  expect(await openRuns.list()).toEqual([]);
  expect(counts).toEqual({ pages: 1, records: 0 });
});

test('a run that is not admitted yet is read again; an unreadable run is logged once and delays no other run', async () => {
  const { events, index, records, elsewhere } = store();
  await elsewhere('a-damaged', 'damaged', ADMITTED);
  await elsewhere('b-damaged', 'here');
  await elsewhere('not-ours', 'there');
  await elsewhere('waiting', undefined);
  await elsewhere('open', 'here', ADMITTED);
  let now = 0;
  const said: string[] = [];
  const openRuns = createOpenRuns({
    events,
    index,
    records,
    serverId: 'here',
    hostId: 'h',
    log: (_, message) => void said.push(message),
    now: () => now,
  });
  expect(await openRuns.list()).toEqual(['open']);
  await elsewhere('waiting', 'here', ADMITTED);
  now += 10 * 60_000;
  expect((await openRuns.list()).toSorted()).toEqual(['open', 'waiting']);
  expect(said).toEqual([
    'run a-damaged cannot be maintained: admission.json is no JSON',
    'run b-damaged cannot be maintained: its log is no log',
  ]);
});

test('a pruned run is forgotten, and one of the same id is a new one', async () => {
  const { events, index, records, elsewhere, logs } = store();
  await elsewhere('again', 'here', ADMITTED, FINISHED);
  let now = 0;
  const openRuns = createOpenRuns({
    events,
    index,
    records,
    serverId: 'here',
    hostId: 'h',
    log: () => undefined,
    now: () => now,
  });
  await openRuns.list();
  logs.clear();
  now += 10 * 60_000;
  await openRuns.list();
  await elsewhere('again', 'here', ADMITTED);
  now += 10 * 60_000;
  expect(await openRuns.list()).toEqual(['again']);
});

test('each of two hosts with one set of records has its own runs', async () => {
  const { events, index, records, elsewhere } = store();
  const admittedOn = (hostId: string): NewRunEvent['body'] => ({ ...ADMITTED, hostId });
  await elsewhere('of-a', { serverId: 'here', hostId: 'a' }, admittedOn('a'));
  await elsewhere('of-b', { serverId: 'here', hostId: 'b' }, admittedOn('b'));
  await elsewhere('ended-of-b', { serverId: 'here', hostId: 'b' }, admittedOn('b'), FINISHED);
  const told: string[] = [];
  const on = (hostId: string) =>
    createOpenRuns({
      events,
      index,
      records,
      serverId: 'here',
      hostId,
      log: () => undefined,
      onEnded: async (runId) => void told.push(`${hostId}: ${runId}`),
      now: () => 0,
    });
  const [a, b] = [on('a'), on('b')];
  expect(await a.list()).toEqual(['of-a']);
  expect(await b.list()).toEqual(['of-b']);
  expect(told).toEqual(['b: ended-of-b']);
  // A second admission of a run of the other host says the run's first event again.
  await a.events.append('later-of-b', [event(admittedOn('b'))]);
  await a.events.append('later-of-a', [event(admittedOn('a'))]);
  expect(await a.list()).toEqual(['of-a', 'later-of-a']);
});
