/** Runs through a real Temporal server and the real activities; only the VM is a mock. */
import { execFile } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { LOST_VM_ATTEMPTS } from '../../domain/errors/code-info.ts';
import type { RunEvent, RunOutcome } from '../../domain/run/event.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import type { MockProgram } from '../../sandbox/mock/programs.ts';
import { awaitOutcome, cancelRun, describeRun, repairRun, RunExistsError, startRun } from '../../client/runs/runs.ts';
import { cleanUp } from '../../workers/host/janitor.ts';
import { createOpenRuns } from '../../workers/host/open-runs.ts';
import { recordHistoriesOf } from '../rig/runs/record-histories.ts';
import { temporalCliForTests } from '../rig/servers/temporal-cli.ts';
import { startTestStack, type TestStack } from '../rig/servers/test-worker.ts';
import type { RunningWorkers } from '../../workers/workers.ts';

/** How often each `flaky` key was run, and which `lines` commands were started. */
const calls = new Map<string, number>();
let gateIsOpen = false;
const started: string[] = [];

const programs: Record<string, MockProgram> = {
  /** `flaky KEY N`: fails N times, then succeeds. */
  flaky: async ({ args, write }) => {
    const [key = '', times = '0'] = args;
    const call = (calls.get(key) ?? 0) + 1;
    calls.set(key, call);
    if (call > Number(times)) return 0;
    await write('stderr', `try ${call} of ${key} went wrong\n`);
    return 3;
  },
  /** Ends when the test opens the gate. */
  gate: async ({ killed }) => {
    while (!gateIsOpen) await sleep(20, undefined, { signal: killed });
    return 0;
  },
  /** `lines KEY N MS`: N numbered lines, one each MS. */
  lines: async ({ args, killed, write }) => {
    const [key = '', count = '0', everyMs = '0'] = args;
    started.push(key);
    for (let line = 1; line <= Number(count); line += 1) {
      await sleep(Number(everyMs), undefined, { signal: killed });
      await write('stdout', `line ${line}\n`);
    }
    return 0;
  },
};

const backend = createMockBackend({ programs });
let temporalCli: string;
let stack: TestStack;
let worker: RunningWorkers;

beforeAll(async () => {
  temporalCli = await temporalCliForTests();
  stack = await startTestStack(backend, temporalCli, () => undefined);
  worker = await stack.startWorker();
});

afterAll(async () => {
  await recordHistoriesOf(stack.runs.client, [
    'two-steps',
    'fails',
    'retries',
    'bad-plan',
    'lost-vm',
    'lost-too-often',
    'worker-change',
    'cancelled',
    'cancel-away',
    'merged',
  ]);
  await stopWorker();
  await stack?.stop();
});

async function stopWorker(): Promise<void> {
  worker?.shutdown();
  await worker?.ended;
  await worker?.close();
}

function workflowSpec(name: string, steps: string): string {
  return `api_version: v1\nkind: workflow\nname: ${name}\nsandbox: { mode: mock, isolation: none }\nworkflow:\n  steps:\n${steps}`;
}

const TWO_STEPS = workflowSpec(
  'two-steps',
  `
    - { name: say, run: { program: printf, args: [hello] } }
    - { name: shout, run: { program: tr, args: [a-z, A-Z], stdin_from: say }, depends_on: [say] }
`,
);

const start = (runId: string, spec: string): Promise<void> =>
  startRun(stack.runs.client, { runId, request: { spec }, summary: `test ${runId}` });

async function run(runId: string, spec: string): Promise<RunOutcome> {
  await start(runId, spec);
  return awaitOutcome(stack.runs.client, runId);
}

const typesOf = (events: readonly RunEvent[]): string[] =>
  events.map(({ body }) => body.type).filter((type) => type !== 'output');

function outputOf(events: readonly RunEvent[], stage: string, stream: 'stdout' | 'stderr' = 'stdout'): string {
  let position = 0;
  return events
    .flatMap(({ body }) => {
      if (body.type !== 'output' || body.stage !== stage || body.stream !== stream) return [];
      expect(body.from).toBe(position);
      position = body.to;
      return [body.data];
    })
    .join('');
}

async function untilOutput(runId: string, stage: string, text: string): Promise<void> {
  while (!outputOf(await stack.eventsOf(runId), stage).includes(text)) await sleep(50);
}

