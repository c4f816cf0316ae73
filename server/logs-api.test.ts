import { describe, expect, test } from 'vitest';
import { MAX_TAIL_LINES } from '../app/lines/log-lines.ts';
import type { NewRunEvent, RunEventBody } from '../domain/run/event.ts';
import { openUploads } from '../store/open-uploads.ts';
import type { Stores } from '../store/stores.ts';
import { openAsOwner, refuseAccess } from '../test/rig/access/owner.ts';
import { MemoryPlace, openMemoryStores } from '../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { stageResult } from '../test/rig/runs/stage-results.ts';
import { createApi } from './api.ts';
import { API_LIMITS, GREP_CHARACTERS, SINCE_CHARACTERS, STAGE_CHARACTERS } from './limits.ts';
import { ProblemSchema } from './schemas.ts';

const START_MS = Date.UTC(2026, 10, 23, 8);

function createAdmitted(): NewRunEvent {
  const stages = [
    { id: 'build', dependsOn: [] },
    { id: 'check', dependsOn: ['build'] },
  ];
  const body = {
    type: 'run-admitted',
    name: 'a',
    kind: 'workflow',
    hostId: 'h',
    stages,
    outputStage: 'check',
  } as const;
  return { id: 'run/admitted', atMs: START_MS, body };
}

function createOutput(at: number, stage: string, data: string, stream: 'stdout' | 'stderr' = 'stdout'): NewRunEvent {
  const execKey = `${stage}/0/1`;
  const body: RunEventBody = {
    type: 'output',
    stage,
    execKey,
    stream,
    from: at * 1_000,
    to: at * 1_000 + data.length,
    encoding: 'utf8',
    data,
  };
  return { id: `exec/${execKey}/${stream}/${at}`, atMs: START_MS + at * 1_000, body };
}

function createFinished(at: number, stage: string): NewRunEvent {
  const execKey = `${stage}/0/1`;
  const body: RunEventBody = { type: 'stage-finished', stage, execKey, result: stageResult(execKey, {}) };
  return { id: `stage/${execKey}/finished`, atMs: START_MS + at * 1_000, body };
}

/** Two stages, in ten events. The text `needle` of the event 4 begins in the event 3. */
const EVENTS: readonly NewRunEvent[] = [
  createAdmitted(),
  createOutput(1, 'build', 'one\ntwo\n'),
  createOutput(2, 'build', 'three has a nee'),
  createOutput(3, 'build', 'dle\nfour\n'),
  createOutput(4, 'build', 'oops\n', 'stderr'),
  createFinished(5, 'build'),
  createOutput(6, 'check', 'five with a needle\nsix'),
  createOutput(7, 'check', '\n(a+)+$ 7'),
  createFinished(8, 'check'),
  {
    id: 'run/finished',
    atMs: START_MS + 9_000,
    body: {
      type: 'run-finished',
      outcome: { state: 'succeeded', failedStage: null, failure: null, output: null, tolerated: [] },
    },
  },
];

async function leaveRun(events: readonly NewRunEvent[] = EVENTS): Promise<Stores> {
  const stores = openMemoryStores(new MemoryPlace());
  await stores.events.append('r', events);
  return stores;
}

function openApi(stores: Stores) {
  const machine = createTestMachine(stores, { now: () => new Date(START_MS + 60_000) });
  const uploads = openUploads({ stateDir: '/nowhere/state' });
  const limits = { ...API_LIMITS, heartbeatMs: 20 };
  return openAsOwner(
    createApi({ machine, uploads, access: refuseAccess, version: '1.2.3', limits, log: () => undefined }),
  );
}

async function get(path: string, headers: Readonly<Record<string, string>> = {}, stores?: Stores): Promise<Response> {
  return await openApi(stores ?? (await leaveRun())).request(`/api/v1/runs/r/${path}`, { headers });
}

async function seqsOf(query: string): Promise<readonly number[]> {
  const response = await get(`events?${query}`);
  expect(response.status).toBe(200);
  return parseSeqs(await response.text());
}

function parseSeqs(lines: string): readonly number[] {
  return lines.split('\n').flatMap((line) => (line === '' ? [] : [(JSON.parse(line) as { seq: number }).seq]));
}

async function linesOf(query: string): Promise<readonly string[]> {
  const response = await get(`logs?${query}`);
  expect(response.headers.get('content-type')).toBe('text/plain; charset=utf-8');
  return (await response.text()).split('\n').slice(0, -1);
}

const SSE = { accept: 'text/event-stream' };

/** Returns the ids of the messages of a stream, without that of its end, and their texts. */
function parseSse(text: string): readonly { readonly id: string; readonly data: readonly string[] }[] {
  return text.split('\n\n').flatMap((block) => {
    const lines = block.split('\n');
    const id = lines.find((line) => line.startsWith('id: '))?.slice(4);
    return id === undefined ? [] : [{ id, data: lines.slice(1).map((line) => line.slice('data: '.length)) }];
  });
}

