import { describe, expect, test } from 'vitest';
import type { RunEventBody } from '../domain/run/event.ts';
import type { StageFailure, StageResult } from '../domain/run/stage-result.ts';
import { events, EXIT_FAILURE, viewAfter } from '../test/rig/runs/run-events.ts';
import { stageResult } from '../test/rig/runs/stage-results.ts';
import { emptyView, type RunView } from './run-view.ts';
import { project } from './projection.ts';

const ADMITTED: RunEventBody = {
  type: 'run-admitted',
  name: 'sales',
  kind: 'workflow',
  hostId: 'host-1',
  stages: [
    { id: 'a', dependsOn: [] },
    { id: 'b', dependsOn: ['a'] },
    { id: 'c', dependsOn: ['b'] },
  ],
  outputStage: 'c',
};
const VM = { vmKey: 'r/main/1', scope: 'main', generation: 1 };

function stage(of: RunView, id: string): RunView['stages'][number] {
  const found = of.stages.find((candidate) => candidate.id === id);
  if (found === undefined) throw new Error(`no stage ${id}`);
  return found;
}

const IN_VM = {
  durationMs: 40,
  vm: { backend: 'qemu', vmm: 'qemu', isolation: 'microvm', accelerator: 'tcg' },
  command: { exitCode: 0, stdoutBytes: 10, stderrBytes: 2 },
} as const;

const FAILED_RUN: readonly RunEventBody[] = [
  ADMITTED,
  { type: 'vm-starting', ...VM },
  {
    type: 'vm-ready',
    ...VM,
    backend: 'qemu',
    vmm: 'qemu',
    isolation: 'microvm',
    accelerator: 'tcg',
    kernel: '6.12',
    jail: 'bubblewrap',
    bootMs: 900,
  },
  { type: 'stage-started', stage: 'a', execKey: 'a/0/1', attempt: 1 },
  {
    type: 'output',
    stage: 'a',
    execKey: 'a/0/1',
    stream: 'stdout',
    from: 0,
    to: 10,
    encoding: 'utf8',
    data: 'ten bytes\n',
  },
  {
    type: 'stage-finished',
    stage: 'a',
    execKey: 'a/0/1',
    result: stageResult('a/0/1', { ...IN_VM, usage: { vmCpuMs: 900 } }),
  },
  { type: 'stage-started', stage: 'b', execKey: 'b/0/1', attempt: 1 },
  {
    type: 'stage-finished',
    stage: 'b',
    execKey: 'b/0/1',
    result: stageResult('b/0/1', { ...IN_VM, command: { ...IN_VM.command, exitCode: 3 }, failure: EXIT_FAILURE }),
  },
  { type: 'stage-skipped', stage: 'c', reason: 'b failed' },
  { type: 'vm-stopped', ...VM },
  { type: 'notice', level: 'warning', message: 'emulated: no hardware isolation' },
  { type: 'run-finished', outcome: { state: 'failed', failedStage: 'b', failure: EXIT_FAILURE, output: null } },
];

