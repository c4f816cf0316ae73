/** Tests what the last activity of a run makes, writes and keeps, also if it is called again. */
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { CodedError } from '../domain/errors/coded-error.ts';
import type { DataRef } from '../domain/plan/plan.ts';
import type { RunEvent, RunOutcome } from '../domain/run/event.ts';
import { createWritableMounts } from '../sandbox/mounts/writable-mounts.ts';
import { mountsDir } from '../store/state-folder.ts';
import { openStores } from '../store/open-stores.ts';
import type { Stores } from '../store/stores.ts';
import type { ActivityDeps } from './deps.ts';
import { finishAgain, finishRun } from './finish-run.ts';

const RUN = 'run-1';
const SUCCEEDED: RunOutcome = { state: 'succeeded', failedStage: null, failure: null, output: null };

let stateDir: string;
let stores: Stores;
let deps: ActivityDeps;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-finish-'));
  stores = await openStores({ stateDir });
  // `finishRun` uses no other dependency of a worker.
  deps = {
    ...stores,
    mounts: createWritableMounts((runId) => mountsDir(stateDir, runId)),
    now: () => 7,
  } as unknown as ActivityDeps;
});

afterEach(async () => {
  await stores.close();
  rmSync(stateDir, { recursive: true, force: true });
});

async function artifactOf(text: string): Promise<DataRef> {
  return stores.artifacts.put(
    (async function* () {
      yield Buffer.from(text);
    })(),
    'text/plain',
  );
}

async function textOf(ref: DataRef | null): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stores.artifacts.open(ref!)) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

async function written(): Promise<RunEvent[]> {
  const all: RunEvent[] = [];
  for await (const event of stores.reader.read(RUN, 0)) all.push(event);
  return all;
}

test('a merged output is one artifact, also if it is made again', async () => {
  const merge = [
    { name: 'b', output: await artifactOf('{"n": 1}\n') },
    { name: 'a', output: await artifactOf('plain "text"\n') },
    { name: 'empty', output: await artifactOf('') },
  ];
  const outcome = await finishRun(deps, { runId: RUN, outcome: SUCCEEDED, merge, events: [] });
  expect(await textOf(outcome.output)).toBe(
    '[{"name":"b","output":{"n": 1}\n},{"name":"a","output":"plain \\"text\\"\\n"},{"name":"empty","output":""}]',
  );
  expect(await finishRun(deps, { runId: RUN, outcome: SUCCEEDED, merge, events: [] })).toEqual(outcome);
  expect((await written()).map(({ id, body }) => [id, body])).toEqual([
    ['run/finished', { type: 'run-finished', outcome }],
  ]);
  expect(await stores.records.get(RUN, 'manifest')).toEqual({ version: 1, refs: [outcome.output] });
});

test('an output that needs no merge stays the same, and the manifest keeps it', async () => {
  const outcome = { ...SUCCEEDED, output: await artifactOf('done') };
  expect(await finishRun(deps, { runId: RUN, outcome, merge: null, events: [] })).toEqual(outcome);
  expect(await stores.records.get(RUN, 'manifest')).toEqual({ version: 1, refs: [outcome.output] });
});

test('a part that is too large to be merged fails the run and names itself', async () => {
  const merge = [{ name: 'big', output: { ...(await artifactOf('x')), sizeBytes: 64 * 1024 * 1024 + 1 } }];
  const outcome = await finishRun(deps, { runId: RUN, outcome: SUCCEEDED, merge, events: [] });
  expect(outcome).toMatchObject({
    state: 'failed',
    output: null,
    failure: { code: 'run/too-large', message: expect.stringMatching(/merged: the output of big has 67108865 bytes/) },
  });
  expect((await written()).at(-1)!.body).toEqual({ type: 'run-finished', outcome });
});

test('a run that failed already keeps its own reason', async () => {
  const failed: RunOutcome = {
    state: 'failed',
    failedStage: 'c',
    failure: { code: 'stage/exit-nonzero', message: 'exit code 1', stderrTail: '' },
    output: null,
  };
  const merge = [{ name: 'big', output: { ...(await artifactOf('x')), sizeBytes: 64 * 1024 * 1024 + 1 } }];
  expect(await finishRun(deps, { runId: RUN, outcome: failed, merge, events: [] })).toEqual(failed);
});

test('a merge of an output that is gone fails the run instead of retrying forever', async () => {
  const merge = [{ name: 'a', output: { sha256: '0'.repeat(64), sizeBytes: 1, mediaType: 'text/plain' } }];
  expect(await finishRun(deps, { runId: RUN, outcome: SUCCEEDED, merge, events: [] })).toMatchObject({
    state: 'failed',
    failure: { code: 'store/damaged' },
  });
});

test('an error of the store is thrown for a retry and does not fail the run', async () => {
  const merge = [{ name: 'a', output: await artifactOf('x') }];
  const open = (): never => {
    throw new CodedError('store/io', 'the disk is away');
  };
  const broken = { ...deps, artifacts: { ...stores.artifacts, open } };
  await expect(finishRun(broken, { runId: RUN, outcome: SUCCEEDED, merge, events: [] })).rejects.toThrow(
    'the disk is away',
  );
  expect(await written()).toEqual([]);
});

test('the next attempt removes the mounts if an attempt died after the last event', async () => {
  const kept = mountsDir(stateDir, RUN);
  mkdirSync(kept, { recursive: true });
  expect(await finishAgain(deps, RUN, SUCCEEDED)).toEqual(SUCCEEDED);
  expect(existsSync(kept)).toBe(false);
});

test('`finishRun` drops the variables of the run before it writes the terminal event', async () => {
  await deps.hostVariables.put(RUN, { TOKEN: 'hunter2-hunter2' });
  const seen: unknown[] = [];
  const append: ActivityDeps['events']['append'] = async (...args) => {
    seen.push(await deps.hostVariables.get(RUN));
    return await stores.events.append(...args);
  };
  const told = { ...deps, events: { ...stores.events, append } };
  await finishRun(told, { runId: RUN, outcome: SUCCEEDED, merge: null, events: [] });
  expect(seen).toEqual([{}]);
});
