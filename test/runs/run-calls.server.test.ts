/**
 * The answers of a run's activities to strangers on a real server, and of its records to a second workflow with the id
 * of the run.
 */
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { RunEvent, RunOutcome } from '../../domain/run/event.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { plainStage } from '../rig/runs/mock-worker.ts';
import { awaitOutcome, describeRun, repairRun, startRun } from '../../client/runs/runs.ts';
import { recordHistoriesOf } from '../rig/runs/record-histories.ts';
import { temporalCliForTests } from '../rig/servers/temporal-cli.ts';
import { startTestStack, type TestStack } from '../rig/servers/test-worker.ts';
import type { RunningWorkers } from '../../workers/workers.ts';

/** Commands that were started, and the function that lets `hold` continue. */
const started: string[] = [];
let go: () => void = () => undefined;

const backend = createMockBackend({
  programs: {
    /** `note KEY`: that it ran. */
    note: async ({ args, write }) => {
      started.push(args[0]!);
      await write('stdout', args[0]!);
      return 0;
    },
    /** `add TEXT`: to the mounted file. */
    add: async ({ args, files }) => {
      const node = files.find('/data/file');
      files.write('/data/file', Buffer.from(`${node?.kind === 'file' ? node.body.toString() : ''}${args[0]}\n`));
      return 0;
    },
    /** `hold KEY`: until the test lets go. */
    hold: async ({ args, killed }) => {
      started.push(args[0]!);
      await Promise.race([
        new Promise<void>((resolve) => (go = resolve)),
        sleep(60_000, undefined, { signal: killed }),
      ]);
      return 0;
    },
  },
});
let stack: TestStack;
let worker: RunningWorkers;
let folder: string;

beforeAll(async () => {
  stack = await startTestStack(backend, await temporalCliForTests(), () => undefined);
  worker = await stack.startWorker();
});

afterAll(async () => {
  await recordHistoriesOf(stack.runs.client, ['reset', 'writable']);
  worker?.shutdown();
  await worker?.ended;
  await worker?.close();
  await stack?.stop();
});

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-mounts-'));
  mkdirSync(join(folder, 'spec/data'), { recursive: true });
  mkdirSync(join(folder, 'private'));
  writeFileSync(join(folder, 'spec/data/file'), 'of the spec\n');
  writeFileSync(join(folder, 'private/file'), 'a secret\n');
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A pipeline: each box has a VM for itself, one after the other. */
function pipeline(boxes: readonly string[], mounts = ''): string {
  const list = boxes.map(
    (command, index) =>
      `    - { name: box-${index}, run: { program: ${command.split(' ')[0]}, args: [${command.split(' ').slice(1).join(', ')}] } }\n`,
  );
  return `kind: pipeline\nname: calls\nsandbox: { mode: mock, isolation: none${mounts} }\npipeline:\n  boxes:\n${list.join('')}`;
}

const start = (runId: string, spec: string): Promise<void> =>
  startRun(stack.runs.client, { runId, request: { spec }, summary: 'test' });

async function untilStarted(key: string): Promise<void> {
  for (const end = Date.now() + 15_000; !started.includes(key); await sleep(20))
    if (Date.now() > end) throw new Error(`${key} was not started`);
}

const outputOf = (events: readonly RunEvent[]): string =>
  events.flatMap(({ body }) => (body.type === 'output' ? [body.data] : [])).join('');

