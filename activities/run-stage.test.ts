/** The windows in which an attempt can die, and what the next attempt makes of them. VMs are mocks, stores are files. */
import { Buffer } from 'node:buffer';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ActivityCancellationDetails, type ApplicationFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { CodedError } from '../domain/errors/coded-error.ts';
import type { CommandWork, JsonValue } from '../domain/plan/plan.ts';
import { EVENT_ID } from '../domain/run/event-id.ts';
import type { StageResult } from '../domain/run/stage-result.ts';
import { OUTPUT_SCHEMA_LIMITS } from '../domain/spec/output-schema.ts';
import { createMockBackend, type MockBackend } from '../sandbox/mock/backend.ts';
import { REMEMBERED_MS } from '../sandbox/mock/ended-vms.ts';
import { openStores, type Stores } from '../store/open-stores.ts';
import { LEAST_SANDBOX, mockWorkerDeps, plainRequest, plainStage } from '../test/rig/mock-worker.ts';
import type { VmStage, StageRequest } from './requests.ts';
import type { ActivityDeps } from './deps.ts';
import type { EventLog } from './ports/event-log.ts';
import type { Sandbox, VmUsage } from './ports/sandbox.ts';
import { runStage } from './run-stage.ts';

const RUN = 'run-1';
const KEY = { runId: RUN, scope: 'talk', instance: [], generation: 0 };
const TWENTY_LINES = Array.from({ length: 20 }, (_, index) => `line ${index + 1}\n`).join('');

let stateDir: string;
let backend: MockBackend;
let started: number;
let nowMs: number;
/** What commands found as their input. */
let inputs: string[];
let stores: Stores;
let events: EventLog;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-activities-'));
  started = 0;
  nowMs = 0;
  inputs = [];
  backend = createMockBackend({
    now: () => nowMs,
    programs: {
      /** Twenty lines, one each 20 ms. */
      lines: async ({ killed, write }) => {
        started += 1;
        for (let line = 1; line <= 20; line += 1) {
          await sleep(20, undefined, { signal: killed });
          await write('stdout', `line ${line}\n`);
        }
        return 0;
      },
      /** What it finds as its input, then as long as its VM lives. */
      'read-input': async ({ files, killed, write }) => {
        const node = files.find('/workspace/input.json');
        const text = node?.kind === 'file' ? node.body.toString() : 'no input';
        inputs.push(text);
        await write('stdout', text);
        await sleep(60_000, undefined, { signal: killed });
        return 0;
      },
      /** Its environment's TOKEN on both streams, in two writes each, then a failure. */
      colours: async ({ write }) => {
        await write('stderr', '\u001b[31merror:\u001b[0m no rule\n\u001b]0;a title\u0007');
        return 1;
      },
      /** A link that leads out, named by TOKEN, in what becomes an output. */
      'leak-by-name': async ({ env, files }) => {
        files.link('/workspace/output/link', `/${env['TOKEN']}`);
        return 0;
      },
      'print-json': async ({ env, write }) => {
        await write(
          'stdout',
          JSON.stringify({ ok: 'yes', [env['TOKEN'] ?? 'key']: 1, text: 'x'.repeat(Number(env['SIZE'] ?? 0)) }),
        );
        return 0;
      },
      leak: async ({ env, write }) => {
        const token = env['TOKEN'] ?? '';
        for (const stream of ['stdout', 'stderr'] as const) {
          await write(stream, `token ${token.slice(0, 4)}`);
          await write(stream, `${token.slice(4)} end\n`);
        }
        return 1;
      },
    },
  });
  stores = await openStores({ stateDir });
  ({ events } = stores);
});

afterEach(async () => {
  await backend.release(KEY);
  rmSync(stateDir, { recursive: true, force: true });
});

/** One worker process; a second call is another process on the same host. */
const processDeps = (change: Partial<ActivityDeps> = {}): ActivityDeps =>
  mockWorkerDeps({ stateDir, stores, backend }, change);

function commandWork(program: string, change: Partial<CommandWork> = {}): CommandWork {
  return { kind: 'command', program, args: [], cwd: '/workspace', env: [], stdin: { kind: 'none' }, ...change };
}

function request(program: string, change: Partial<VmStage> = {}): StageRequest {
  return plainRequest(RUN, plainStage('talk', 'talk', [program], change));
}