describe('filters of events', () => {
  test.each([
    ['stage=check', [7, 8, 9]],
    ['stage=build', [2, 3, 4, 5, 6]],
    ['output=only', [2, 3, 4, 5, 7, 8]],
    ['output=false', [1, 6, 9, 10]],
    ['output=only&stream=stderr', [5]],
    ['since=6', [7, 8, 9, 10]],
    ['since=2026-11-23T10:00:06%2B02:00', [7, 8, 9, 10]],
    ['since=54s', [7, 8, 9, 10]],
    ['grep=needle', [4, 7]],
    ['grep=needle&stage=check', [7]],
    ['grep=needle&after=3', [4, 7]],
    ['grep=needle&after=4', [7]],
    [`grep=${encodeURIComponent('(a+)+$')}`, [9]],
    ['grep=a.c', []],
    ['tail=2', [9, 10]],
    ['tail=0', []],
    ['tail=100', [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]],
    ['tail=1&output=only&stage=build', [5]],
    ['tail=2&after=9', [10]],
    ['after=2&since=6', [7, 8, 9, 10]],
  ])('%s selects the events %j', async (query, seqs) => {
    expect(await seqsOf(query)).toEqual(seqs);
  });

  test('a stream with filters keeps `seq` as its id, and resumes after it without its tail', async () => {
    const read = async (query: string, after?: number): Promise<readonly string[]> => {
      const headers = { ...SSE, ...(after === undefined ? {} : { 'last-event-id': String(after) }) };
      const text = await (await get(`events?${query}`, headers)).text();
      expect(text).toContain('event: end\n');
      return parseSse(text).map(({ id }) => id);
    };
    expect(await read('grep=needle')).toEqual(['4', '7']);
    expect(await read('grep=needle', 4)).toEqual(['7']);
    expect(await read('output=only&tail=1')).toEqual(['8']);
    expect(await read('output=only&tail=1', 4)).toEqual(['5', '7', '8']);
  });
});

describe('logs', () => {
  test('the text has the lines of `voidbox logs`, and no colours', async () => {
    expect(await linesOf('')).toEqual([
      '==> run admitted on host h, 2 stages',
      '[build] one',
      '[build] two',
      '[build] three has a needle',
      '[build] four',
      '[build] oops',
      expect.stringMatching(/^==> build succeeded in /),
      '[check] five with a needle',
      '[check] six',
      '[check] (a+)+$ 7',
      expect.stringMatching(/^==> check succeeded in /),
      '==> run succeeded',
    ]);
  });

  test.each([
    ['stage=check', ['five with a needle', 'six', '(a+)+$ 7']],
    ['output=only&tail=2', ['[check] six', '[check] (a+)+$ 7']],
    ['grep=needle', ['[build] three has a needle', '[check] five with a needle']],
    ['grep=build&stage=build', []],
    ['stream=stderr&output=only', ['[build] oops']],
    ['stage=build&timestamps=true&tail=1', ['2026-11-23T08:00:04.000Z oops']],
    ['output=only&since=2026-11-23T08:00:06Z', ['[check] five with a needle', '[check] six', '[check] (a+)+$ 7']],
    ['tail=0', []],
  ])('%s selects the lines %j', async (query, lines) => {
    expect(await linesOf(query)).toEqual(lines);
  });

  test('a stream has the lines that each event completes, and resumes in the middle of a line', async () => {
    const read = async (headers: Readonly<Record<string, string>> = {}) =>
      parseSse(await (await get('logs?stage=build', { ...SSE, ...headers })).text());
    const all = await read();
    expect(all).toEqual([
      { id: '2', data: ['one', 'two'] },
      { id: '4', data: ['three has a needle', 'four'] },
      { id: '5', data: ['oops'] },
    ]);
    expect(await read({ 'last-event-id': '3' })).toEqual(all.slice(1));
  });

  test('a stream of an open run begins with its tail, and gets each later line once', async () => {
    const stores = await leaveRun(EVENTS.slice(0, 3));
    const response = await get('logs?tail=1&output=only', SSE, stores);
    const stream = response.body!.getReader();
    const readText = async (): Promise<string> => {
      for (;;) {
        const text = Buffer.from((await stream.read()).value!).toString();
        if (text !== ':\n\n') return text;
      }
    };
    expect(await readText()).toBe('id: 2\ndata: [build] two\n\n');
    await stores.events.append('r', EVENTS.slice(3, 4));
    expect(await readText()).toBe('id: 4\ndata: [build] three has a needle\ndata: [build] four\n\n');
    await stream.cancel();
  });

  test('escape sequences of a guest do not leave the service', async () => {
    const stores = await leaveRun([createAdmitted(), createOutput(1, 'build', 'a\u001b[2Jb\rdata: x\n')]);
    const text = await (await get('logs', {}, stores)).text();
    for (const control of ['\u001b', '\r']) expect(text).not.toContain(control);
  });
});

describe('limits of filters', () => {
  const refuse = async (path: string): Promise<string> => {
    const problem = ProblemSchema.parse(await (await get(path)).json());
    expect(problem.status).toBe(400);
    return problem.detail;
  };

  test.each(['events', 'logs'])('of %s', async (route) => {
    const isAccepted = async (query: string): Promise<boolean> => (await get(`${route}?${query}`)).status === 200;
    expect(await isAccepted(`grep=${'x'.repeat(GREP_CHARACTERS)}`)).toBe(true);
    expect(await refuse(`${route}?grep=${'x'.repeat(GREP_CHARACTERS + 1)}`)).toContain('256');
    expect(await refuse(`${route}?grep=`)).toContain('`grep`');
    expect(await isAccepted(`tail=${MAX_TAIL_LINES}`)).toBe(true);
    expect(await refuse(`${route}?tail=${MAX_TAIL_LINES + 1}`)).toContain('10000');
    expect(await refuse(`${route}?since=soon`)).toContain('an age');
    expect(await refuse(`${route}?since=${'1'.repeat(SINCE_CHARACTERS + 1)}`)).toContain('64');
    expect(await refuse(`${route}?stage=${'x'.repeat(STAGE_CHARACTERS)}`)).toContain('no stage');
    expect(await refuse(`${route}?stage=${'x'.repeat(STAGE_CHARACTERS + 1)}`)).toContain('1000');
    expect(await refuse(`${route}?stage=gone`)).toBe('run r has no stage `gone`');
    expect(await refuse(`${route}?output=no`)).toContain('`output`');
    expect(await refuse(`${route}?lines=1`)).toContain('lines');
  });
});