describe('projection', () => {
  test('a failed run, whole', () => {
    expect(viewAfter(FAILED_RUN)).toMatchInlineSnapshot(`
      {
        "agents": [],
        "damage": null,
        "finishedAtMs": 1110,
        "hostId": "host-1",
        "kind": "workflow",
        "mockAgents": [],
        "mocked": [],
        "name": "sales",
        "notices": [
          {
            "atMs": 1100,
            "level": "warning",
            "message": "emulated: no hardware isolation",
          },
        ],
        "origin": null,
        "outcome": {
          "failedStage": "b",
          "failure": {
            "code": "stage/exit-nonzero",
            "message": "stage b: exit code 3",
            "stderrTail": "no such row",
          },
          "output": null,
          "state": "failed",
        },
        "outputStage": "c",
        "runId": "r",
        "seq": 12,
        "stages": [
          {
            "accelerator": "tcg",
            "answer": null,
            "attempt": 1,
            "dependsOn": [],
            "durationMs": 40,
            "execKey": "a/0/1",
            "exitCode": 0,
            "failure": null,
            "givenBy": null,
            "id": "a",
            "isolation": "microvm",
            "items": null,
            "outputBytes": 12,
            "question": null,
            "reason": null,
            "reattached": 0,
            "sleepsUntilMs": null,
            "startedAtMs": 1030,
            "state": "succeeded",
            "usage": {
              "vmCpuMs": 900,
            },
            "vmm": "qemu",
          },
          {
            "accelerator": "tcg",
            "answer": null,
            "attempt": 1,
            "dependsOn": [
              "a",
            ],
            "durationMs": 40,
            "execKey": "b/0/1",
            "exitCode": 3,
            "failure": {
              "code": "stage/exit-nonzero",
              "message": "stage b: exit code 3",
              "stderrTail": "no such row",
            },
            "givenBy": null,
            "id": "b",
            "isolation": "microvm",
            "items": null,
            "outputBytes": 12,
            "question": null,
            "reason": null,
            "reattached": 0,
            "sleepsUntilMs": null,
            "startedAtMs": 1060,
            "state": "failed",
            "usage": {},
            "vmm": "qemu",
          },
          {
            "accelerator": null,
            "answer": null,
            "attempt": 0,
            "dependsOn": [
              "b",
            ],
            "durationMs": null,
            "execKey": "",
            "exitCode": null,
            "failure": null,
            "givenBy": null,
            "id": "c",
            "isolation": null,
            "items": null,
            "outputBytes": 0,
            "question": null,
            "reason": "b failed",
            "reattached": 0,
            "sleepsUntilMs": null,
            "startedAtMs": null,
            "state": "skipped",
            "usage": {},
            "vmm": null,
          },
        ],
        "startedAtMs": 1000,
        "state": "failed",
        "trigger": null,
        "vms": [
          {
            "accelerator": "tcg",
            "bootMs": 900,
            "generation": 1,
            "isolation": "microvm",
            "jail": "bubblewrap",
            "kernel": "6.12",
            "reason": null,
            "scope": "main",
            "snapshot": null,
            "start": "cold",
            "state": "stopped",
            "vmKey": "r/main/1",
            "vmm": "qemu",
          },
        ],
      }
    `);
  });

  test('shows a run on its way', () => {
    const running = viewAfter(FAILED_RUN.slice(0, 5));
    expect(running).toMatchObject({ state: 'running', finishedAtMs: null, outcome: null, seq: 5 });
    expect(running.stages.map(({ state }) => state)).toEqual(['running', 'waiting', 'waiting']);
    expect(stage(running, 'a')).toMatchObject({ attempt: 1, startedAtMs: 1_030, outputBytes: 10, durationMs: null });
  });

  test('counts a retry as a new attempt and forgets the failure of the last', () => {
    const first: readonly RunEventBody[] = [
      ADMITTED,
      { type: 'stage-started', stage: 'a', execKey: 'a/0/1', attempt: 1 },
      {
        type: 'output',
        stage: 'a',
        execKey: 'a/0/1',
        stream: 'stderr',
        from: 0,
        to: 7,
        encoding: 'utf8',
        data: 'failed\n',
      },
      {
        type: 'stage-finished',
        stage: 'a',
        execKey: 'a/0/1',
        result: stageResult('a/0/1', { failure: EXIT_FAILURE }),
      },
      { type: 'stage-retrying', stage: 'a', execKey: 'a/0/1', reason: 'exit code 3', delayMs: 2_000 },
    ];
    expect(stage(viewAfter(first), 'a')).toMatchObject({ state: 'retrying', attempt: 1, reason: 'exit code 3' });
    const second = viewAfter([...first, { type: 'stage-started', stage: 'a', execKey: 'a/0/2', attempt: 2 }]);
    expect(stage(second, 'a')).toMatchObject({
      state: 'running',
      attempt: 2,
      failure: null,
      exitCode: null,
      reason: null,
      outputBytes: 0,
    });
    const late = project(second, {
      seq: 99,
      id: 'late',
      atMs: 0,
      body: {
        type: 'stage-finished',
        stage: 'a',
        execKey: 'a/0/1',
        result: stageResult('a/0/1', { outcome: 'cancelled' }),
      },
    });
    expect(stage(late, 'a')).toMatchObject({ state: 'running', attempt: 2 });
  });

  test('keeps what a failed attempt left until an attempt leaves something else or succeeds', () => {
    const ref = { sha256: 'ab', sizeBytes: 1, mediaType: 'text/x-patch' };
    const end = (attempt: number, change: Partial<StageResult>): RunEventBody => {
      const execKey = `a/0/${attempt}`;
      const result = stageResult(execKey, change);
      return { type: 'stage-finished', stage: 'a', execKey, result };
    };
    const start = (attempt: number): RunEventBody => ({
      type: 'stage-started',
      stage: 'a',
      execKey: `a/0/${attempt}`,
      attempt,
    });
    const failed = { outcome: 'failed', failure: EXIT_FAILURE } as const;
    const first = [ADMITTED, start(1), end(1, { ...failed, partial: { x: ref } }), start(2)];
    const partialOf = (bodies: readonly RunEventBody[]) => stage(viewAfter(bodies), 'a').partial;
    expect(partialOf(first)).toEqual({ x: ref });
    expect(partialOf([...first, end(2, failed)])).toEqual({ x: ref });
    expect(partialOf([...first, end(2, { ...failed, partial: { y: ref } })])).toEqual({ y: ref });
    expect(partialOf([...first, end(2, {})])).toBeUndefined();
    const lost: RunEventBody = { type: 'stage-failed', stage: 'a', execKey: 'a/0/3', failure: EXIT_FAILURE };
    expect(partialOf([...first, end(2, failed), lost])).toEqual({ x: ref });
  });

  test('keeps an end when the start arrives after it', () => {
    const swapped = viewAfter([
      ADMITTED,
      { type: 'stage-finished', stage: 'a', execKey: 'a/0/1', result: stageResult('a/0/1', { durationMs: 40 }) },
      { type: 'stage-started', stage: 'a', execKey: 'a/0/1', attempt: 1 },
    ]);
    expect(stage(swapped, 'a')).toMatchObject({ state: 'succeeded', attempt: 1, startedAtMs: 1_020, durationMs: 40 });
  });

  test('shows stages before the admission that names them, and keeps what they did', () => {
    const early = viewAfter([{ type: 'stage-started', stage: 'b', execKey: 'b/0/1', attempt: 1 }, ADMITTED]);
    expect(early.stages.map(({ id, state }) => [id, state])).toEqual([
      ['a', 'waiting'],
      ['b', 'running'],
      ['c', 'waiting'],
    ]);
    expect(stage(early, 'b').dependsOn).toEqual(['a']);
  });

  test('a lost VM stays lost and its successor is listed next to it', () => {
    const lost = viewAfter([
      ADMITTED,
      { type: 'vm-starting', ...VM },
      { type: 'vm-lost', ...VM, reason: 'killed' },
      { type: 'vm-stopped', ...VM },
      { type: 'scope-restarted', scope: 'main', reason: 'killed', stages: ['a', 'b'] },
      { type: 'vm-starting', vmKey: 'r/main/2', scope: 'main', generation: 2 },
    ]);
    expect(lost.vms.map(({ vmKey, state, reason }) => [vmKey, state, reason])).toEqual([
      ['r/main/1', 'lost', 'killed'],
      ['r/main/2', 'starting', null],
    ]);
    expect(lost.notices.map(({ message }) => message)).toEqual([
      'VM scope main starts again (killed); stages that run again: a, b',
    ]);
  });

  test('a VM that begins with a checkpoint opens only stages that have not begun in it', () => {
    const next = { vmKey: 'r/main/2', scope: 'main', generation: 2 };
    const facts = {
      backend: 'mock',
      vmm: 'mock',
      isolation: 'none',
      accelerator: 'mock',
      kernel: '',
      jail: '',
    } as const;
    const view = viewAfter([
      ADMITTED,
      { type: 'vm-starting', ...VM },
      { type: 'stage-started', stage: 'a', execKey: 'a/0/1', attempt: 1 },
      { type: 'stage-finished', stage: 'a', execKey: 'a/0/1', result: stageResult('a/0/1') },
      { type: 'stage-started', stage: 'b', execKey: 'b/0/1', attempt: 1 },
      { type: 'stage-started', stage: 'c', execKey: 'c/0/1', attempt: 1 },
      { type: 'vm-lost', ...VM, reason: 'killed' },
      { type: 'vm-starting', ...next },
      { type: 'vm-ready', ...next, ...facts, bootMs: 1, resumedAfter: 'a' },
      { type: 'stage-started', stage: 'c', execKey: 'c/0/2', attempt: 2 },
      {
        type: 'scope-restarted',
        scope: 'main',
        reason: 'killed',
        stages: ['b', 'c'],
        attempts: [1, 1],
        kept: ['a'],
      },
    ]);
    expect(view.stages.map(({ state, attempt }) => [state, attempt])).toEqual([
      ['succeeded', 1],
      ['retrying', 1],
      ['running', 2],
    ]);
    expect(view.vms.at(-1)).toMatchObject({ state: 'ready', resumedAfter: 'a' });
    expect(view.notices.map(({ message }) => message)).toEqual([
      'VM scope main starts again (killed); stages that run again: b, c; a checkpoint holds a',
    ]);
  });

  test('a checkpoint that could not be made is a warning', () => {
    const saved = { ...VM, stage: 'a', execKey: 'a/0/1' };
    const view = viewAfter([
      ADMITTED,
      { type: 'checkpoint-made', ...saved, checkpoint: 'x', usedBytes: 1, tookMs: 1 },
      { type: 'checkpoint-failed', ...saved, reason: 'the disk is full' },
    ]);
    expect(view.notices).toMatchObject([
      { level: 'warning', message: 'no checkpoint was made after stage a: the disk is full' },
    ]);
  });

  test('a shared VM that starts again opens its stages, and a restart that comes late does not', () => {
    const restarted: RunEventBody = {
      type: 'scope-restarted',
      scope: 'main',
      reason: 'killed',
      stages: ['a', 'b', 'c'],
    };
    const lost: readonly RunEventBody[] = [
      ADMITTED,
      { type: 'vm-starting', ...VM },
      { type: 'stage-started', stage: 'a', execKey: 'a/0/1', attempt: 1 },
      { type: 'stage-finished', stage: 'a', execKey: 'a/0/1', result: stageResult('a/0/1') },
      { type: 'stage-started', stage: 'b', execKey: 'b/0/1', attempt: 1 },
      { type: 'stage-skipped', stage: 'c', reason: 'stage "a" did not fail' },
      { type: 'vm-lost', ...VM, reason: 'killed' },
      { type: 'vm-stopped', ...VM },
    ];
    const open = viewAfter([...lost, restarted]);
    expect(open.stages.map(({ state, reason }) => [state, reason])).toEqual([
      ['retrying', 'killed'],
      ['retrying', 'killed'],
      ['waiting', null],
    ]);
    const again: readonly RunEventBody[] = [
      { type: 'vm-starting', vmKey: 'r/main/2', scope: 'main', generation: 2 },
      { type: 'stage-started', stage: 'a', execKey: 'a/0/2', attempt: 2 },
    ];
    expect(stage(viewAfter([...lost, restarted, ...again]), 'a')).toMatchObject({ state: 'running', attempt: 2 });
    expect(stage(viewAfter([...lost, ...again, restarted]), 'a')).toMatchObject({ state: 'running', attempt: 2 });
  });

  test('a stage that failed without a result has failed, whatever the result of an earlier attempt', () => {
    const failure: StageFailure = { code: 'vm/lost', message: 'the VM was lost 4 times', stderrTail: '' };
    const failed = (execKey: string): RunEventBody => ({ type: 'stage-failed', stage: 'a', execKey, failure });
    const begun: readonly RunEventBody[] = [
      ADMITTED,
      { type: 'stage-started', stage: 'a', execKey: 'a/0/2', attempt: 2 },
      { type: 'stage-finished', stage: 'a', execKey: 'a/0/2', result: stageResult('a/0/2') },
    ];
    expect(stage(viewAfter([...begun, failed('a/0/2')]), 'a')).toMatchObject({ state: 'failed', failure, attempt: 2 });
    expect(stage(viewAfter([...begun, failed('a/0/1')]), 'a')).toMatchObject({ state: 'succeeded', failure: null });
    // No VM came for the next attempt.
    expect(stage(viewAfter([...begun, failed('a/0/3')]), 'a')).toMatchObject({
      state: 'failed',
      failure,
      attempt: 3,
      startedAtMs: null,
      exitCode: null,
    });
  });

  test.each([
    ['never started', []],
    ['running', [{ type: 'stage-started', stage: 'a', execKey: 'a/0/1', attempt: 1 }]],
  ] as const)('the stage that failed a run has failed, also if the log lacks its end: it was %s', (_, begun) => {
    const failure: StageFailure = { code: 'vm/boot-timeout', message: 'no hello', stderrTail: '' };
    const ended = viewAfter([
      ADMITTED,
      ...begun,
      { type: 'run-finished', outcome: { state: 'failed', failedStage: 'a', failure, output: null } },
    ]);
    expect(ended.stages.map((one) => one.state)).toEqual(['failed', 'skipped', 'skipped']);
    expect(stage(ended, 'a').failure).toEqual(failure);
  });

  test('a run that has ended has no VM, also if later events name one', () => {
    const ready: RunEventBody = {
      type: 'vm-ready',
      ...VM,
      backend: 'qemu',
      vmm: 'qemu',
      isolation: 'microvm',
      accelerator: 'kvm',
      kernel: '6.12',
      jail: 'bubblewrap',
      bootMs: 1,
    };
    const over: RunEventBody = {
      type: 'run-finished',
      outcome: { state: 'terminated', failedStage: null, failure: null, output: null },
    };
    const states = (bodies: readonly RunEventBody[]): readonly string[] => viewAfter(bodies).vms.map((vm) => vm.state);
    expect(states([ADMITTED, { type: 'vm-starting', ...VM }, ready, over])).toEqual(['stopped']);
    expect(states([ADMITTED, { type: 'vm-starting', ...VM }, over, ready])).toEqual(['stopped']);
    expect(states([ADMITTED, over, { type: 'vm-starting', ...VM }])).toEqual(['stopped']);
    expect(states([ADMITTED, { type: 'vm-lost', ...VM, reason: 'killed' }, over])).toEqual(['lost']);
  });

  test.each([
    ['cancelled', 'cancelled'],
    ['terminated', 'cancelled'],
    ['failed', 'failed'],
  ] as const)('a run that ends %s leaves no stage running', (state, expected) => {
    const ended = viewAfter([
      ADMITTED,
      { type: 'stage-started', stage: 'a', execKey: 'a/0/1', attempt: 1 },
      { type: 'run-finished', outcome: { state, failedStage: null, failure: null, output: null } },
    ]);
    expect(ended.state).toBe(state);
    expect(ended.stages.map((one) => one.state)).toEqual([expected, 'skipped', 'skipped']);
    expect(stage(ended, 'a').durationMs).toBe(10);
  });

  test('keeps the first outcome', () => {
    const twice = viewAfter([
      ...FAILED_RUN,
      { type: 'run-finished', outcome: { state: 'terminated', failedStage: null, failure: null, output: null } },
    ]);
    expect(twice.state).toBe('failed');
    expect(twice.finishedAtMs).toBe(1_110);
  });

  test('shows who waits for an answer, and for how long the answer took', () => {
    const question = { message: 'Go?', by: [], fields: [], deadlineAtMs: null, onTimeout: 'fail' } as const;
    const asked = [ADMITTED, { type: 'stage-asking', stage: 'a', execKey: 'a/0/1', attempt: 1, question }] as const;
    expect(stage(viewAfter(asked), 'a')).toMatchObject({
      state: 'asking',
      attempt: 1,
      startedAtMs: 1_010,
      durationMs: null,
    });
    const answer = {
      type: 'stage-answered',
      stage: 'a',
      execKey: 'a/0/1',
      outcome: 'failed',
      failure: EXIT_FAILURE,
    } as const;
    const declined = viewAfter([...asked, answer]);
    expect(stage(declined, 'a')).toMatchObject({ state: 'failed', failure: EXIT_FAILURE, durationMs: 10 });
    const again = viewAfter([...asked, answer, { ...asked[1], execKey: 'a/0/2', attempt: 2 }]);
    expect(stage(again, 'a')).toMatchObject({ state: 'asking', attempt: 2, failure: null });
    const late = viewAfter([...asked, answer, { ...asked[1], execKey: 'a/0/2', attempt: 2 }, answer]);
    expect(stage(late, 'a')).toMatchObject({ state: 'asking', attempt: 2 });
    const over = viewAfter([...asked, FAILED_RUN.at(-1)!]);
    expect(stage(over, 'a').state).toBe('failed');
    expect(stage(viewAfter(asked), 'a').question).toEqual(question);
    const yes = { ...answer, outcome: 'succeeded', failure: null, by: 'ada', comment: 'go' } as const;
    expect(stage(viewAfter([...asked, yes]), 'a')).toMatchObject({
      state: 'succeeded',
      question: null,
      reason: 'approved by ada: go',
      answer: { decision: 'approve', by: 'ada', comment: 'go', fields: null, output: null },
    });
    const no = {
      ...answer,
      failure: { ...EXIT_FAILURE, code: 'stage/rejected' },
      by: 'ada',
      fields: { n: 3 },
    } as const;
    const rejected = { decision: 'reject', by: 'ada', comment: null, fields: { n: 3 } };
    expect(stage(viewAfter([...asked, no]), 'a').answer).toMatchObject(rejected);
    // The failure is not a rejection, or the stage asks again.
    expect(stage(declined, 'a').answer).toBeNull();
    expect(stage(viewAfter([...asked, no, { ...asked[1], execKey: 'a/0/2', attempt: 2 }]), 'a').answer).toBeNull();
    expect(stage(viewAfter([...asked, FAILED_RUN.at(-1)!]), 'a').question).toBeNull();
  });

  test('skips an event of an unknown type', () => {
    const before = viewAfter(FAILED_RUN.slice(0, 3));
    const unknown = {
      seq: 4,
      id: 'x',
      atMs: 5,
      body: { type: 'from-the-future', stage: 'a' } as unknown as RunEventBody,
    };
    expect(project(before, unknown)).toEqual({ ...before, seq: 4 });
  });

  test('changes neither its arguments nor its earlier results', () => {
    let current = emptyView('r');
    for (const event of events(FAILED_RUN)) {
      const copy = structuredClone(current);
      const next = project(current, event);
      expect(current).toEqual(copy);
      current = next;
    }
  });
});

