import { describe, expect, test } from 'vitest';
import type { RunEvent, RunEventBody } from '../domain/run/event.ts';
import {
  type StageFailure,
  type EarlierStageResult,
  type StageResult,
  toStageResult,
} from '../domain/run/stage-result.ts';
import { emptyView, project, type RunView } from './projection.ts';

function result(stage: string, change: Partial<EarlierStageResult> = {}): StageResult {
  return toStageResult({
    stage,
    execKey: `${stage}/0/1`,
    outcome: 'succeeded',
    failure: null,
    exitCode: 0,
    durationMs: 40,
    stdoutBytes: 10,
    stderrBytes: 2,
    output: null,
    outputs: {},
    isolation: 'microvm',
    accelerator: 'tcg',
    ...change,
  });
}

const FAILURE: StageFailure = {
  code: 'stage/exit-nonzero',
  message: 'stage b: exit code 3',
  stderrTail: 'no such row',
};
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

/** Events with `seq` from 1 and a clock that goes 10 ms a step. */
function events(bodies: readonly RunEventBody[]): RunEvent[] {
  return bodies.map((body, index) => ({ seq: index + 1, id: `e${index}`, atMs: 1_000 + index * 10, body }));
}

function view(bodies: readonly RunEventBody[]): RunView {
  return events(bodies).reduce(project, emptyView('r'));
}

function stage(of: RunView, id: string): RunView['stages'][number] {
  const found = of.stages.find((candidate) => candidate.id === id);
  if (found === undefined) throw new Error(`no stage ${id}`);
  return found;
}

