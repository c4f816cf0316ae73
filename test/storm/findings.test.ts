/** Tests that the storm's checker finds mistakes: each record here is a good one with one mistake. */
import { Buffer } from 'node:buffer';
import { expect, test } from 'vitest';
import type { ErrorCode } from '../../domain/errors/codes.ts';
import type { RunEvent, RunEventBody } from '../../domain/run/event.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { stageResult } from '../rig/runs/stage-results.ts';
import { findingsOf, isExplainedFailure } from './findings.ts';
import { boxes, cancelled, lines, shared, type Story } from './story.ts';

const REF = { sha256: 'a'.repeat(64), sizeBytes: 1, mediaType: 'text/plain' };

function result(
  stage: string,
  execKey: string,
  outcome: StageResult['outcome'] = 'succeeded',
  code: ErrorCode | null = null,
): StageResult {
  return stageResult(execKey, {
    stage,
    outcome,
    failure: code === null ? null : { code, message: 'a message', stderrTail: '' },
    output: outcome === 'succeeded' ? REF : null,
    command: { exitCode: outcome === 'succeeded' ? 0 : 3, stdoutBytes: 0, stderrBytes: 0 },
  });
}

function output(stage: string, execKey: string, stream: 'stdout' | 'stderr', text: string): readonly RunEventBody[] {
  let from = 0;
  return (text.match(/[^\n]*\n|[^\n]+$/g) ?? []).map((line): RunEventBody => {
    const to = from + Buffer.byteLength(line);
    const body = { type: 'output', stage, execKey, stream, from, to, encoding: 'utf8', data: line } as const;
    from = to;
    return body;
  });
}

const admitted: RunEventBody = {
  type: 'run-admitted',
  name: 'x',
  kind: 'workflow',
  hostId: 'h',
  stages: [],
  outputStage: null,
};

function finished(state: 'succeeded' | 'failed' | 'cancelled', code: ErrorCode | null = null): RunEventBody {
  return {
    type: 'run-finished',
    outcome: {
      state,
      failedStage: null,
      failure: code === null ? null : { code, message: 'a message', stderrTail: '' },
      output: null,
    },
  };
}

/** One attempt of a stage that did all it should. */
function attempt(
  story: Story,
  stage: string,
  number = 1,
  outcome: 'succeeded' | 'failed' = 'succeeded',
): readonly RunEventBody[] {
  const of = story.stages.find((candidate) => candidate.stage === stage)!;
  const execKey = `${stage}/0/${number}`;
  return [
    { type: 'stage-started', stage, execKey, attempt: number },
    ...output(stage, execKey, 'stdout', outcome === 'succeeded' ? of.stdout : of.failing!),
    ...output(stage, execKey, 'stderr', outcome === 'succeeded' ? of.stderr : ''),
    {
      type: 'stage-finished',
      stage,
      execKey,
      result: result(stage, execKey, outcome, outcome === 'failed' ? 'stage/exit-nonzero' : null),
    },
  ];
}

function lost(scope: string, generation: number): RunEventBody {
  return { type: 'vm-lost', vmKey: `r/${scope}/${generation}`, scope, generation, reason: 'vm/lost: gone' };
}

function record(...all: readonly (RunEventBody | readonly RunEventBody[])[]): readonly RunEvent[] {
  return all.flat().map((body, index) => ({ seq: index + 1, id: `event/${index + 1}`, atMs: 0, body }));
}

const story = lines();
const good = record(admitted, attempt(story, 'lines'), finished('succeeded'));
/** The good record, with its places numbered again after a change. */
const changed = (change: (events: RunEvent[]) => RunEvent[]): readonly RunEvent[] =>
  change([...good]).map((event, index) => ({ ...event, seq: index + 1 }));
const at = (events: readonly RunEvent[], text: string): number =>
  events.findIndex(({ body }) => body.type === 'output' && body.data === text);

test('a run that did what it should has no finding', () => {
  expect(findingsOf(story, good)).toEqual([]);
  expect(
    findingsOf(
      boxes(),
      record(admitted, ...boxes().stages.map(({ stage }) => attempt(boxes(), stage)), finished('succeeded')),
    ),
  ).toEqual([]);
});

