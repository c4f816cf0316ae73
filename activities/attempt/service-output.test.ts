/** Services: their publications, the interval between them, and their results. VMs are mocks, stores are files. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ActivityCancellationDetails } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { SERVICE_TIMEOUT_MS } from '../../domain/plan/defaults.ts';
import type { DataRef } from '../../domain/plan/plan.ts';
import type { NewRunEvent, RunEvent, RunEventBody } from '../../domain/run/event.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { createRedactor } from '../../domain/security/redactor.ts';
import { createMockBackend, type MockBackend } from '../../sandbox/mock/backend.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import { mockWorkerDeps, plainRequest, plainStage } from '../../test/rig/runs/mock-worker.ts';
import type { ActivityDeps } from '../deps.ts';
import type { Exec, Sandbox } from '../ports/sandbox.ts';
import type { StageRequest, VmStage } from '../calls/requests.ts';
import { runStage } from './run-stage.ts';
import { createServiceOutput, collectAtCancel, SERVICE_LIMITS, type ServiceContext } from './service-output.ts';

const RUN = 'run-1';
const FILE = '/workspace/state.json';
const STARTED_MS = 1_000_000;

const service = (change: Partial<VmStage> = {}): VmStage => ({
  ...plainStage('serve', 'serve', ['serve'], change),
  work: {
    kind: 'command',
    program: 'serve',
    args: [],
    cwd: '/workspace',
    env: [],
    stdin: { kind: 'none' },
    service: true,
  },
  outputFile: FILE,
  timeoutMs: SERVICE_TIMEOUT_MS,
  ...change,
});

function requestOf(stage: VmStage): StageRequest {
  return plainRequest(RUN, stage);
}

describe('what a service publishes', () => {
  let nowMs: number;
  let file: string | null | Error;
  let hasRoom: boolean;
  let reads: number;
  let events: NewRunEvent[];
  let stored: string[];
  beforeEach(() => {
    nowMs = STARTED_MS;
    file = null;
    hasRoom = true;
    reads = 0;
    stored = [];
    events = [
      {
        id: 'stage/serve/0/1/started',
        atMs: STARTED_MS,
        body: { type: 'stage-started', stage: 'serve', execKey: 'serve/0/1', attempt: 1 },
      },
    ];
  });

  async function* whole(text: string): AsyncIterable<Uint8Array> {
    yield Buffer.from(text);
  }
  const contextOf = (stage: VmStage): ServiceContext => ({
    deps: {
      now: () => nowMs,
      disk: { hasRoomForOutput: () => hasRoom, isFull: () => false, limitMs: 1 },
      checkOutput: async (_schema: unknown, text: string | null) =>
        text === 'half' ? { problem: 'it is no JSON' } : { fits: true },
      events: {
        append: async (_: string, added: readonly NewRunEvent[]) => {
          const fresh = added.filter(({ id }) => !events.some((known) => known.id === id));
          events.push(...fresh);
          return fresh.length;
        },
        find: async (_: string, id: string) => (events.find((event) => event.id === id) as RunEvent) ?? null,
      },
      artifacts: {
        put: async (bytes: AsyncIterable<Uint8Array>, mediaType: string): Promise<DataRef> => {
          let text = '';
          for await (const part of bytes) text += Buffer.from(part).toString();
          stored.push(text);
          return { sha256: text, sizeBytes: text.length, mediaType };
        },
      },
    } as unknown as ServiceContext['deps'],
    request: requestOf(stage),
    redactor: createRedactor([{ name: 'KEY', value: 'sk-0123456789abcdef' }]),
    sandbox: {
      facts: { fence: 1 },
      readFile: async () => {
        reads += 1;
        if (file instanceof Error) throw file;
        return file === null ? null : { sizeBytes: file.length, bytes: whole(file) };
      },
    } as unknown as Sandbox,
  });
  const soon = new AbortController().signal;
  const published = (): readonly string[] =>
    events.flatMap(({ body }) => (body.type === 'stage-published' ? [body.output.sha256] : []));
  const notices = (): readonly string[] => events.flatMap(({ body }) => (body.type === 'notice' ? [body.message] : []));

  test('is the redacted content of its file, once for each change', async () => {
    const output = createServiceOutput(contextOf(service()))!;
    await output.look(soon);
    file = 'one sk-0123456789abcdef';
    for (let look = 0; look < 3; look += 1) await output.look(soon);
    file = 'two';
    await output.look(soon);
    expect(published()).toEqual(['one [redacted]', 'two']);
    expect(stored).toEqual(['one [redacted]', 'two']);
  });

  test('a worker that takes over continues the numbers, and does not publish the same content again', async () => {
    file = 'one';
    await createServiceOutput(contextOf(service()))!.look(soon);
    const next = createServiceOutput(contextOf(service()))!;
    await next.look(soon);
    file = 'two';
    await next.look(soon);
    expect(published()).toEqual(['one', 'two']);
    expect(events.map(({ id }) => id).slice(1)).toEqual(['stage/serve/0/1/published/1', 'stage/serve/0/1/published/2']);
  });

  test('is further apart the longer it serves, so that its events do not grow with time', async () => {
    const output = createServiceOutput(contextOf(service()))!;
    // The file changes all the time for ten years, and is checked whenever a publication could be due.
    let step: number = SERVICE_LIMITS.intervalMs;
    for (let look = 0; nowMs < STARTED_MS + SERVICE_TIMEOUT_MS; look += 1) {
      file = `look ${look}`;
      await output.look(soon);
      step = Math.max(SERVICE_LIMITS.intervalMs, (nowMs - STARTED_MS) / SERVICE_LIMITS.partOfAge / 2);
      nowMs += step;
    }
    expect(published().length).toBeGreaterThan(1_000);
    expect(published().length).toBeLessThan(1_700);
    const day = 24 * 3_600_000;
    const times = events.slice(1).map(({ atMs }) => atMs - STARTED_MS);
    const afterADay = times.findIndex((time) => time > day);
    expect(times[afterADay]! - times[afterADay - 1]!, 'a hundredth, and the way of a look').toBeLessThan(day / 60);
    // A file that changes rarely is published at once.
    nowMs += day * 365;
    file = 'at last';
    await output.look(soon);
    expect(published().at(-1)).toBe('at last');
  });

  test('publishes no file above 1 MiB, no output that does not fit its schema, and nothing on a full disk; one notice says why', async () => {
    const output = createServiceOutput(contextOf(service({ outputSchema: { type: 'object' } })))!;
    file = 'x'.repeat(SERVICE_LIMITS.publishedBytes + 1);
    await output.look(soon);
    file = 'half';
    await output.look(soon);
    hasRoom = false;
    file = '{}';
    await output.look(soon);
    expect(published()).toEqual([]);
    expect(stored, 'nothing that is not told takes room').toEqual([]);
    expect(notices()).toEqual([
      'the output of stage serve could not be published in its current state: /workspace/state.json has more than 1 MiB',
    ]);
    hasRoom = true;
    file = 'y'.repeat(SERVICE_LIMITS.publishedBytes);
    await output.look(soon);
    expect(published()).toHaveLength(1);
  });

  test('a guest that cannot be read for a while only delays publications', async () => {
    const output = createServiceOutput(contextOf(service()))!;
    file = new CodedError('vm/lost', 'gone');
    await output.look(soon);
    expect(notices(), 'who reads its output says it').toEqual([]);
    file = new Error('busy');
    await output.look(soon);
    file = 'there';
    await output.look(soon);
    expect(notices()).toEqual(['the output of stage serve could not be published in its current state: busy']);
    expect(published()).toEqual(['there']);
    expect(reads).toBe(3);
  });

  test('only services with an output file publish output', () => {
    expect(createServiceOutput(contextOf(plainStage('serve', 'serve', ['true'], { outputFile: FILE })))).toBeNull();
    expect(createServiceOutput(contextOf(service({ outputFile: null })))).toBeNull();
  });
});

describe('an attempt of a service', () => {
  let stateDir: string;
  let backend: MockBackend;
  let stores: Stores;
  let started: number;
  /** The contents that it writes, one after the other. Then it ends with the code, or continues to serve. */
  let writes: readonly string[];
  let exitCode: number | null;
  let isPolite: boolean;
  beforeEach(async () => {
    stateDir = mkdtempSync(join(tmpdir(), 'voidbox-service-'));
    started = 0;
    writes = ['{"ready":true}'];
    exitCode = null;
    isPolite = false;
    backend = createMockBackend({
      programs: {
        serve: async ({ files, killed, write }) => {
          started += 1;
          await write('stdout', 'serving\n');
          for (const text of writes) {
            files.write(FILE, Buffer.from(text));
            await sleep(50, undefined, { signal: killed });
          }
          if (exitCode !== null) return exitCode;
          await new Promise((resolve) => killed.addEventListener('abort', resolve, { once: true }));
          if (isPolite) files.write(FILE, Buffer.from('{"bye":true}'));
          return 0;
        },
      },
    });
    stores = await openStores({ stateDir });
  });
  afterEach(async () => {
    await backend.release({ runId: RUN, scope: 'serve', instance: [], generation: 0 });
    await stores.close();
    rmSync(stateDir, { recursive: true, force: true });
  });

  function begin(stage = service()): {
    readonly result: Promise<StageResult>;
    cancel(details: ConstructorParameters<typeof ActivityCancellationDetails>[0]): void;
  } {
    const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
    const deps = mockWorkerDeps({ stateDir, stores, backend });
    const result = environment.run<[ActivityDeps, StageRequest], StageResult, typeof runStage>(
      runStage,
      deps,
      requestOf(stage),
    );
    result.catch(() => undefined);
    return { result, cancel: (details) => environment.cancel('CANCELLED', new ActivityCancellationDetails(details)) };
  }
  async function bodies(): Promise<readonly RunEventBody[]> {
    const all: RunEventBody[] = [];
    for await (const { body } of stores.reader.read(RUN, 0, { output: false })) all.push(body);
    return all;
  }
  async function untilPublished(times: number): Promise<readonly DataRef[]> {
    for (;;) {
      const refs = (await bodies()).flatMap((body) => (body.type === 'stage-published' ? [body.output] : []));
      if (refs.length >= times) return refs;
      await sleep(20);
    }
  }
  async function textOf(ref: DataRef | null): Promise<string | null> {
    if (ref === null) return null;
    let text = '';
    for await (const part of stores.artifacts.open(ref)) text += Buffer.from(part).toString();
    return text;
  }

  test('continues until it is cancelled, publishes its output, and ends as cancelled with the last content of its file', async () => {
    const { result, cancel } = begin();
    const [first] = await untilPublished(1);
    expect(await textOf(first!)).toBe('{"ready":true}');
    expect(first!.mediaType).toBe('application/json');
    isPolite = true;
    cancel({ cancelRequested: true });
    const ended = await result;
    expect(ended).toMatchObject({ outcome: 'cancelled', failure: { code: 'stage/cancelled' } });
    expect(await textOf(ended.output)).toMatch(/^\{"(bye|ready)":true\}$/);
    expect((await bodies()).map(({ type }) => type)).toEqual([
      'vm-starting',
      'vm-ready',
      'stage-started',
      'stage-published',
      'stage-finished',
      'vm-stopped',
    ]);
  });

  test('whose mounts cannot be written back is cancelled with its output and a notice', async () => {
    const events: NewRunEvent[] = [];
    const ref = { sha256: 'a', sizeBytes: 2, mediaType: 'application/json' };
    const context = {
      deps: {
        now: () => 0,
        artifacts: { put: async () => ref },
        events: { append: async (_: string, added: readonly NewRunEvent[]) => events.push(...added) },
      },
      request: requestOf(service()),
      redactor: createRedactor([]),
      sandbox: { readFile: async () => ({ sizeBytes: 0, bytes: (async function* () {})() }) },
    } as unknown as ServiceContext;
    const refused = async () => ({ code: 'stage/bad-output', message: 'both changed a.txt' }) as const;
    const left = await collectAtCancel(context, {} as Exec, refused, new AbortController().signal);
    expect(left).toEqual({ output: ref });
    expect(events.map(({ body }) => body)).toEqual([
      {
        type: 'notice',
        level: 'warning',
        message: 'the writable mounts of stage serve are not copied back: both changed a.txt',
      },
    ]);
  });

  test('is taken over by the next worker, and not started again', async () => {
    const first = begin();
    await untilPublished(1);
    first.cancel({ workerShutdown: true });
    await expect(first.result).rejects.toMatchObject({ type: 'attempt/detached' });
    const second = begin();
    while (!(await bodies()).some(({ type }) => type === 'stage-reattached')) await sleep(20);
    second.cancel({ cancelRequested: true });
    expect(await second.result).toMatchObject({ outcome: 'cancelled', output: { mediaType: 'application/json' } });
    expect(started).toBe(1);
    expect((await bodies()).filter(({ type }) => type === 'stage-published')).toHaveLength(1);
  });

  test('whose VM is lost while it is cancelled returns its last publication', async () => {
    const { result, cancel } = begin();
    await untilPublished(1);
    backend.lose({ runId: RUN, scope: 'serve', instance: [], generation: 0 });
    cancel({ cancelRequested: true });
    const ended = await result;
    expect(ended.outcome).toBe('cancelled');
    expect(await textOf(ended.output)).toBe('{"ready":true}');
  });

  test.each([
    [0, 'succeeded', null],
    [7, 'failed', 'stage/exit-nonzero'],
  ])('that ends on its own with exit code %i has %s', async (code, outcome, failure) => {
    exitCode = code;
    const ended = await begin().result;
    expect(ended.outcome).toBe(outcome);
    expect(ended.failure?.code ?? null).toBe(failure);
    expect(await textOf(ended.output)).toBe(code === 0 ? '{"ready":true}' : null);
  });
});
