/** The payload of a delivery that the end of a run causes. */
import { beforeEach, expect, test } from 'vitest';
import type { RunEventBody } from '../../domain/run/event.ts';
import type { DataRef } from '../../domain/plan/plan.ts';
import { MOST_PAYLOAD_BYTES } from '../../domain/delivery/delivery.ts';
import type { StageOutput } from '../../store/run-outputs.ts';
import type { Stores } from '../../store/stores.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import { EXIT_FAILURE } from '../../test/rig/runs/run-events.ts';
import { stageResult } from '../../test/rig/runs/stage-results.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import { describeRun, readRunEndEvent, RUN_END_LIMITS, type RunEndPayload } from './run-end-event.ts';

const ENDED = { id: 'd1', deployment: 'build', version: 3, runId: 'build-d1' };
let stores: Stores;
beforeEach(() => void (stores = openMemoryStores(new MemoryPlace())));

async function* chunksOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(bytes);
}

async function put(content: string | Uint8Array, mediaType = 'text/plain'): Promise<DataRef> {
  return await stores.artifacts.put(chunksOf(Buffer.from(content)), mediaType);
}

function finish(stage: string, change: Parameters<typeof stageResult>[1]): RunEventBody {
  const execKey = `${stage}/0/1`;
  return { type: 'stage-finished', stage, execKey, result: stageResult(execKey, change) };
}

async function read(): Promise<RunEndPayload> {
  const event = await readRunEndEvent(ENDED, createTestMachine(stores));
  return JSON.parse(Buffer.from(event!.body).toString()) as RunEndPayload;
}

test('it has the facts of the run, small texts, and references of all outputs', async () => {
  const output = await put('{"ok": true}\n', 'application/json');
  const tar = await put('no tar', 'application/x-tar');
  const binary = await put(new Uint8Array([0xff, 0]));
  const failed = { code: EXIT_FAILURE.code, message: 'm'.repeat(4_000), stderrTail: 'secret tail' } as const;
  await stores.events.append(ENDED.runId, [
    {
      id: 'a',
      atMs: 5,
      body: finish('a', { output, outputs: { report: tar } }),
    },
    { id: 'b', atMs: 6, body: finish('constructor', { output: binary }) },
    {
      id: 'c',
      atMs: 7,
      body: finish('c', { failure: failed, partial: { report: tar } }),
    },
    {
      id: 'end',
      atMs: 9,
      body: { type: 'run-finished', outcome: { state: 'failed', failedStage: 'c', failure: failed, output } },
    },
  ]);
  const payload = await read();
  const text = { sha256: output.sha256, sizeBytes: 13, mediaType: 'application/json', text: '{"ok": true}\n' };
  expect(payload).toMatchObject({
    run: 'build-d1',
    deployment: 'build',
    version: 3,
    delivery: 'd1',
    state: 'failed',
    finishedAt: '1970-01-01T00:00:00.009Z',
    failure: { stage: 'c', code: EXIT_FAILURE.code, message: 'm'.repeat(RUN_END_LIMITS.messageCharacters) },
    output: text,
    outputsLeftOut: 0,
  });
  expect(Object.keys(payload.stages)).toEqual(['a', 'constructor']);
  expect(payload.stages['a']).toEqual({
    output: text,
    outputs: { report: { sha256: tar.sha256, sizeBytes: 6, mediaType: 'application/x-tar', text: null } },
  });
  expect(payload.stages['constructor']!.output).toMatchObject({ sha256: binary.sha256, text: null });
  expect(JSON.stringify(payload)).not.toContain('secret tail');
});

test('a run that has not ended is no event', async () => {
  await stores.events.append(ENDED.runId, [
    { id: 'n', atMs: 1, body: { type: 'notice', level: 'info', message: 'x' } },
  ]);
  expect(await readRunEndEvent(ENDED, createTestMachine(stores))).toBeNull();
  expect(await readRunEndEvent({ ...ENDED, runId: null }, createTestMachine(stores))).toBeNull();
});

test('a run that the store does not contain was terminated', async () => {
  const event = await readRunEndEvent(ENDED, createTestMachine(stores));
  expect(event!.state).toBe('terminated');
  expect(await read()).toMatchObject({ failure: { code: 'trigger/run-lost' }, stages: {}, startedAt: null });
});

test('a run whose events are damaged has failed', async () => {
  const view = { outcome: null, damage: 'line 3 is cut', startedAtMs: 1, finishedAtMs: null };
  const payload = await describeRun(ENDED, view, [], stores.artifacts);
  expect(payload).toMatchObject({ state: 'failed', failure: { code: 'store/damaged', message: 'line 3 is cut' } });
});

const DONE = {
  outcome: { state: 'succeeded', failedStage: null, failure: null, output: null },
  damage: null,
  startedAtMs: 10,
  finishedAtMs: 3,
} as const;

function outputOf(stage: string, ref: DataRef): StageOutput {
  return { stage, label: stage, instance: [], name: null, ref };
}

test('a text has a limit, as JSON writes it', async () => {
  const describe = async (content: string) => {
    const payload = await describeRun(ENDED, DONE, [outputOf('a', await put(content))], stores.artifacts);
    expect(payload.durationMs).toBe(0);
    return payload.stages['a']!.output!.text;
  };
  // Two quotes belong to the text.
  const most = 'x'.repeat(RUN_END_LIMITS.textBytes - 2);
  expect(await describe(most)).toBe(most);
  expect(await describe(`${most}x`)).toBeNull();
  expect(await describe('\0'.repeat(Math.ceil(RUN_END_LIMITS.textBytes / 6)))).toBeNull();
});

test('outputs and their texts have a limit together, and the payload of a hostile run fits', async () => {
  const ref = await put('\0'.repeat((RUN_END_LIMITS.textBytes - 2) / 6));
  const name = 'n'.repeat(512);
  const outputs = Array.from({ length: RUN_END_LIMITS.outputs + 3 }, (_value, index) =>
    outputOf(`${name}${index}`, ref),
  );
  const payload = await describeRun(ENDED, DONE, outputs, stores.artifacts);
  expect(payload.outputsLeftOut).toBe(3);
  expect(Object.keys(payload.stages)).toHaveLength(RUN_END_LIMITS.outputs);
  const texts = Object.values(payload.stages).filter(({ output }) => output!.text !== null);
  expect(texts.length).toBe(RUN_END_LIMITS.allTextBytes / RUN_END_LIMITS.textBytes);
  expect(Buffer.byteLength(JSON.stringify(payload))).toBeLessThan(MOST_PAYLOAD_BYTES);
});