test('a lost line is found, also when the offsets hide it', () => {
  const without = changed((events) => events.toSpliced(at(events, 'line 7\n'), 1));
  expect(findingsOf(story, without).join('\n')).toMatch(/begins at|line 7 is "line 8", not "line 7"/);
  const closed = record(
    admitted,
    attempt(
      { ...story, stages: [{ ...story.stages[0]!, stdout: story.stages[0]!.stdout.replace('line 7\n', '') }] },
      'lines',
    ),
    finished('succeeded'),
  );
  expect(findingsOf(story, closed)).toEqual([expect.stringContaining('line 7 is "line 8", not "line 7"')]);
});

test('a doubled line is found, also when the offsets hide it', () => {
  const twice = changed((events) =>
    events.toSpliced(at(events, 'line 7\n'), 0, { ...events[at(events, 'line 7\n')]!, id: 'another' }),
  );
  expect(findingsOf(story, twice).length).toBeGreaterThan(0);
  const shifted = record(
    admitted,
    attempt(
      {
        ...story,
        stages: [{ ...story.stages[0]!, stdout: story.stages[0]!.stdout.replace('line 7\n', 'line 7\nline 7\n') }],
      },
      'lines',
    ),
    finished('succeeded'),
  );
  expect(findingsOf(story, shifted)).toEqual([expect.stringContaining('line 8 is "line 7", not "line 8"')]);
});

test('lines in the wrong order are found', () => {
  const swapped = changed((events) => {
    const [a, b] = [at(events, 'line 7\n'), at(events, 'line 8\n')];
    return events.with(a, events[b]!).with(b, events[a]!);
  });
  expect(findingsOf(story, swapped).length).toBeGreaterThan(0);
});

test('a command that ran twice within one attempt is found', () => {
  const ranTwice = {
    ...story,
    stages: [{ ...story.stages[0]!, stdout: story.stages[0]!.stdout.replace('start\n', 'start\nstart\n') }],
  };
  expect(findingsOf(story, record(admitted, attempt(ranTwice, 'lines'), finished('succeeded')))).toEqual([
    expect.stringContaining('"start"'),
  ]);
});

test('events that are recorded twice, are missing or come after the end are found', () => {
  expect(findingsOf(story, [...good.slice(0, 3), ...good.slice(4)]).join()).toContain('in place 4');
  expect(
    findingsOf(
      story,
      changed((events) => [...events, { ...events[3]!, id: 'late' }]),
    ).join(),
  ).toContain('after the end');
  expect(findingsOf(story, good.with(3, { ...good[3]!, id: good[2]!.id })).join()).toContain('stands twice');
  expect(findingsOf(story, record(admitted, attempt(story, 'lines'))).join()).toContain('0 events run-finished');
  expect(
    findingsOf(story, record(admitted, attempt(story, 'lines'), finished('succeeded'), finished('succeeded'))).join(),
  ).toContain('2 events run-finished');
});

test('a second result of one attempt is found', () => {
  const double = changed((events) => events.toSpliced(events.length - 1, 0, { ...events.at(-2)!, id: 'another' }));
  expect(findingsOf(story, double).join()).toContain('has 2 results');
});

test('an attempt that another one follows needs an event that says why', () => {
  const cut = attempt(story, 'lines').slice(0, 9);
  const retrying: RunEventBody = {
    type: 'stage-retrying',
    stage: 'lines',
    execKey: 'lines/0/1',
    reason: 'vm/lost',
    delayMs: 0,
  };
  const again = attempt(story, 'lines', 2);
  expect(findingsOf(story, record(admitted, cut, lost('_shared', 0), retrying, again, finished('succeeded')))).toEqual(
    [],
  );
  expect(findingsOf(story, record(admitted, cut, lost('_shared', 0), again, finished('succeeded'))).join()).toContain(
    'no event says why',
  );
  expect(findingsOf(story, record(admitted, cut, retrying, again, finished('succeeded'))).join()).toContain(
    '0 lost VMs',
  );
  expect(findingsOf(story, record(admitted, attempt(story, 'lines'), again, finished('succeeded'))).join()).toContain(
    'without a word',
  );
});

