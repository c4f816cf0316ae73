import { describe, expect, test } from 'vitest';
import { stageResult } from '../../test/rig/runs/stage-results.ts';
import { events } from '../../test/rig/runs/run-events.ts';
import type { RunEventBody, RunOutcome } from '../run/event.ts';
import { EVENT_TYPES, readEventId, writeEventId } from './event.ts';
import { computeGroups, type EventContext } from './event-parts.ts';
import { EVENT_TABLE, mapEvent, mapStart } from './map-events.ts';

const STAGES = [
  { id: 'a', dependsOn: [] },
  { id: 'b', dependsOn: ['a'] },
  { id: 'c', dependsOn: ['a', 'b'] },
];
const OWNER = { stage: 'a', execKey: 'a/0/1' };
const VM = { vmKey: 'vm-1', scope: 'a', generation: 1 };
const FAILURE = { code: 'stage/exit-nonzero', message: 'exit code 3', stderrTail: '' } as const;
const DATA = { sha256: 'a'.repeat(64), sizeBytes: 1, mediaType: 'text/plain' };
const QUESTION = { message: 'ok?', by: [], fields: [], deadlineAtMs: null, onTimeout: 'fail' } as const;

function contextOf(change: Partial<EventContext> = {}): EventContext {
  return {
    runId: 'r',
    started: { atMs: 900, file: 'spec.yaml' },
    admitted: { name: 'sales', kind: 'workflow', stages: STAGES },
    skills: new Map(),
    resultProblem: null,
    cancelReason: null,
    ...change,
  };
}

function map(body: RunEventBody, change: Partial<EventContext> = {}) {
  return mapEvent(events([body])[0]!, contextOf(change), 'v1');
}

function finish(state: RunOutcome['state'], failure: RunOutcome['failure'] = null): RunEventBody {
  return { type: 'run-finished', outcome: { state, failedStage: null, failure, output: null } };
}

const ADMITTED: RunEventBody = {
  type: 'run-admitted',
  name: 'sales',
  kind: 'workflow',
  hostId: 'here',
  stages: STAGES,
  outputStage: 'c',
};

function end(change: Parameters<typeof stageResult>[1]): RunEventBody {
  return { type: 'stage-finished', ...OWNER, result: stageResult(OWNER.execKey, change) };
}

const ANSWERED = { type: 'stage-answered', ...OWNER, failure: null } as const;