const FAILED_RUN: readonly RunEventBody[] = [
  ADMITTED,
  { type: 'vm-starting', ...VM },
  {
    type: 'vm-ready',
    ...VM,
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
  { type: 'stage-finished', stage: 'a', execKey: 'a/0/1', result: { ...result('a'), usage: { vmCpuMs: 900 } } },
  { type: 'stage-started', stage: 'b', execKey: 'b/0/1', attempt: 1 },
  {
    type: 'stage-finished',
    stage: 'b',
    execKey: 'b/0/1',
    result: result('b', { outcome: 'failed', failure: FAILURE, exitCode: 3 }),
  },
  { type: 'stage-skipped', stage: 'c', reason: 'b failed' },
  { type: 'vm-stopped', ...VM },
  { type: 'notice', level: 'warning', message: 'emulated: no hardware isolation' },
  { type: 'run-finished', outcome: { state: 'failed', failedStage: 'b', failure: FAILURE, output: null } },
];

describe('projection', () => {
  test('a failed run, whole', () => {
    expect(view(FAILED_RUN)).toMatchInlineSnapshot(`
      {
        "damage": null,
        "finishedAtMs": 1110,
        "hostId": "host-1",
        "kind": "workflow",
        "name": "sales",
        "notices": [
          {
            "atMs": 1100,
            "level": "warning",
            "message": "emulated: no hardware isolation",
          },
        ],
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
            "attempt": 1,
            "dependsOn": [],
            "durationMs": 40,
            "execKey": "a/0/1",
            "exitCode": 0,
            "failure": null,
            "id": "a",
            "isolation": "microvm",
            "outputBytes": 12,
            "reason": null,
            "reattached": 0,
            "startedAtMs": 1030,
            "state": "succeeded",
            "usage": {
              "vmCpuMs": 900,
            },
          },
          {
            "accelerator": "tcg",
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
            "id": "b",
            "isolation": "microvm",
            "outputBytes": 12,
            "reason": null,
            "reattached": 0,
            "startedAtMs": 1060,
            "state": "failed",
            "usage": {},
          },
          {
            "accelerator": null,
            "attempt": 0,
            "dependsOn": [
              "b",
            ],
            "durationMs": null,
            "execKey": "",
            "exitCode": null,
            "failure": null,
            "id": "c",
            "isolation": null,
            "outputBytes": 0,
            "reason": "b failed",
            "reattached": 0,
            "startedAtMs": null,
            "state": "skipped",
            "usage": {},
          },
        ],
        "startedAtMs": 1000,
        "state": "failed",
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
            "state": "stopped",
            "vmKey": "r/main/1",
          },
        ],
      }
    `);
  });

  test('shows a run on its way', () => {
    const running = view(FAILED_RUN.slice(0, 5));
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
        result: result('a', { outcome: 'failed', failure: FAILURE, exitCode: 3 }),
      },
      { type: 'stage-retrying', stage: 'a', execKey: 'a/0/1', reason: 'exit code 3', delayMs: 2_000 },
    ];
    expect(stage(view(first), 'a')).toMatchObject({ state: 'retrying', attempt: 1, reason: 'exit code 3' });
    const second = view([...first, { type: 'stage-started', stage: 'a', execKey: 'a/0/2', attempt: 2 }]);
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
      body: { type: 'stage-finished', stage: 'a', execKey: 'a/0/1', result: result('a', { outcome: 'cancelled' }) },
    });
    expect(stage(late, 'a')).toMatchObject({ state: 'running', attempt: 2 });
  });

  test('does not take an end back when the start comes after it', () => {
    const swapped = view([
      ADMITTED,
      { type: 'stage-finished', stage: 'a', execKey: 'a/0/1', result: result('a') },
      { type: 'stage-started', stage: 'a', execKey: 'a/0/1', attempt: 1 },
    ]);
    expect(stage(swapped, 'a')).toMatchObject({ state: 'succeeded', attempt: 1, startedAtMs: 1_020, durationMs: 40 });
  });

  test('shows stages before the admission that names them, and keeps what they did', () => {
    const early = view([{ type: 'stage-started', stage: 'b', execKey: 'b/0/1', attempt: 1 }, ADMITTED]);
    expect(early.stages.map(({ id, state }) => [id, state])).toEqual([
      ['a', 'waiting'],
      ['b', 'running'],
      ['c', 'waiting'],
    ]);
    expect(stage(early, 'b').dependsOn).toEqual(['a']);
  });

  test('a lost VM stays lost and its successor stands beside it', () => {
    const lost = view([
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

  test.each([
    ['cancelled', 'cancelled'],
    ['terminated', 'cancelled'],
    ['failed', 'failed'],
  ] as const)('a run that ends %s leaves no stage running', (state, expected) => {
    const ended = view([
      ADMITTED,
      { type: 'stage-started', stage: 'a', execKey: 'a/0/1', attempt: 1 },
      { type: 'run-finished', outcome: { state, failedStage: null, failure: null, output: null } },
    ]);
    expect(ended.state).toBe(state);
    expect(ended.stages.map((one) => one.state)).toEqual([expected, 'skipped', 'skipped']);
    expect(stage(ended, 'a').durationMs).toBe(10);
  });

  test('keeps the first outcome', () => {
    const twice = view([
      ...FAILED_RUN,
      { type: 'run-finished', outcome: { state: 'terminated', failedStage: null, failure: null, output: null } },
    ]);
    expect(twice.state).toBe('failed');
    expect(twice.finishedAtMs).toBe(1_110);
  });

  test('shows who waits for an answer, and for how long the answer took', () => {
    const asked = [ADMITTED, { type: 'stage-asking', stage: 'a', execKey: 'a/0/1', attempt: 1 }] as const;
    expect(stage(view(asked), 'a')).toMatchObject({
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
      failure: FAILURE,
    } as const;
    const declined = view([...asked, answer]);
    expect(stage(declined, 'a')).toMatchObject({ state: 'failed', failure: FAILURE, durationMs: 10 });
    const again = view([...asked, answer, { ...asked[1], execKey: 'a/0/2', attempt: 2 }]);
    expect(stage(again, 'a')).toMatchObject({ state: 'asking', attempt: 2, failure: null });
    const late = view([...asked, answer, { ...asked[1], execKey: 'a/0/2', attempt: 2 }, answer]);
    expect(stage(late, 'a')).toMatchObject({ state: 'asking', attempt: 2 });
    const over = view([...asked, FAILED_RUN.at(-1)!]);
    expect(stage(over, 'a').state).toBe('failed');
  });

  test('passes over a type that it does not know', () => {
    const before = view(FAILED_RUN.slice(0, 3));
    const unknown = {
      seq: 4,
      id: 'x',
      atMs: 5,
      body: { type: 'from-the-future', stage: 'a' } as unknown as RunEventBody,
    };
    expect(project(before, unknown)).toEqual({ ...before, seq: 4 });
  });

  test('changes neither what it is given nor what it gave', () => {
    let current = emptyView('r');
    for (const event of events(FAILED_RUN)) {
      const copy = structuredClone(current);
      const next = project(current, event);
      expect(current).toEqual(copy);
      current = next;
    }
  });
});