const historyLength = async (runId: string): Promise<number> =>
  (await stack.runs.client.workflow.getHandle(runId).fetchHistory()).events?.length ?? 0;

describe('a run that goes well', () => {
  test('carries a result from one command to the next and leaves a readable story', async () => {
    const outcome = await run('two-steps', TWO_STEPS);
    expect(outcome).toMatchObject({ state: 'succeeded', failure: null });
    expect(await stack.artifact(outcome.output!)).toBe('HELLO');
    const events = await stack.eventsOf('two-steps');
    expect(typesOf(events)).toEqual([
      'run-admitted',
      'vm-starting',
      'vm-ready',
      'stage-started',
      'stage-finished',
      'stage-started',
      'stage-finished',
      'vm-stopped',
      'run-finished',
    ]);
    expect([outputOf(events, 'say'), outputOf(events, 'shout')]).toEqual(['hello', 'HELLO']);
    expect(backend.alive()).toEqual([]);
    const { typedSearchAttributes } = await stack.runs.client.workflow.getHandle('two-steps').describe();
    expect(
      typedSearchAttributes
        .getAll()
        .map(({ key, value }) => `${key.name}=${String(value)}`)
        .sort(),
    ).toEqual(expect.arrayContaining(['VoidboxHost=test-host', 'VoidboxName=two-steps', 'VoidboxState=succeeded']));
  });

  test('that ends in a fan-out puts out what its boxes put out, in the order of the spec', async () => {
    const pipeline = `
kind: pipeline
name: merged
sandbox: { mode: mock, isolation: none }
pipeline:
  boxes:
    - { name: slow, run: { program: lines, args: [merged, "2", "150"] } }
    - { name: json, run: { program: printf, args: ['{"n": 1}'] } }
  stages:
    - { type: fan_out, boxes: [slow, json] }
`;
    const outcome = await run('merged', pipeline);
    expect(outcome).toMatchObject({ state: 'succeeded', output: { mediaType: 'application/json' } });
    const text = await stack.artifact(outcome.output!);
    expect(JSON.parse(text)).toEqual([
      { name: 'slow', output: 'line 1\nline 2\n' },
      { name: 'json', output: { n: 1 } },
    ]);
    // The text of a short output is in the workflow's result only.
    const { outputText, ...recorded } = { outputText: null, ...outcome };
    expect(outputText).toBe(text);
    const last = (await stack.eventsOf('merged')).at(-1)!.body;
    expect(last.type === 'run-finished' && last.outcome).toEqual(recorded);
    // Garbage collection keeps what the manifest names.
    expect(await stack.deps.records.get('merged', 'manifest')).toHaveProperty(
      'refs',
      expect.arrayContaining([outcome.output]),
    );
  });

  test('costs six history events a stage', async () => {
    const chain = (length: number): string =>
      Array.from(
        { length },
        (_, index) =>
          `    - { name: s${index}, run: { program: 'true' }${index === 0 ? '' : `, depends_on: [s${index - 1}]`} }\n`,
      ).join('');
    await run('chain-2', workflowSpec('chain', chain(2)));
    await run('chain-6', workflowSpec('chain', chain(6)));
    expect((await historyLength('chain-6')) - (await historyLength('chain-2'))).toBe(4 * 6);
  });

  test('has a board of its stages in its details, made when a client asks for it', async () => {
    await run('board', TWO_STEPS);
    const { currentDetails } = await stack.runs.client.workflow
      .getHandle('board')
      .query<{ currentDetails: unknown }>('__temporal_workflow_metadata');
    expect(currentDetails).toEqual(expect.stringMatching(/^\*\*two-steps\*\*: 2 succeeded\n/));
    const gap = '\u00a0\u00a0\u00a0';
    expect(currentDetails).toContain(`| say${gap} | succeeded${gap} | 1${gap} |`);
    expect(currentDetails).toContain('Logs: `voidbox logs board`');
  });

  test('may be started by the temporal command line', async () => {
    const file = join(stack.stateDir, 'request.json');
    writeFileSync(file, JSON.stringify({ spec: TWO_STEPS }));
    const { stdout } = await promisify(execFile)(
      temporalCli,
      [
        'workflow',
        'execute',
        '--address',
        stack.target.address,
        '--type',
        'voidboxRun',
        '--task-queue',
        'voidbox',
        '--workflow-id',
        'by-cli',
        '--input-file',
        file,
        '--output',
        'json',
      ],
      { timeout: 30_000 },
    );
    expect(stdout).toContain('"COMPLETED"');
    expect(outputOf(await stack.eventsOf('by-cli'), 'shout')).toBe('HELLO');
  });

  test.each([
    ['an id that could lead out of its folder', '../../x'],
    ['an id of a schedule', 'nightly-2026-11-22T06:00:00Z'],
    ['the longest id', `${'x'.repeat(998)}:/`],
  ])('runs under %s', async (_, runId) => {
    expect((await run(runId, TWO_STEPS)).state).toBe('succeeded');
    expect(await stack.stores.index.has(runId)).toBe(true);
    expect(outputOf(await stack.eventsOf(runId), 'shout')).toBe('HELLO');
    expect(
      readdirSync(stack.stateDir)
        .filter((name) => name !== 'request.json')
        .toSorted(),
    ).toEqual(['artifacts', 'runs', 'state-format']);
    expect(backend.alive()).toEqual([]);
  });

  test('has its id for itself', async () => {
    await run('only-once', TWO_STEPS);
    await expect(start('only-once', TWO_STEPS)).rejects.toThrow(RunExistsError);
  });
});