/** A row for each event of a run: what it becomes, in the order of the events. */
const ROWS: readonly (readonly [string, RunEventBody, readonly string[], Partial<EventContext>?])[] = [
  ['an admission', ADMITTED, ['run.spec.loaded', 'workflow.planned', 'stage.queued', 'stage.queued', 'stage.queued']],
  [
    'an admission of another client',
    ADMITTED,
    ['run.started', 'run.spec.loaded', 'workflow.planned', 'stage.queued', 'stage.queued', 'stage.queued'],
    { started: null },
  ],
  [
    'an admission of a pipeline',
    { ...ADMITTED, kind: 'pipeline', stages: STAGES.slice(0, 1) },
    ['run.spec.loaded', 'box.started', 'skill.mounted', 'stage.queued'],
    { skills: new Map([['a', [{ kind: 'cli', name: 'jq' }]]]) },
  ],
  ['a VM that is ready', { type: 'vm-ready', ...VM, vmm: 'qemu' } as RunEventBody, ['env.provisioned']],
  ['a start of a stage', { type: 'stage-started', ...OWNER, attempt: 1 }, ['stage.started']],
  [
    'output',
    { type: 'output', ...OWNER, stream: 'stdout', from: 0, to: 2, encoding: 'utf8', data: 'hi' },
    ['log.chunk'],
  ],
  [
    'a success with output',
    end({ command: { exitCode: 0, stdoutBytes: 2, stderrBytes: 0 } }),
    ['log.closed', 'stage.completed'],
  ],
  ['a failure', end({ failure: FAILURE }), ['stage.failed']],
  ['a cancelled stage', end({ outcome: 'cancelled' }), ['stage.failed']],
  ['a stage that is passed over', end({ outcome: 'passed', command: null }), ['stage.skipped']],
  ['a failure without a result', { type: 'stage-failed', ...OWNER, failure: FAILURE }, ['stage.failed']],
  ['a retry', { type: 'stage-retrying', ...OWNER, reason: 'x', delayMs: 0 }, ['stage.queued']],
  ['a question', { type: 'stage-asking', ...OWNER, attempt: 1, question: QUESTION }, ['stage.started']],
  ['an approval', { ...ANSWERED, outcome: 'succeeded' }, ['stage.completed']],
  ['a rejection', { ...ANSWERED, outcome: 'failed', failure: FAILURE }, ['stage.failed']],
  ['a wait', { type: 'stage-sleeping', ...OWNER, attempt: 1, untilMs: 5 }, ['stage.started']],
  ['the end of a wait', { type: 'stage-woken', ...OWNER, outcome: 'succeeded' }, ['stage.completed']],
  ['a cancelled wait', { type: 'stage-woken', ...OWNER, outcome: 'cancelled' }, ['stage.failed']],
  ['a stage that is skipped', { type: 'stage-skipped', stage: 'b', reason: 'a failed' }, ['stage.skipped']],
  ['a condition that does not hold', { type: 'stage-passed', stage: 'b' }, ['stage.skipped']],
  [
    'a result of an earlier run',
    { type: 'stage-given', stage: 'a', runId: 'q', outcome: 'succeeded', output: null, outputs: {} },
    ['stage.completed'],
  ],
  ['a publication', { type: 'stage-published', ...OWNER, output: DATA }, ['run.output_ready']],
  [
    'another VM',
    { type: 'scope-restarted', scope: 'a', reason: 'lost', stages: ['a', 'b'] },
    ['stage.queued', 'stage.queued'],
  ],
  ['another visit of a loop', { type: 'loop-visited', stage: 'c', visit: 2, stages: ['a'] }, ['stage.queued']],
  ['a success of the run', finish('succeeded'), ['run.finished']],
  [
    'a success without a result',
    finish('succeeded'),
    ['run.failed'],
    { resultProblem: { kind: 'missing', message: "stage 'a' completed without result.json" } },
  ],
  ['a failure of the run', finish('failed', FAILURE), ['run.failed']],
  ['a run that was terminated', finish('terminated'), ['run.failed']],
  ['a run that was cancelled', finish('cancelled'), ['run.cancelled']],
  [
    'a spec with mistakes',
    finish('failed', { ...FAILURE, code: 'spec/invalid' }),
    ['spec.parse_failed', 'run.failed'],
    { admitted: null },
  ],
  [
    'a refusal of another client',
    finish('failed', { ...FAILURE, code: 'admit/invalid' }),
    ['run.started', 'run.failed'],
    { admitted: null, started: null },
  ],
  ['a notice', { type: 'notice', level: 'info', message: 'x' }, []],
];