interface RunningAttempt {
  readonly result: Promise<StageResult>;
  cancel(details: ConstructorParameters<typeof ActivityCancellationDetails>[0]): void;
}

function begin(
  deps: ActivityDeps,
  what: StageRequest,
  info: ConstructorParameters<typeof MockActivityEnvironment>[0] = {},
): RunningAttempt {
  const environment = new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR', () => undefined) });
  const result = environment.run<[ActivityDeps, StageRequest], StageResult, typeof runStage>(runStage, deps, what);
  result.catch(() => undefined);
  return { result, cancel: (details) => environment.cancel('CANCELLED', new ActivityCancellationDetails(details)) };
}

async function storedOutput(stream: 'stdout' | 'stderr' = 'stdout'): Promise<string> {
  let text = '';
  let position = 0;
  for await (const { body } of stores.reader.read(RUN, 0)) {
    if (body.type !== 'output' || body.stream !== stream) continue;
    expect(body.from).toBe(position);
    position = body.to;
    text += body.data;
  }
  return text;
}

async function typesOf(): Promise<string[]> {
  const types: string[] = [];
  for await (const { body } of stores.reader.read(RUN, 0, { output: false })) types.push(body.type);
  return types;
}

async function reattachments(): Promise<(string | undefined)[]> {
  const reasons: (string | undefined)[] = [];
  for await (const { body } of stores.reader.read(RUN, 0, { output: false }))
    if (body.type === 'stage-reattached') reasons.push(body.reason);
  return reasons;
}

async function untilStored(text: string): Promise<void> {
  while (!(await storedOutput()).includes(text)) await sleep(10);
}

describe('an attempt that loses its server', () => {
  test.each(['notFound', 'timedOut', 'workerShutdown', 'reset'] as const)(
    'lets go on %s: the command runs on, the next attempt returns all of it once',
    async (reason) => {
      const first = begin(processDeps(), request('lines'));
      await untilStored('line 3\n');
      first.cancel({ [reason]: true });
      await expect(first.result).rejects.toMatchObject({ type: 'attempt/detached', nonRetryable: false });
      expect(backend.alive()).toHaveLength(1);
      expect(await typesOf()).not.toContain('stage-finished');

      const result = await begin(processDeps(), request('lines')).result;
      expect(result).toMatchObject({ outcome: 'succeeded', command: { stdoutBytes: TWENTY_LINES.length } });
      expect(started).toBe(1);
      expect(await storedOutput()).toBe(TWENTY_LINES);
      expect(await typesOf()).toEqual([
        'vm-starting',
        'vm-ready',
        'stage-started',
        'stage-reattached',
        'stage-finished',
        'vm-stopped',
      ]);
      expect(backend.alive()).toEqual([]);
    },
  );

  test('hands over to a newer attempt of the same process', async () => {
    const deps = processDeps();
    const first = begin(deps, request('lines'));
    await untilStored('line 3\n');
    const second = begin(deps, request('lines'));
    await expect(first.result).rejects.toMatchObject({ type: 'attempt/detached' });
    expect((await second.result).outcome).toBe('succeeded');
    expect(started).toBe(1);
    expect(await storedOutput()).toBe(TWENTY_LINES);
    expect(await reattachments()).toEqual(['the previous attempt let go: a newer attempt in this process took over']);
  });

  test('and keeps what it has from an older one that comes late, whose failure nobody would take for the stage’s', async () => {
    const deps = processDeps();
    const second = begin(deps, request('lines'), { currentAttemptScheduledTimestampMs: 2 });
    await untilStored('line 3\n');
    const late = begin(deps, request('lines'), { currentAttemptScheduledTimestampMs: 1 });
    await expect(late.result).rejects.toMatchObject({
      type: 'attempt/detached',
      message: expect.stringContaining('a newer attempt in this process drives it') as string,
    });
    expect((await second.result).outcome).toBe('succeeded');
    expect(await storedOutput()).toBe(TWENTY_LINES);
    expect(await reattachments()).toEqual([]);
  });

  test('each attachment says how the attempt before it ended', async () => {
    let broken = false;
    const deps = processDeps({
      events: {
        ...events,
        append: (runId, added, writer) => {
          if (broken && added.some(({ body }) => body.type === 'output'))
            throw new CodedError('store/io', 'cannot append to events.jsonl: EIO');
          return events.append(runId, added, writer);
        },
      },
    });
    const first = begin(deps, request('lines'));
    await untilStored('line 3\n');
    broken = true;
    await expect(first.result).rejects.toMatchObject({ type: 'store/io', nonRetryable: false });
    broken = false;
    const second = begin(deps, request('lines'));
    await untilStored('line 6\n');
    second.cancel({ timedOut: true });
    await expect(second.result).rejects.toMatchObject({ type: 'attempt/detached' });
    const third = begin(deps, request('lines'));
    await untilStored('line 9\n');
    third.cancel({ workerShutdown: true });
    await expect(third.result).rejects.toMatchObject({ type: 'attempt/detached' });
    // What another process knows of it died with that.
    expect((await begin(processDeps(), request('lines')).result).outcome).toBe('succeeded');
    expect(await storedOutput()).toBe(TWENTY_LINES);
    expect(await reattachments()).toEqual([
      'store/io: cannot append to events.jsonl: EIO',
      'the previous attempt let go: no heartbeat reached the server in time',
      'the previous worker ended, or lost contact with this host',
    ]);
  });

  test('writes nothing any more once another process has taken over', async () => {
    const first = begin(processDeps(), request('lines'));
    await untilStored('line 3\n');
    const second = begin(processDeps(), request('lines'));
    await expect(first.result).rejects.toMatchObject({ type: 'fence/stale', nonRetryable: false });
    expect((await second.result).outcome).toBe('succeeded');
    expect(started).toBe(1);
    expect(await storedOutput()).toBe(TWENTY_LINES);
  });
});

