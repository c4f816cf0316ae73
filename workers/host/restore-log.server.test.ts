/**
 * Tests the state after a power cut: the server remembers stages that the log of their run, or the artifacts, do not
 * have.
 */
import { readFile, rm, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { answerStage } from '../../client/runs/answers.ts';
import { awaitOutcome, startRun } from '../../client/runs/runs.ts';
import { restoreLogs } from './restore-log.ts';
import { temporalCliForTests } from '../../test/rig/servers/temporal-cli.ts';
import { startTestStack, type TestStack } from '../../test/rig/servers/test-worker.ts';
import type { RunningWorkers } from '../workers.ts';

let held = true;
const backend = createMockBackend({
  programs: {
    /** Until it is let go. */
    hold: async ({ killed }) => {
      while (held) await sleep(20, undefined, { signal: killed });
      return 0;
    },
    /** The second item fails, and so do all its attempts. */
    'echo-or-fail': async ({ env, write }) => {
      await write('stdout', '"done"');
      return env['VOIDBOX_ITEM_INDEX'] === '1' ? 3 : 0;
    },
  },
});
let stack: TestStack;
let worker: RunningWorkers | null = null;
const said: string[] = [];

beforeAll(async () => {
  stack = await startTestStack(backend, await temporalCliForTests(), () => undefined);
}, 300_000);
afterEach(stopWorker);
afterAll(() => stack?.stop());

async function stopWorker(): Promise<void> {
  worker?.shutdown();
  await worker?.ended;
  await worker?.close();
  worker = null;
}

/** `first` has ended and the worker is gone while `between` holds the run open; what comes last may wait for both. */
async function interrupted(runId: string, last: string, first = 'program: echo, args: [one]'): Promise<StageResult> {
  held = true;
  said.length = 0;
  worker = await stack.startWorker();
  const spec = `kind: workflow\nname: cut\nsandbox: { mode: mock, isolation: none }\nworkflow:\n  steps:\n    - { name: first, run: { ${first} } }\n    - { name: between, run: { program: hold }${last.includes('depends_on') ? ', depends_on: [first]' : ''} }\n${last}`;
  await startRun(stack.runs.client, { runId, request: { spec }, summary: 'test' });
  await vi.waitFor(
    async () => {
      const events = JSON.stringify(await stack.eventsOf(runId));
      for (const id of ['stage/between/0/1/started', 'stage/first/0/1/finished']) expect(events).toContain(id);
    },
    { timeout: 20_000, interval: 50 },
  );
  await stopWorker();
  const finished = (await stack.eventsOf(runId)).find(({ id }) => id === 'stage/first/0/1/finished')!;
  return (finished.body as { readonly result: StageResult }).result;
}

/** The log ends before the first line with this text, as after a power cut. */
async function cutLogBefore(runId: string, text: string): Promise<void> {
  const path = join(stack.stateDir, 'runs', runId, 'events.jsonl');
  const log = await readFile(path, 'utf8');
  const at = log.slice(0, log.indexOf(text)).lastIndexOf('\n') + 1;
  expect(at).toBeGreaterThan(0);
  await truncate(path, Buffer.byteLength(log.slice(0, at)));
  // No worker lives through a power cut: what this process knows of the log goes with an append that finds another one.
  await expect(stack.deps.events.append(runId, [])).rejects.toMatchObject({ code: 'store/damaged' });
}

async function goOn(runId: string): Promise<void> {
  const { events, reader, records, marks } = stack.deps;
  await restoreLogs(
    { client: stack.runs.client, events, reader, records, marks, log: (_level, line) => said.push(line) },
    [runId],
  );
  held = false;
  worker = await stack.startWorker();
}

const LAST = '    - { name: last, run: { program: cat, stdin_from: first }, depends_on: [between] }\n';

test('a result that the log lost is written again, and the run reports that', { timeout: 300_000 }, async () => {
  const lost = await interrupted('cut-log', LAST);
  await cutLogBefore('cut-log', 'stage/first/0/1/started');
  expect(JSON.stringify(await stack.eventsOf('cut-log'))).not.toContain('stage/first/');
  await goOn('cut-log');
  expect(await awaitOutcome(stack.runs.client, 'cut-log')).toMatchObject({ state: 'succeeded' });
  const events = await stack.eventsOf('cut-log');
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
  const results = events.flatMap(({ body }) => (body.type === 'stage-finished' ? [body.result] : []));
  expect(results.map(({ stage }) => stage)).toEqual(['first', 'between', 'last']);
  expect(results[0]).toEqual(lost);
  expect(events.filter(({ body }) => body.type === 'stage-started').map(({ id }) => id)).toEqual([
    'stage/first/0/1/started',
    'stage/between/0/1/started',
    'stage/last/0/1/started',
  ]);
  const notices = events.flatMap(({ body }) => (body.type === 'notice' ? [body] : []));
  expect(notices).toEqual([
    {
      type: 'notice',
      level: 'warning',
      message: expect.stringContaining('the log lacked results of first/0/1 that the server remembers'),
    },
  ]);
  expect(said).toEqual([expect.stringContaining('results of first/0/1 were missing in its log')]);
});

test('so is one of a stage that failed', { timeout: 300_000 }, async () => {
  const lost = await interrupted('cut-failure', '  output_step: between\n', "program: 'false'");
  expect(lost.outcome).toBe('failed');
  await cutLogBefore('cut-failure', 'stage/first/0/1/finished');
  expect(JSON.stringify(await stack.eventsOf('cut-failure'))).not.toContain('stage/first/0/1/finished');
  await goOn('cut-failure');
  expect(await awaitOutcome(stack.runs.client, 'cut-failure')).toMatchObject({
    state: 'failed',
    failedStage: 'first',
    failure: lost.failure,
  });
  const results = (await stack.eventsOf('cut-failure')).flatMap(({ body }) =>
    body.type === 'stage-finished' && body.stage === 'first' ? [body.result] : [],
  );
  expect(results).toEqual([lost]);
  expect(said).toEqual([expect.stringContaining('results of first/0/1')]);
});

test('a log that has all that the server remembers stays as it is', { timeout: 300_000 }, async () => {
  await interrupted('whole-log', LAST);
  const before = await stack.eventsOf('whole-log');
  await restoreLogs(
    {
      client: stack.runs.client,
      events: stack.deps.events,
      reader: stack.deps.reader,
      records: stack.deps.records,
      marks: stack.deps.marks,
      log: (_level, line) => said.push(line),
    },
    ['whole-log'],
  );
  expect(await stack.eventsOf('whole-log')).toEqual(before);
  expect(said).toEqual([]);
  await goOn('whole-log');
  expect(await awaitOutcome(stack.runs.client, 'whole-log')).toMatchObject({ state: 'succeeded' });
});

test('an artifact that is gone is named by the stage that needs it', { timeout: 300_000 }, async () => {
  const { output } = await interrupted('cut-artifact', LAST);
  const { sha256 } = output!;
  await rm(join(stack.stateDir, 'artifacts', sha256.slice(0, 2), sha256));
  await goOn('cut-artifact');
  expect(await awaitOutcome(stack.runs.client, 'cut-artifact')).toMatchObject({
    state: 'failed',
    failedStage: 'last',
    failure: { code: 'store/damaged', message: expect.stringContaining(output!.sha256) },
  });
});

test('a question and its answer that the log lost are written again', async () => {
  const runId = 'question-lost';
  worker = await stack.startWorker();
  const steps = [
    '- { name: ok, approval: { message: "Go?", by: [ada] } }',
    '- { name: after, depends_on: [ok], approval: { message: "On?" } }',
  ];
  const spec = `kind: workflow\nname: asks\nworkflow:\n  steps:\n${steps.map((step) => `    ${step}\n`).join('')}`;
  await startRun(stack.runs.client, { runId, request: { spec }, summary: 'test' });
  const until = (text: string): Promise<void> =>
    vi.waitFor(async () => expect(JSON.stringify(await stack.eventsOf(runId))).toContain(text), { timeout: 20_000 });
  await until('stage/ok/0/1/asking');
  await answerStage(stack.runs.client, runId, { stage: 'ok', decision: 'approve', by: 'ada' });
  await until('stage/after/0/1/asking');
  await stopWorker();
  const before = (await stack.eventsOf(runId)).filter(({ id }) => id.startsWith('stage/'));
  await cutLogBefore(runId, 'stage/ok/0/1/asking');
  await goOn(runId);
  await until('stage/after/0/1/asking');
  const restored = (await stack.eventsOf(runId)).filter(({ id }) => id.startsWith('stage/'));
  expect(restored.map(({ id, body }) => [id, body])).toEqual(before.map(({ id, body }) => [id, body]));
  await answerStage(stack.runs.client, runId, { stage: 'after', decision: 'approve' });
  expect((await awaitOutcome(stack.runs.client, runId)).state).toBe('succeeded');
});

test('results of items are written again, also those that were tried twice', { timeout: 300_000 }, async () => {
  held = true;
  said.length = 0;
  worker = await stack.startWorker();
  const each =
    'name: each, for_each: [a, b, c], retry: { max_attempts: 2 }, allow_failures: 3, run: { program: echo-or-fail }';
  const spec = `kind: workflow\nname: cut\nsandbox: { mode: mock, isolation: none }\nworkflow:\n  output_step: each\n  steps:\n    - { ${each} }\n    - { name: between, run: { program: hold } }\n`;
  await startRun(stack.runs.client, { runId: 'cut-items', request: { spec }, summary: 'test' });
  const ids = async (): Promise<readonly string[]> => (await stack.eventsOf('cut-items')).map(({ id }) => id);
  await vi.waitFor(async () => expect(await ids()).toContain('stage/each/0/1/finished'), { timeout: 20_000 });
  await stopWorker();
  const isOfStage = (id: string): boolean => id.startsWith('stage/each/') && !id.endsWith('/reattached');
  const before = (await stack.eventsOf('cut-items')).filter(({ id }) => isOfStage(id));
  expect(before.map(({ id }) => id)).toEqual(expect.arrayContaining(['stage/each/each~1/2/finished']));
  await cutLogBefore('cut-items', 'stage/each/0/1/started');
  expect((await ids()).filter(isOfStage)).toEqual([]);
  await goOn('cut-items');
  expect(await awaitOutcome(stack.runs.client, 'cut-items')).toMatchObject({ state: 'succeeded' });
  const results = (events: typeof before): unknown =>
    Object.fromEntries(
      events.flatMap(({ body, id }) => (body.type === 'output' ? [] : [[id, { ...body, type: body.type }]])),
    );
  const after = (await stack.eventsOf('cut-items')).filter(({ id }) => isOfStage(id));
  expect(results(after)).toEqual(results(before));
  expect(said).toEqual([expect.stringContaining('each/each~1/2')]);
});

test('so is what was told with the question of a condition', { timeout: 300_000 }, async () => {
  held = true;
  worker = await stack.startWorker();
  const steps = [
    '{ name: gone, when: "1 > 2", run: { program: echo } }',
    '{ name: next, depends_on: [gone], when: "1 < 2", run: { program: hold } }',
  ];
  const spec = `kind: workflow\nname: cut\nsandbox: { mode: mock, isolation: none }\nworkflow:\n  steps:\n${steps.map((step) => `    - ${step}\n`).join('')}`;
  await startRun(stack.runs.client, { runId: 'cut-condition', request: { spec }, summary: 'test' });
  const text = async (): Promise<string> => JSON.stringify(await stack.eventsOf('cut-condition'));
  await vi.waitFor(async () => expect(await text()).toContain('stage/next/0/1/started'), { timeout: 20_000 });
  await stopWorker();
  const passed = (await stack.eventsOf('cut-condition')).find(({ body }) => body.type === 'stage-passed')!;
  await cutLogBefore('cut-condition', passed.id);
  await goOn('cut-condition');
  expect(await awaitOutcome(stack.runs.client, 'cut-condition')).toMatchObject({ state: 'succeeded' });
  const again = (await stack.eventsOf('cut-condition')).find(({ id }) => id === passed.id);
  expect(again?.body).toEqual(passed.body);
});
