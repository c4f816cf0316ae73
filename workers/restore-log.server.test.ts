/** What a power cut leaves: the server remembers stages that the log of their run, or the artifacts, do not have. */
import { readFile, rm, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { type StageResult, toStageResult } from '../domain/run/stage-result.ts';
import { createMockBackend } from '../sandbox/mock/backend.ts';
import { artifactPath } from '../store/file/artifact-store.ts';
import { artifactsDir } from '../store/file/layout.ts';
import { awaitOutcome, startRun } from '../client/runs.ts';
import { restoreLogs } from './restore-log.ts';
import { temporalCliForTests } from '../test/rig/temporal-cli.ts';
import { startTestStack, type TestStack } from '../test/rig/test-worker.ts';
import type { RunningWorkers } from './workers.ts';

let held = true;
const backend = createMockBackend({
  programs: {
    /** Until it is let go. */
    hold: async ({ killed }) => {
      while (held) await sleep(20, undefined, { signal: killed });
      return 0;
    },
  },
});
let stack: TestStack;
let worker: RunningWorkers | null = null;
const said: string[] = [];

beforeAll(async () => {
  stack = await startTestStack(backend, await temporalCliForTests(), () => undefined);
}, 60_000);
afterEach(stopWorker);
afterAll(() => stack?.stop());

async function stopWorker(): Promise<void> {
  worker?.shutdown();
  await worker?.ended;
  await worker?.close();
  worker = null;
}

/** `first` has ended and the worker is gone while `last` holds the run open. */
async function interrupted(runId: string, last: string): Promise<StageResult> {
  held = true;
  said.length = 0;
  worker = await stack.startWorker();
  const spec = `kind: workflow\nname: cut\nsandbox: { mode: mock, isolation: none }\nworkflow:\n  steps:\n    - { name: first, run: { program: echo, args: [one] } }\n    - { name: between, run: { program: hold }, depends_on: [first] }\n${last}`;
  await startRun(stack.runs.client, { runId, request: { spec }, summary: 'test' });
  await vi.waitFor(
    async () => expect(JSON.stringify(await stack.eventsOf(runId))).toContain('stage/between/0/1/started'),
    { timeout: 20_000, interval: 50 },
  );
  await stopWorker();
  const finished = (await stack.eventsOf(runId)).find(({ id }) => id === 'stage/first/0/1/finished')!;
  return toStageResult((finished.body as { readonly result: StageResult }).result);
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
  const { events, reader, records } = stack.deps;
  await restoreLogs({ client: stack.runs.client, events, reader, records, log: (_level, line) => said.push(line) }, [
    runId,
  ]);
  held = false;
  worker = await stack.startWorker();
}

const LAST = '    - { name: last, run: { program: cat, stdin_from: first }, depends_on: [between] }\n';

test('a result that the log lost is written again, and the run says so', { timeout: 60_000 }, async () => {
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

test('a log that has all that the server remembers stays as it is', { timeout: 60_000 }, async () => {
  await interrupted('whole-log', LAST);
  const before = await stack.eventsOf('whole-log');
  await restoreLogs(
    {
      client: stack.runs.client,
      events: stack.deps.events,
      reader: stack.deps.reader,
      records: stack.deps.records,
      log: (_level, line) => said.push(line),
    },
    ['whole-log'],
  );
  expect(await stack.eventsOf('whole-log')).toEqual(before);
  expect(said).toEqual([]);
  await goOn('whole-log');
  expect(await awaitOutcome(stack.runs.client, 'whole-log')).toMatchObject({ state: 'succeeded' });
});

test('an artifact that is gone is named by the stage that needs it', { timeout: 60_000 }, async () => {
  const { output } = await interrupted('cut-artifact', LAST);
  await rm(artifactPath(artifactsDir(stack.stateDir), output!.sha256));
  await goOn('cut-artifact');
  expect(await awaitOutcome(stack.runs.client, 'cut-artifact')).toMatchObject({
    state: 'failed',
    failedStage: 'last',
    failure: { code: 'store/damaged', message: expect.stringContaining(output!.sha256) },
  });
});