describe('an attempt that dies', () => {
  const dies = new CodedError('store/io', 'the process is gone');

  test('between the end of the command and the result: the next one writes the result, the command is not run again', async () => {
    const failing: EventLog = {
      ...events,
      append: (run, added, writer) =>
        added.some(({ body }) => body.type === 'stage-finished')
          ? Promise.reject(dies)
          : events.append(run, added, writer),
    };
    await expect(begin(processDeps({ events: failing }), request('lines')).result).rejects.toMatchObject({
      type: 'store/io',
      nonRetryable: false,
    });
    expect((await begin(processDeps(), request('lines')).result).outcome).toBe('succeeded');
    expect(started).toBe(1);
    expect(await storedOutput()).toBe(TWENTY_LINES);
  });

  test('between the result and its completion: the next one returns the result and ends the VM', async () => {
    const failing: EventLog = {
      ...events,
      append: async (run, added, writer) => {
        const count = await events.append(run, added, writer);
        if (added.some(({ body }) => body.type === 'stage-finished')) throw dies;
        return count;
      },
    };
    await expect(begin(processDeps({ events: failing }), request('lines')).result).rejects.toMatchObject({
      type: 'store/io',
    });
    expect(backend.alive()).toHaveLength(1);
    const result = await begin(processDeps(), request('lines')).result;
    expect(result).toMatchObject({ outcome: 'succeeded', execKey: 'talk/0/1' });
    expect(started).toBe(1);
    expect(backend.alive()).toEqual([]);
    expect((await typesOf()).filter((type) => type === 'stage-finished')).toHaveLength(1);
  });

  test('a VM that dies once the result is durable takes nothing back: the attempt returns the result', async () => {
    const losing: EventLog = {
      ...events,
      append: async (run, added, writer) => {
        const count = await events.append(run, added, writer);
        if (added.some(({ body }) => body.type === 'stage-finished')) backend.lose(KEY);
        return count;
      },
    };
    expect((await begin(processDeps({ events: losing }), request('lines')).result).outcome).toBe('succeeded');
    expect(await typesOf()).not.toContain('vm-lost');
    expect(started).toBe(1);
  });

  test('with its VM: Temporal does not try it again, the run machine does', async () => {
    const attempt = begin(processDeps(), request('lines'));
    await untilStored('line 3\n');
    backend.lose(KEY);
    await expect(attempt.result).rejects.toMatchObject({ type: 'vm/lost', nonRetryable: true });
    expect(await typesOf()).toContain('vm-lost');
  });
});