test('an attempt that was cut off has the beginning of its text and nothing else', () => {
  const retrying: RunEventBody = {
    type: 'stage-retrying',
    stage: 'lines',
    execKey: 'lines/0/1',
    reason: 'vm/lost',
    delayMs: 0,
  };
  const started: RunEventBody = { type: 'stage-started', stage: 'lines', execKey: 'lines/0/1', attempt: 1 };
  const wrong = record(
    admitted,
    started,
    output('lines', 'lines/0/1', 'stdout', 'line 1\nline 3\n'),
    lost('_shared', 0),
    retrying,
    attempt(story, 'lines', 2),
    finished('succeeded'),
  );
  expect(findingsOf(story, wrong)).toEqual([expect.stringContaining('cut off')]);
});

test('a shared VM that starts again names the stages that run again', () => {
  const flaky = shared();
  const failing = attempt(flaky, 'flaky', 1, 'failed');
  const retrying: RunEventBody = {
    type: 'stage-retrying',
    stage: 'flaky',
    execKey: 'flaky/0/1',
    reason: 'attempt 1 of 20 failed',
    delayMs: 0,
  };
  const rest = [attempt(flaky, 'flaky', 2), attempt(flaky, 'side'), attempt(flaky, 'last'), finished('succeeded')];
  expect(findingsOf(flaky, record(admitted, attempt(flaky, 'first'), failing, retrying, ...rest))).toEqual([]);
  const restarted = (stages: readonly string[]): RunEventBody => ({
    type: 'scope-restarted',
    scope: '_shared',
    reason: 'vm/lost',
    stages,
  });
  const again = (stages: readonly string[]): readonly string[] =>
    findingsOf(
      flaky,
      record(
        admitted,
        attempt(flaky, 'first'),
        lost('_shared', 0),
        restarted(stages),
        attempt(flaky, 'first', 2),
        failing,
        retrying,
        ...rest,
      ),
    );
  expect(again(['first'])).toEqual([]);
  expect(again([]).join()).toContain('first runs again without a word');
});

test('a failure needs a reason: lost VMs beyond what is tried again, each of them said', () => {
  const retry = (number: number): readonly RunEventBody[] => [
    { type: 'stage-started', stage: 'lines', execKey: `lines/0/${number}`, attempt: number },
    lost('_shared', number - 1),
    { type: 'stage-retrying', stage: 'lines', execKey: `lines/0/${number}`, reason: 'vm/lost', delayMs: 0 },
  ];
  const four = record(admitted, retry(1), retry(2), retry(3), retry(4).slice(0, 2), finished('failed', 'vm/lost'));
  const three = record(admitted, retry(1), retry(2), retry(3).slice(0, 2), finished('failed', 'vm/lost'));
  expect([isExplainedFailure(four), isExplainedFailure(three)]).toEqual([true, false]);
  expect(findingsOf(story, four)).toEqual([]);
  expect(findingsOf(story, three).join()).toContain('the run is failed');
  expect(findingsOf(story, record(admitted, attempt(story, 'lines'), finished('failed', 'store/io'))).join()).toContain(
    'store/io',
  );
});

test('a cancelled run has the beginning of its output', () => {
  const endless = cancelled(1_000);
  const start: RunEventBody = { type: 'stage-started', stage: 'endless', execKey: 'endless/0/1', attempt: 1 };
  const end: RunEventBody = {
    type: 'stage-finished',
    stage: 'endless',
    execKey: 'endless/0/1',
    result: result('endless', 'endless/0/1', 'cancelled'),
  };
  const cut = (text: string): readonly RunEvent[] =>
    record(admitted, start, output('endless', 'endless/0/1', 'stdout', text), end, finished('cancelled'));
  expect(findingsOf(endless, cut('line 1\nline 2\nli'))).toEqual([]);
  expect(findingsOf(endless, cut('line 1\nline 1\n')).join()).toContain('cut off');
  expect(findingsOf(endless, record(admitted, start, finished('cancelled')))).toEqual([]);
  expect(
    findingsOf(endless, record(admitted, start, { ...start, execKey: 'endless/0/2' }, finished('cancelled'))).join(),
  ).toContain('0 lost VMs');
  expect(findingsOf(endless, record(admitted, start, end, finished('succeeded'))).join()).toContain(
    'the run is succeeded',
  );
});