test('a stage sleeps until it is woken, or its run ends', () => {
  const sleeping = { type: 'stage-sleeping', stage: 'a', execKey: 'a/0/1', attempt: 1, untilMs: 99 } as const;
  const woken = { type: 'stage-woken', stage: 'a', execKey: 'a/0/1', outcome: 'succeeded' } as const;
  expect(stage(viewAfter([ADMITTED, sleeping]), 'a')).toMatchObject({ state: 'sleeping', sleepsUntilMs: 99 });
  expect(stage(viewAfter([ADMITTED, sleeping, woken]), 'a')).toMatchObject({ state: 'succeeded', sleepsUntilMs: null });
  // Its time had passed.
  expect(stage(viewAfter([ADMITTED, woken]), 'a')).toMatchObject({ state: 'succeeded', attempt: 1, durationMs: 0 });
  expect(stage(viewAfter([ADMITTED, woken, sleeping]), 'a')).toMatchObject({ state: 'succeeded', sleepsUntilMs: null });
  const outcome = { state: 'cancelled', failedStage: null, failure: null, output: null } as const;
  expect(stage(viewAfter([ADMITTED, sleeping, { type: 'run-finished', outcome }]), 'a')).toMatchObject({
    state: 'cancelled',
    sleepsUntilMs: null,
  });
});