describe('a client that schedules activities directly', () => {
  const scope = (): object => ({
    id: 'box-0',
    stages: ['box-0'],
    sandbox: {
      mode: 'mock',
      isolation: 'none',
      memoryMib: 64,
      vcpus: 1,
      diskMib: 64,
      mounts: [{ hostPath: join(folder, 'private'), guestPath: '/data', mode: 'ro' }],
    },
  });
  test.each(['voidbox-host:test-host', 'voidbox'])(
    'queue %s refuses each call of a client for an open run',
    async (taskQueue) => {
      const runId = `victim-${taskQueue.length}`;
      await start(runId, pipeline([`hold ${runId}`]));
      await untilStarted(runId);
      const before = await stack.eventsOf(runId);
      const whole = {
        runId,
        stage: plainStage('box-0', 'box-0', ['cat', '/data/file'], { maxOutputBytes: 1024 }),
        scope: scope(),
        generation: 0,
        lease: null,
        execKey: 'box-0/0/1',
        attempt: 1,
        input: null,
        upstream: {},
        events: [],
      };
      const finished = {
        id: 'stage/box-0/0/1/finished',
        atMs: 1,
        body: { type: 'stage-finished', stage: 'box-0', execKey: 'box-0/0/1', result: {} },
      };
      const outcome: RunOutcome = { state: 'succeeded', failedStage: null, failure: null, output: null };
      const calls: [string, object][] = [
        ['runStage', whole],
        [
          'runStage',
          { runId, stage: 'box-0', item: 0, attempt: 1, generation: 0, lease: null, upstream: {}, events: [finished] },
        ],
        ['acquireVm', { runId, scope: scope(), generation: 0 }],
        ['releaseVm', { runId, scope: scope(), generation: 0 }],
        ['appendEvents', { runId, events: [finished] }],
        ['finishRun', { runId, outcome, merge: null, events: [] }],
        ['admit', { runId, spec: pipeline(['note evil']) }],
        ['runStage', { ...whole, runId: 'of-nobody' }],
      ];
      for (const [index, [name, call]] of calls.entries()) {
        // Only the shared queue accepts the admission of a run.
        const options = {
          id: `${runId}-${index}`,
          taskQueue,
          args: [call],
          startToCloseTimeout: 20_000,
          scheduleToCloseTimeout: 20_000,
        };
        await expect(stack.runs.client.activity.execute(name, options), name).rejects.toMatchObject({
          cause: { type: 'call/refused' },
        });
      }
      expect(await stack.eventsOf(runId)).toEqual(before);
      expect(backend.alive()).toEqual([`${runId}/box-0/0`]);
      expect(readdirSync(join(stack.stateDir, 'runs'))).not.toContain('of-nobody');
      go();
      expect((await awaitOutcome(stack.runs.client, runId)).state).toBe('succeeded');
      expect(outputOf(await stack.eventsOf(runId))).toBe('');
    },
  );
});

describe('a mounted folder', () => {
  const MOUNTS = ', mounts: [{ host: HOST, guest: /data, mode: ro }]';

  async function startWithMount(runId: string, hostPath: string): Promise<void> {
    await stack.deps.marks.put(runId, 'client', { baseDir: join(folder, 'spec') });
    await start(runId, pipeline([`hold ${runId}`, 'cat /data/file'], MOUNTS.replace('HOST', hostPath)));
    await untilStarted(runId);
  }

  test('that has become a link to elsewhere is refused when the next VM is launched', async () => {
    await startWithMount('swapped', join(folder, 'spec/data'));
    renameSync(join(folder, 'spec/data'), join(folder, 'spec/moved'));
    symlinkSync(join(folder, 'private'), join(folder, 'spec/data'));
    go();
    const outcome = await awaitOutcome(stack.runs.client, 'swapped');
    expect(outcome).toMatchObject({ state: 'failed', failedStage: 'box-1', failure: { code: 'admit/mount-refused' } });
    expect(outputOf(await stack.eventsOf('swapped'))).toBe('');
    expect(backend.alive()).toEqual([]);
  });

  test('that is named by a link stays what it was at admission', async () => {
    symlinkSync(join(folder, 'spec/data'), join(folder, 'spec/link'));
    await startWithMount('linked', join(folder, 'spec/link'));
    rmSync(join(folder, 'spec/link'));
    symlinkSync(join(folder, 'private'), join(folder, 'spec/link'));
    go();
    expect((await awaitOutcome(stack.runs.client, 'linked')).state).toBe('succeeded');
    expect(outputOf(await stack.eventsOf('linked'))).toBe('of the spec\n');
  });

  test('is writable over the steps of a VM, and starts from the original in the next VM when that VM is lost', async () => {
    await stack.deps.marks.put('writable', 'client', { baseDir: join(folder, 'spec') });
    const steps = ['add first', 'hold writable', 'add second'].map((command, index) => {
      const [program, arg] = command.split(' ');
      return `    - { name: step-${index}, run: { program: ${program}, args: [${arg}] }${index === 0 ? '' : `, depends_on: [step-${index - 1}]`} }\n`;
    });
    const mounts = `mounts: [{ host: ${join(folder, 'spec/data')}, guest: /data, mode: rw }]`;
    await start(
      'writable',
      `api_version: v1\nkind: workflow\nname: writes\nsandbox: { mode: mock, isolation: none, ${mounts} }\nworkflow:\n  steps:\n${steps.join('')}`,
    );
    await untilStarted('writable');
    const file = join(folder, 'spec/data/file');
    expect(readFileSync(file, 'utf8')).toBe('of the spec\nfirst\n');
    const held = go;
    backend.lose({ runId: 'writable', scope: '_shared', instance: [], generation: 0 });
    await expect.poll(() => go, { timeout: 30_000 }).not.toBe(held);
    go();
    expect((await awaitOutcome(stack.runs.client, 'writable')).state).toBe('succeeded');
    expect(readFileSync(file, 'utf8')).toBe('of the spec\nfirst\nsecond\n');
  });

  test('that the worker does not allow any more is refused', async () => {
    await startWithMount('narrowed', join(folder, 'spec/data'));
    // Imitates a restart with another policy.
    await stack.deps.marks.put('narrowed', 'client', { baseDir: join(folder, 'private') });
    go();
    expect(await awaitOutcome(stack.runs.client, 'narrowed')).toMatchObject({
      failure: { code: 'admit/mount-refused', message: expect.stringMatching(/this worker allows .*private/) },
    });
  });
});