describe('a cancel', () => {
  test('ends the command and its VM within three seconds, and has a result', async () => {
    const attempt = begin(processDeps(), request('lines', { work: commandWork('sleep', { args: ['60'] }) }));
    while (!(await typesOf()).includes('stage-started')) await sleep(10);
    const asked = Date.now();
    attempt.cancel({ cancelRequested: true });
    expect(await attempt.result).toMatchObject({ outcome: 'cancelled', failure: { code: 'stage/cancelled' } });
    expect(Date.now() - asked).toBeLessThan(3_000);
    expect(backend.alive()).toEqual([]);
  });

  test('that comes after a durable result changes nothing', async () => {
    const done = await begin(processDeps(), request('lines')).result;
    const again = begin(processDeps(), request('lines'));
    again.cancel({ cancelRequested: true });
    expect(await again.result).toEqual(done);
  });
});

describe('a VM of a key that was in use once, of which nobody knows any more, gets the input too', () => {
  /** A reset to before the loss of its VM has the same command run under the same keys. */
  async function loseAndForget(what: StageRequest): Promise<void> {
    const lost = begin(processDeps(), what);
    await untilStored('of the run');
    backend.lose(KEY);
    await expect(lost.result).rejects.toMatchObject({ type: 'vm/lost' });
    nowMs += REMEMBERED_MS + 1;
    await backend.release({ ...KEY, scope: 'another' });
  }

  const what = (): StageRequest => ({
    ...request('read-input', { input: { kind: 'run-input' } }),
    input: { kind: 'inline', text: 'of the run' },
  });

  async function inputOfNext(): Promise<string | undefined> {
    const again = begin(processDeps(), what());
    await expect.poll(() => inputs.length, { timeout: 5_000, interval: 10 }).toBe(2);
    backend.lose(KEY);
    await expect(again.result).rejects.toMatchObject({ type: 'vm/lost' });
    return inputs.at(-1);
  }

  test('by the worker that launches it', async () => {
    await loseAndForget(what());
    expect(await inputOfNext()).toBe('of the run');
  });

  test('by the successor of a worker that launched it and died', async () => {
    await loseAndForget(what());
    await backend.launch(KEY, LEAST_SANDBOX, new AbortController().signal);
    expect(await inputOfNext()).toBe('of the run');
  });
});

describe('what a stage took', () => {
  /** VMs of which the host tells this. */
  const telling = (usage: VmUsage | null): Partial<ActivityDeps> => ({
    backendFor: () => ({
      ...backend,
      launch: async (...args) => ({ ...(await backend.launch(...args)), usage: async () => usage }),
    }),
  });

  test('stands in its result, also of a failure', async () => {
    const usage = { cpuMs: 1_500, memoryPeakMib: 300, diskBytes: 8_192 };
    const { result } = begin(processDeps(telling(usage)), request('colours'));
    expect(await result).toMatchObject({ outcome: 'failed' });
    expect((await result).usage).toEqual({ vmCpuMs: 1_500, vmMemoryPeakMib: 300, vmDiskBytes: 8_192 });
    expect((await begin(processDeps(), request('colours')).result).usage, 'the one that is durable').toEqual(
      (await result).usage,
    );
  });

  test('is absent from it where the host does not tell', async () => {
    const unknown = { cpuMs: null, memoryPeakMib: null, diskBytes: 0 };
    expect((await begin(processDeps(telling(unknown)), request('colours')).result).usage).toEqual({ vmDiskBytes: 0 });
  });

  test('is absent from it where the keeper is of a build that cannot tell', async () => {
    expect((await begin(processDeps(telling(null)), request('colours')).result).usage).toEqual({});
  });
});

test('a failure carries its last words without escape sequences, since any client of Temporal prints them', async () => {
  const result = await begin(processDeps(), request('colours', { work: commandWork('colours') })).result;
  expect(result.failure).toMatchObject({ code: 'stage/exit-nonzero', stderrTail: 'error: no rule\n' });
});