describe('events of a run', () => {
  test.each(ROWS.map((row) => [row[0], row] as const))('%s', (_what, [, body, types, change = {}]) => {
    const mapped = map(body, change);
    expect(mapped.map(({ event_type: type }) => type)).toEqual(types);
    const allowed: readonly string[] = EVENT_TABLE[body.type].types;
    expect(types.filter((type) => !allowed.includes(type))).toEqual([]);
  });

  test('the rows reach every type of the table, and the table every type that Void-Box has', () => {
    const reached = (type: string): readonly string[] =>
      ROWS.filter(([, body]) => body.type === type).flatMap(([, , types]) => types);
    for (const [type, { types }] of Object.entries(EVENT_TABLE))
      expect(
        types.filter((each) => !reached(type).includes(each)),
        type,
      ).toEqual([]);
    const all = new Set<string>(Object.values(EVENT_TABLE).flatMap(({ types }) => types));
    expect([...all].toSorted()).toEqual(Object.keys(EVENT_TYPES).toSorted());
  });

  test('an event of a later build becomes no event', () => {
    expect(map({ type: 'constructor' } as unknown as RunEventBody)).toEqual([]);
  });

  test('the version 2 has other names, and both versions have both names', () => {
    const [event] = events([{ type: 'stage-started', ...OWNER, attempt: 2 }]);
    const [first] = mapEvent(event!, contextOf(), 'v1');
    const [second] = mapEvent(event!, contextOf(), 'v2');
    expect(first).toEqual({
      ts_ms: 1_000,
      level: 'info',
      event_type: 'stage.started',
      message: "stage 'a' started (attempt 2)",
      run_id: 'r',
      box_name: null,
      skill_id: null,
      skill_type: null,
      environment_id: null,
      mode: null,
      stream: null,
      seq: 2 ** 18,
      payload: { stage_attempt: 2 },
      stage_name: 'a',
      group_id: 'g0',
      event_id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
      attempt_id: 1,
      timestamp: '1970-01-01T00:00:01.000Z',
      event_type_v2: 'StageStarted',
    });
    expect(second).toEqual({ ...first, event_type: 'StageStarted' });
  });

  test('payloads have the fields of Void-Box', () => {
    expect(map(end({ durationMs: 4 })).at(-1)?.payload).toEqual({ duration_ms: 4, exit_code: 0, stage_attempt: 1 });
    expect(map(end({ durationMs: 4, failure: FAILURE })).at(-1)?.payload).toEqual({
      duration_ms: 4,
      exit_code: 3,
      error: 'exit code 3',
      stage_attempt: 1,
    });
    expect(map(end({ outcome: 'cancelled', command: null })).at(-1)?.payload).toMatchObject({
      exit_code: -1,
      error: 'run cancelled',
    });
    expect(map({ type: 'stage-skipped', stage: 'b', reason: 'a failed' })[0]).toMatchObject({
      level: 'warn',
      payload: { reason: 'a failed', stage_attempt: 1 },
    });
    expect(map(ADMITTED).at(-1)).toMatchObject({ group_id: 'g2', payload: { depends_on: ['a', 'b'] } });
  });

  test('output that is no text keeps its encoding', () => {
    const body = {
      type: 'output',
      ...OWNER,
      stream: 'stderr',
      from: 0,
      to: 1,
      encoding: 'base64',
      data: '/w==',
    } as const;
    expect(map(body)[0]).toMatchObject({ stream: 'stderr', payload: { data: '/w==', encoding: 'base64' } });
  });

  test('a box has the name of its stage, and a step has no box', () => {
    const body = { type: 'stage-started', ...OWNER, attempt: 1 } as const;
    expect(map(body)[0]?.box_name).toBeNull();
    expect(map(body, { admitted: { name: 'x', kind: 'agent', stages: STAGES } })[0]?.box_name).toBe('a');
  });

  test('the cancelled run names the reason', () => {
    expect(map(finish('cancelled'), { cancelReason: 'not needed' })[0]?.message).toBe('not needed');
  });

  test('the start comes before all events', () => {
    const [start] = mapStart(contextOf(), 'v1');
    expect(start).toMatchObject({
      event_type: 'run.started',
      seq: 0,
      ts_ms: 900,
      message: 'run created for spec.yaml',
    });
    expect(mapStart(contextOf({ started: null }), 'v1')).toEqual([]);
  });

  test('a type of a stage within an item is its whole name', () => {
    const body = { type: 'stage-started', stage: 'fixes.work', execKey: 'fixes.work/fixes~1/1', attempt: 1 } as const;
    expect(map(body)[0]?.stage_name).toBe('fixes[1].work');
  });
});

describe('ids of events', () => {
  const PLACE = { runId: 'r', atMs: 1_700_000_000_000, seq: 123_456, index: 2_000 };

  test.each([
    PLACE,
    { ...PLACE, seq: 0, index: 0 },
    { ...PLACE, seq: 2 ** 44 - 1, index: 2 ** 18 - 1 },
    { ...PLACE, atMs: 0 },
  ])('an id leads to its place: %j', (place) => {
    expect(readEventId(writeEventId(place), 'r')).toEqual({ seq: place.seq, index: place.index });
  });

  test.each([
    ['another run', 'other', writeEventId(PLACE)],
    ['no id', 'r', 'nonexistent-id'],
    ['another version', 'r', writeEventId(PLACE).replace('-7', '-4')],
    ['capital letters', 'r', writeEventId(PLACE).toUpperCase()],
    ['an empty text', 'r', ''],
  ])('an id of %s leads nowhere', (_what, runId, id) => {
    expect(readEventId(id, runId)).toBeNull();
  });
});

test('a group is the longest way from a first stage', () => {
  const stages = [
    { id: 'd', dependsOn: ['c'] },
    { id: 'c', dependsOn: ['a'] },
    { id: 'a', dependsOn: [] },
    { id: 'b', dependsOn: ['a', 'd'] },
  ];
  expect(Object.fromEntries(computeGroups(stages))).toEqual({ a: 0, c: 1, d: 2, b: 3 });
});