test('a stage whose condition did not hold is passed, until a lost VM has it decided again', () => {
  const passed: readonly RunEventBody[] = [ADMITTED, { type: 'stage-passed', stage: 'b' }];
  expect(stage(viewAfter(passed), 'b')).toMatchObject({
    state: 'passed',
    reason: 'its condition does not hold',
    attempt: 0,
  });
  const restarted: RunEventBody = { type: 'scope-restarted', scope: 'main', reason: 'vm/lost', stages: ['a', 'b'] };
  expect(stage(viewAfter([...passed, restarted]), 'b')).toMatchObject({ state: 'waiting', dependsOn: ['a'] });
  const outcome = { state: 'succeeded', failedStage: null, failure: null, output: null } as const;
  const ended = viewAfter([...passed, { type: 'run-finished', outcome }]);
  expect([ended.state, stage(ended, 'b').state]).toEqual(['succeeded', 'passed']);
});

test('the output of a service is the last publication of its latest attempt', () => {
  const output = (sha256: string) => ({ sha256, sizeBytes: 1, mediaType: 'application/json' });
  const published = (execKey: string, sha256: string): RunEventBody => ({
    type: 'stage-published',
    stage: 'a',
    execKey,
    output: output(sha256),
  });
  const of = (...bodies: readonly RunEventBody[]) =>
    events([ADMITTED, ...bodies]).reduce(project, emptyView('r')).stages[0]!.published;
  const first: RunEventBody = { type: 'stage-started', stage: 'a', execKey: 'a/0/1', attempt: 1 };
  const second: RunEventBody = { type: 'stage-started', stage: 'a', execKey: 'a/0/2', attempt: 2 };
  expect(of(first)).toBeUndefined();
  expect(of(first, published('a/0/1', '1'), published('a/0/1', '2'))).toEqual({ output: output('2'), atMs: 1_030 });
  expect(of(first, published('a/0/1', '1'), second)).toBeUndefined();
  expect(of(first, second, published('a/0/1', 'late'))).toBeUndefined();
});