describe('a command with outputs in its arguments', () => {
  const greeting = async (output: string): Promise<StageRequest> => {
    const ref = await stores.artifacts.put([Buffer.from(output)] as never, 'text/plain');
    const asked = request('echo', {
      work: commandWork('echo', { args: ['-n', 'as written'] }),
      texts: {
        sources: ['stages.who.json.name'],
        stages: ['who'],
        params: {},
        texts: [{ place: { kind: 'arg', index: 1 }, parts: ['Hello ', 0] }],
      },
    });
    return { ...asked, upstream: { who: { output: ref, outputs: {} } } };
  };

  test('gets them as they were printed', async () => {
    const result = await begin(processDeps(), await greeting('{"name":"$(id) \'Ada\'"}')).result;
    expect(result.outcome).toBe('succeeded');
    expect(await storedOutput()).toBe("Hello $(id) 'Ada'");
  });

  test('fails before it has a VM where a value cannot be made, once and for all', async () => {
    const asked = await greeting('{}');
    const result = await begin(processDeps(), asked).result;
    expect(result).toMatchObject({
      outcome: 'failed',
      failure: {
        code: 'stage/expression',
        message: expect.stringMatching(
          /^stage talk cannot start: the expression `stages.who.json.name`: no such key: name/,
        ) as string,
      },
    });
    expect(await begin(processDeps(), asked).result).toEqual(result);
    const types = await typesOf();
    expect(types.filter((type) => type === 'stage-finished')).toHaveLength(1);
    expect(types).not.toContain('vm-started');
  });

  test('that runs already is not failed because a value cannot be made again', async () => {
    const asked = await greeting('{}');
    const started = { type: 'stage-started', stage: 'talk', execKey: asked.execKey, attempt: 1 } as const;
    await events.append(RUN, [{ id: EVENT_ID.attempt(asked.execKey, 'started'), atMs: 0, body: started }]);
    await expect(begin(processDeps(), asked).result).rejects.toThrow(/its texts cannot be made again/);
    expect(await typesOf()).not.toContain('stage-finished');
  });
});

describe('an output with a schema', () => {
  const printing = (outputSchema: JsonValue, size = 0): StageRequest =>
    request('print-json', {
      work: commandWork('print-json', {
        env: [
          { name: 'TOKEN', value: { kind: 'from-host', fromHost: 'TOKEN' } },
          { name: 'SIZE', value: { kind: 'literal', text: String(size) } },
        ],
      }),
      outputSchema,
      maxOutputBytes: 4 * 1024 * 1024,
    });

  beforeEach(() => stores.hostVariables.put(RUN, { TOKEN: 'hunter2-hunter2' }));

  test('that fits is the stage’s', async () => {
    const result = await begin(processDeps(), printing({ properties: { ok: { const: 'yes' } } })).result;
    expect(result).toMatchObject({ outcome: 'succeeded', output: { sizeBytes: expect.any(Number) as number } });
  });

  test('that does not fit fails the stage, and no secret stands in what is said of it', async () => {
    const schema = { properties: { ok: { type: 'boolean' }, text: true }, additionalProperties: false };
    const result = await begin(processDeps(), printing(schema)).result;
    expect(result).toMatchObject({
      outcome: 'failed',
      output: null,
      failure: {
        code: 'stage/output-schema',
        message:
          'stage talk left an output that does not fit its `output_schema`: the output must NOT have additional properties: "[redacted]"; /ok must be boolean',
      },
    });
  });

  test('that is too large for one is not read', async () => {
    const checkOutput: ActivityDeps['checkOutput'] = () => Promise.reject(new Error('asked'));
    const result = await begin(processDeps({ checkOutput }), printing({}, OUTPUT_SCHEMA_LIMITS.outputBytes)).result;
    expect(result.failure).toMatchObject({
      code: 'stage/output-schema',
      message: expect.stringContaining('with a schema at most 1048576 are allowed') as string,
    });
  });
});