describe('a second workflow with the id of a run', () => {
  const startAgain = (runId: string, spec: string): Promise<unknown> =>
    stack.runs.client.workflow.start('voidboxRun', {
      workflowId: runId,
      taskQueue: 'voidbox',
      args: [{ spec }],
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    });

  test('that has ended is refused, and changes none of its records', async () => {
    await start('once', pipeline(['note first']));
    const first = await awaitOutcome(stack.runs.client, 'once');
    const records = join(stack.stateDir, 'runs/once/records');
    const before = [
      await stack.eventsOf('once'),
      readdirSync(records),
      readFileSync(join(records, 'admission.json'), 'utf8'),
    ];
    await startAgain('once', pipeline(['note second']));
    expect(await awaitOutcome(stack.runs.client, 'once')).toMatchObject({
      state: 'failed',
      failure: { code: 'run/id-taken' },
    });
    expect([
      await stack.eventsOf('once'),
      readdirSync(records),
      readFileSync(join(records, 'admission.json'), 'utf8'),
    ]).toEqual(before);
    expect(first.state).toBe('succeeded');
    expect(started).not.toContain('second');
  });

  test('that was refused is refused, too, and not for the first one’s reason', async () => {
    await start('refused', 'kind: nothing');
    expect((await awaitOutcome(stack.runs.client, 'refused')).failure?.code).toBe('admit/invalid');
    await startAgain('refused', pipeline(['note second']));
    expect((await awaitOutcome(stack.runs.client, 'refused')).failure?.code).toBe('run/id-taken');
  });

  test('that was terminated is refused, and not taken for its end', async () => {
    await start('cut', pipeline(['hold cut']));
    await untilStarted('cut');
    await stack.runs.client.workflow.getHandle('cut').terminate('test');
    await startAgain('cut', pipeline(['note second']));
    expect((await awaitOutcome(stack.runs.client, 'cut')).failure?.code).toBe('run/id-taken');
    expect(await repairRun(stack.runs.client, stack.deps.events, 'cut')).toMatchObject({
      state: 'terminated',
      failure: { code: 'run/terminated' },
    });
  });
});

describe('a reset', () => {
  /** Resets to the first workflow task: everything is done again, including `admit`. */
  async function reset(runId: string): Promise<void> {
    const { execution } = (await stack.runs.client.workflow.getHandle(runId).describe()).raw.workflowExecutionInfo!;
    await stack.runs.client.workflowService.resetWorkflowExecution({
      namespace: stack.target.namespace,
      workflowExecution: execution!,
      reason: 'test',
      requestId: `reset-${runId}-${Date.now()}`,
      workflowTaskFinishEventId: 4 as never,
    });
  }

  test('a reset of an open run finds the finished work and continues with the rest', async () => {
    await start('reset', pipeline(['note before', 'hold reset', 'note after']));
    await untilStarted('reset');
    await reset('reset');
    go();
    expect((await awaitOutcome(stack.runs.client, 'reset')).state).toBe('succeeded');
    expect(started.filter((key) => ['before', 'reset', 'after'].includes(key))).toEqual(['before', 'reset', 'after']);
  });

  test('a reset of an ended run returns its outcome again and does nothing', async () => {
    await start('reset-late', pipeline(['note late', 'note later']));
    const outcome = await awaitOutcome(stack.runs.client, 'reset-late');
    const before = await stack.eventsOf('reset-late');
    await reset('reset-late');
    expect(await awaitOutcome(stack.runs.client, 'reset-late')).toEqual(outcome);
    expect((await describeRun(stack.runs.client, 'reset-late')).state).toBe('succeeded');
    expect(await stack.eventsOf('reset-late')).toEqual(before);
    expect(started.filter((key) => key.startsWith('late'))).toEqual(['late', 'later']);
  });
});