describe('a run that goes wrong', () => {
  test('says which stage, how, and its last lines', async () => {
    const outcome = await run(
      'fails',
      workflowSpec(
        'fails',
        `
    - { name: bad, run: { program: flaky, args: [fails, "9"] } }
    - { name: after, run: { program: 'true' }, depends_on: [bad] }
`,
      ),
    );
    expect(outcome).toMatchObject({
      state: 'failed',
      failedStage: 'bad',
      failure: { code: 'stage/exit-nonzero', stderrTail: 'try 1 of fails went wrong\n' },
    });
    await expect(stack.runs.client.workflow.getHandle('fails').result()).rejects.toMatchObject({
      cause: {
        type: 'stage/exit-nonzero',
        message: 'stage bad ended with exit code 3',
        details: [{ failure: { stderrTail: 'try 1 of fails went wrong\n' } }],
      },
    });
    const { events: history } = await stack.runs.client.workflow.getHandle('fails').fetchHistory();
    const summaries = (history ?? []).flatMap(({ userMetadata }) => userMetadata?.summary?.data ?? []);
    expect(summaries.map((data) => Buffer.from(data).toString('utf8'))).toContain('"1 event: stage-skipped"');
    expect(typesOf(await stack.eventsOf('fails'))).toEqual(
      expect.arrayContaining(['stage-skipped', 'vm-stopped', 'run-finished']),
    );
  });

  test('is tried again only as often as its author says, under new keys', async () => {
    const outcome = await run(
      'retries',
      workflowSpec(
        'retries',
        `
    - { name: twice, run: { program: flaky, args: [retries, "1"] }, retry: { max_attempts: 2, backoff_secs: 1 } }
`,
      ),
    );
    expect(outcome.state).toBe('succeeded');
    expect(calls.get('retries')).toBe(2);
    const events = await stack.eventsOf('retries');
    expect(events.filter(({ body }) => body.type === 'stage-started').map(({ id }) => id)).toEqual([
      'stage/twice/0/1/started',
      'stage/twice/0/2/started',
    ]);
    expect(typesOf(events)).toContain('stage-retrying');
  });

  test.each([
    ['no-object', 'text', /takes one object/],
    ['wrong-type', { spec: 5 }, /must be the text of a spec/],
    ['both', { spec: TWO_STEPS, plan: {} }, /takes one object with either/],
    ['bad-plan', { plan: { version: 1 } }, /kind/],
    ['bad-spec', { spec: 'kind: nothing' }, /spec\.yaml:1:\d+/],
    ['bad-input', { spec: TWO_STEPS, input: 7 }, /`input` must be/],
    ['bad-params', { spec: TWO_STEPS, params: { region: 4 } }, /param region must be a string/],
    [
      'mounts',
      {
        spec: TWO_STEPS.replace('isolation: none', 'isolation: none, mounts: [{ host: /etc, guest: /data, mode: ro }]'),
      },
      /mount \/etc .* is refused/,
    ],
  ])('is refused with its reason: %s', async (runId, request, reason) => {
    await stack.runs.client.workflow.start('voidboxRun', { workflowId: runId, taskQueue: 'voidbox', args: [request] });
    const outcome = await awaitOutcome(stack.runs.client, runId);
    expect(outcome.failure?.code).toMatch(/^admit\//);
    expect(outcome.failure?.message).toMatch(reason);
    expect(typesOf(await stack.eventsOf(runId))).toEqual(['run-finished']);
  });
});

describe('a run that is interrupted', () => {
  const SLOW = workflowSpec('slow', '    - { name: talk, run: { program: lines, args: [KEY, "30", "100"] } }\n');
  const slow = (key: string): string => SLOW.replace('KEY', key);

  test('continues after the loss of its VM, with a new VM and the story of the loss', async () => {
    await start('lost-vm', slow('lost-vm'));
    await untilOutput('lost-vm', 'talk', 'line 3\n');
    backend.lose({ runId: 'lost-vm', scope: await scopeOf('lost-vm'), instance: [], generation: 0 });
    expect((await awaitOutcome(stack.runs.client, 'lost-vm')).state).toBe('succeeded');
    expect(started.filter((key) => key === 'lost-vm')).toHaveLength(2);
    expect(typesOf(await stack.eventsOf('lost-vm'))).toContain('vm-lost');
    expect(backend.alive()).toEqual([]);
  });

  test('has a stage that failed, told at once, where its VM is lost once too often', async () => {
    const box = (name: string, run: string): string => `    - { name: ${name}, run: ${run} }\n`;
    const boxes = `${box('victim', '{ program: lines, args: [too-often, "600", "50"] }')}${box('beside', '{ program: gate }')}`;
    await start(
      'lost-too-often',
      `kind: pipeline\nname: lost\nsandbox: { mode: mock, isolation: none }\npipeline:\n  boxes:\n${boxes}  stages:\n    - { type: fan_out, boxes: [victim, beside] }\n`,
    );
    const victims = async (): Promise<readonly RunEvent[]> =>
      (await stack.eventsOf('lost-too-often')).filter(({ body }) => 'stage' in body && body.stage === 'victim');
    for (let generation = 0; generation <= LOST_VM_ATTEMPTS; generation += 1) {
      const key = `victim/0/${generation + 1}`;
      while (!(await victims()).some(({ body }) => body.type === 'output' && body.execKey === key)) await sleep(20);
      const ready = (await stack.eventsOf('lost-too-often')).flatMap(({ body }) =>
        body.type === 'vm-ready' && body.generation === generation ? [body.scope] : [],
      );
      const scope = ready.find((name) => name.includes('victim'))!;
      backend.lose({ runId: 'lost-too-often', scope, instance: [], generation });
    }
    const told = async (): Promise<RunEvent | undefined> =>
      (await victims()).find(({ body }) => body.type === 'stage-failed');
    while ((await told()) === undefined) await sleep(20);
    expect((await told())?.body).toMatchObject({
      execKey: `victim/0/${LOST_VM_ATTEMPTS + 1}`,
      failure: { code: 'vm/lost', message: expect.stringMatching(/^the VM was lost \d times; the last time: /) },
    });
    gateIsOpen = true;
    expect(await awaitOutcome(stack.runs.client, 'lost-too-often')).toMatchObject({
      state: 'failed',
      failedStage: 'victim',
    });
  });

  test('keeps its command and every byte when its worker goes and another comes', async () => {
    await start('worker-change', slow('worker-change'));
    await untilOutput('worker-change', 'talk', 'line 3\n');
    await stopWorker();
    worker = await stack.startWorker();
    expect((await awaitOutcome(stack.runs.client, 'worker-change')).state).toBe('succeeded');
    const events = await stack.eventsOf('worker-change');
    expect(started.filter((key) => key === 'worker-change')).toHaveLength(1);
    expect(outputOf(events, 'talk')).toBe(Array.from({ length: 30 }, (_, index) => `line ${index + 1}\n`).join(''));
    expect(typesOf(events)).toContain('stage-reattached');
  });

  test('ends within seconds of a cancel, its command first', async () => {
    await start(
      'cancelled',
      workflowSpec('slow', '    - { name: talk, run: { program: lines, args: [cancelled, "600", "100"] } }\n'),
    );
    await untilOutput('cancelled', 'talk', 'line 2\n');
    const handle = stack.runs.client.workflow.getHandle('cancelled');
    const answered = handle.executeUpdate('answer', { args: [{ stage: 'talk', decision: 'approve' }] });
    await expect(answered).rejects.toMatchObject({
      cause: { type: 'call/refused', message: 'no stage "talk" of this run waits for an answer' },
    });
    const asked = Date.now();
    expect(await cancelRun(stack.runs.client, 'cancelled')).toBe(true);
    expect((await awaitOutcome(stack.runs.client, 'cancelled')).state).toBe('cancelled');
    expect(Date.now() - asked).toBeLessThan(8_000);
    expect((await describeRun(stack.runs.client, 'cancelled')).state).toBe('cancelled');
    expect(backend.alive()).toEqual([]);
    const last = (await stack.eventsOf('cancelled')).at(-1)!.body;
    expect(last.type === 'run-finished' && last.outcome.state).toBe('cancelled');
  });

  test('is cancelled although no worker runs at that moment', async () => {
    await start(
      'cancel-away',
      workflowSpec('slow', '    - { name: talk, run: { program: lines, args: [cancel-away, "600", "100"] } }\n'),
    );
    await untilOutput('cancel-away', 'talk', 'line 2\n');
    await stopWorker();
    await cancelRun(stack.runs.client, 'cancel-away');
    worker = await stack.startWorker();
    expect((await awaitOutcome(stack.runs.client, 'cancel-away')).state).toBe('cancelled');
    expect(backend.alive()).toEqual([]);
  });

  test('is cancelled also when two thousand of its boxes have not started', { timeout: 300_000 }, async () => {
    const waiting = Array.from(
      { length: 1_999 },
      (_, index) => `    - { name: box-${index}, run: { program: 'true' } }\n`,
    ).join('');
    const first = `    - { name: talk, run: { program: lines, args: [many, "600", "100"] } }\n`;
    await start(
      'many',
      `kind: pipeline\nname: many\nsandbox: { mode: mock, isolation: none }\npipeline:\n  boxes:\n${first}${waiting}`,
    );
    await untilOutput('many', 'talk', 'line 1\n');
    await cancelRun(stack.runs.client, 'many');
    expect((await awaitOutcome(stack.runs.client, 'many')).state).toBe('cancelled');
    expect(typesOf(await stack.eventsOf('many')).filter((type) => type === 'stage-skipped')).toHaveLength(1_999);
  });

  test('that is terminated loses its VM and gets its last event', async () => {
    await start(
      'terminated',
      workflowSpec('slow', '    - { name: talk, run: { program: lines, args: [terminated, "600", "100"] } }\n'),
    );
    await untilOutput('terminated', 'talk', 'line 2\n');
    await stack.runs.client.workflow.getHandle('terminated').terminate('test');
    const { events, index, records, hostVariables } = stack.stores;
    const { hostId } = stack.deps.placement;
    const kept: string[] = [];
    const key = { runId: 'terminated', scope: await scopeOf('terminated'), instance: [], generation: 0 };
    await cleanUp({
      client: stack.runs.client,
      openRuns: createOpenRuns({ events, index, records, serverId: 'embedded', hostId, log: () => undefined }),
      records,
      hostVariables,
      serverId: 'embedded',
      hostId,
      log: () => undefined,
      listVms: async () => [{ key, alive: true, need: { memoryMib: 0, vcpus: 0, diskMib: 0 } }],
      release: (found) => backend.release(found),
      dropMounts: async (runId) => void kept.push(runId),
      endSessions: async () => [],
    });
    expect(kept).toContain('terminated');
    expect(backend.alive()).toEqual([]);
    const last = (await stack.eventsOf('terminated')).findLast(({ body }) => body.type === 'run-finished');
    expect(last?.body.type === 'run-finished' && last.body.outcome.state).toBe('terminated');
    expect(await repairRun(stack.runs.client, events, 'terminated')).toBeNull();
  });

  test('writes nothing more once it was terminated', async () => {
    const before = (await stack.eventsOf('terminated')).length;
    await sleep(3_000);
    expect((await stack.eventsOf('terminated')).length - before).toBeLessThanOrEqual(1);
  });
});

async function scopeOf(runId: string): Promise<string> {
  const events = await stack.eventsOf(runId);
  const starting = events.find(({ body }) => body.type === 'vm-starting');
  return starting?.body.type === 'vm-starting' ? starting.body.scope : '';
}