describe('values of the host', () => {
  const leaking = request('leak', {
    work: commandWork('leak', { env: [{ name: 'TOKEN', value: { kind: 'from-host', fromHost: 'TOKEN' } }] }),
  });

  test('do not stand in events or results', async () => {
    await stores.hostVariables.put(RUN, { TOKEN: 'hunter2-hunter2' });
    const result = await begin(processDeps(), leaking).result;
    expect(result.failure).toMatchObject({ code: 'stage/exit-nonzero', stderrTail: 'token [redacted] end\n' });
    expect(await storedTexts()).toEqual(['token [redacted] end\n', 'token [redacted] end\n']);
  });

  test('that were not handed over are named', async () => {
    const failure = await begin(processDeps(), leaking).result.catch((error: ApplicationFailure) => error);
    expect(failure).toMatchObject({
      type: 'host/variable-missing',
      nonRetryable: true,
      message: expect.stringContaining('TOKEN'),
    });
    expect(backend.alive()).toEqual([]);
  });

  test('do not stand in what is said of files that the command named after them', async () => {
    await stores.hostVariables.put(RUN, { TOKEN: 'hunter2-hunter2' });
    const { env } = leaking.stage.work as CommandWork;
    const naming = request('leak-by-name', {
      work: commandWork('leak-by-name', { env }),
      outputs: [{ name: 'files', guestPath: '/workspace/output' }],
    });
    const { failure } = await begin(processDeps(), naming).result;
    expect(failure).toMatchObject({
      code: 'stage/bad-output',
      message: expect.stringContaining('is a link to /[redacted], which leads out'),
    });
  });

  test('do not stand in a failure of the VM that tells what it was given', async () => {
    await stores.hostVariables.put(RUN, { TOKEN: 'hunter2-hunter2' });
    const exec: Sandbox['exec'] = (command) =>
      Promise.reject(new CodedError('vm/lost', `exec ${JSON.stringify(command.env)} broke`, { cause: command }));
    const backendFor: ActivityDeps['backendFor'] = () => ({
      ...backend,
      launch: async (...args) => ({ ...(await backend.launch(...args)), exec }),
    });
    await expect(begin(processDeps({ backendFor }), leaking).result).rejects.toMatchObject({
      type: 'vm/lost',
      message: expect.stringContaining('exec {"TOKEN":"[redacted]"} broke') as string,
    });
    expect(await lostReasons()).toEqual([expect.stringContaining('"[redacted]"')]);
  });

  async function lostReasons(): Promise<string[]> {
    const reasons: string[] = [];
    for await (const { body } of stores.reader.read(RUN, 0)) if (body.type === 'vm-lost') reasons.push(body.reason);
    return reasons;
  }

  test('that are too large to be searched for are refused before a VM starts', async () => {
    await stores.hostVariables.put(RUN, { TOKEN: 'x'.repeat(65_537) });
    const failure = await begin(processDeps(), leaking).result.catch((error: ApplicationFailure) => error);
    expect(failure).toMatchObject({
      type: 'host/variable-too-large',
      nonRetryable: true,
      message: expect.stringContaining('65537 bytes together, the most of them in TOKEN'),
    });
    expect(backend.alive()).toEqual([]);
  });

  test('do not stand in what a stage prints that got them from another one, and is not given them', async () => {
    await stores.hostVariables.put(RUN, { OTHER: 'hunter2-hunter2', SHORT: 'abc' });
    const literal = commandWork('leak', {
      env: [{ name: 'TOKEN', value: { kind: 'literal', text: 'hunter2-hunter2' } }],
    });
    const what = { ...request('leak', { work: literal }), hostVariables: ['OTHER', 'SHORT'] };
    const result = await begin(processDeps(), what).result;
    expect(result.failure).toMatchObject({ stderrTail: 'token [redacted] end\n' });
    expect(await storedTexts()).toEqual(['token [redacted] end\n', 'token [redacted] end\n']);
    // A value that is too short is told by the stage that reads it.
    expect(await notices()).toEqual([]);
  });

  test('that are not set and need not be are empty, and the log says so once', async () => {
    const env = (name: string) => [{ name, value: { kind: 'from-host', fromHost: name, ifUnset: 'empty' } }] as const;
    const asking = request('leak', { work: commandWork('leak', { env: env('TOKEN') }) });
    const result = await begin(processDeps(), asking).result;
    expect(result.failure).toMatchObject({ stderrTail: 'token  end\n' });
    expect(await notices()).toEqual([expect.stringContaining('the variable TOKEN is not set on the host')]);
  });

  test('that this worker lends go after those that were handed over', async () => {
    const lentVariables = { read: () => Promise.resolve({ TOKEN: 'lent-lent-lent', OTHER: 'x' }) };
    const { failure } = await begin(processDeps({ lentVariables }), leaking).result;
    expect(failure?.stderrTail).toBe('token [redacted] end\n');
    expect(await storedTexts()).toEqual(['token [redacted] end\n', 'token [redacted] end\n']);
  });

  async function notices(): Promise<string[]> {
    const messages: string[] = [];
    for await (const { body } of stores.reader.read(RUN, 0)) if (body.type === 'notice') messages.push(body.message);
    return messages;
  }

  async function storedTexts(): Promise<string[]> {
    const texts = { stdout: '', stderr: '' };
    for await (const { body } of stores.reader.read(RUN, 0))
      if (body.type === 'output') texts[body.stream] += body.data;
    return [texts.stdout, texts.stderr];
  }
});
