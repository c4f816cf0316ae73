import { expect, test } from 'vitest';
import { start, transition } from '../../domain/pipeline/machine.ts';
import type { RunOutcome } from '../../domain/run/event.ts';
import { machineOf } from '../../test/machine/plan-of.ts';
import { renderEndedBoard, foundAnEnd, runBoard } from './current-details.ts';

const PLAN = machineOf('build test>build');
const FIRST = start(PLAN).state;

test('a board names the command for the logs, unless the id would have to be quoted', () => {
  expect(runBoard('nightly-2026-11-22T06:00:00Z', PLAN, FIRST)).toContain(
    '\n\nLogs: `voidbox logs nightly-2026-11-22T06:00:00Z`\n',
  );
  for (const runId of ['a b', "a'b", 'a`b', '$(id)', '-f', 'ä\n', 'a;b'])
    expect(runBoard(runId, PLAN, FIRST)).not.toContain('voidbox logs');
});

test('a board shows the first failure above the stages, and its text is not Markdown', () => {
  const { state } = transition(PLAN, FIRST, {
    type: 'stage-broken',
    stageId: 'build',
    execKey: 'build/0/1',
    code: 'stage/cannot-start',
    message: '![x](http://127.0.0.1/)',
  });
  const board = runBoard('r', PLAN, state);
  expect(board.split('\n\n')[1]).toBe('First failure: **build**, `stage/cannot-start` `![x](http://127.0.0.1/)`');
  expect(board).toMatch(/^\*\*test\*\*: 1 failed, 1 skipped\n/);
  expect(board).toMatch(/^\| build\W+\*\*failed\*\*/m);
  expect(foundAnEnd(state)).toBe(false);
});

test('after a reset of a run that had ended, the board shows that end, not the failures of its refused calls', () => {
  const { state } = transition(PLAN, FIRST, {
    type: 'stage-broken',
    stageId: 'build',
    execKey: 'build/0/1',
    code: 'run/ended',
    message: 'run r has already ended (succeeded)',
  });
  expect(foundAnEnd(state)).toBe(true);
  const succeeded: RunOutcome = { state: 'succeeded', failedStage: null, failure: null, output: null };
  expect(renderEndedBoard('r', PLAN, succeeded)).toMatch(
    /^\*\*test\*\*: succeeded before it was reset\. .*\n\nStages: `voidbox status r`\n\nLogs: `voidbox logs r`$/,
  );
  const failure = {
    code: 'stage/exit-nonzero',
    message: 'stage test ended with exit code 3',
    stderrTail: 'secret',
  } as const;
  const board = renderEndedBoard('r', PLAN, { ...succeeded, state: 'failed', failedStage: 'test', failure });
  expect(board).toContain('First failure: **test**, `stage/exit-nonzero` `stage test ended with exit code 3`');
  expect(board).not.toContain('secret');
});

test('a board shows tolerated failures', () => {
  const plan = machineOf('build test>build', { tolerate: 'build' });
  const failed = {
    type: 'stage-broken',
    stageId: 'build',
    execKey: 'build/0/1',
    code: 'vm/refused',
    message: 'x',
  } as const;
  const { state } = transition(plan, start(plan).state, failed);
  expect(runBoard('r', plan, state)).toContain('\n\n1 failure tolerated: **build**\n');
});

test('a board shows mocked stages, also after a reset', () => {
  const plan = {
    ...PLAN,
    stages: PLAN.stages.map((stage) => (stage.id === 'test' ? { ...stage, mocked: true as const } : stage)),
  };
  const outcome: RunOutcome = { state: 'succeeded', failedStage: null, failure: null, output: null };
  for (const board of [runBoard('r', plan, FIRST), renderEndedBoard('r', plan, outcome)])
    expect(board).toContain('Mocked, so that their work is not done: **test**');
  expect(runBoard('r', PLAN, FIRST)).not.toContain('Mocked');
});

test('a board shows why a run that has failed continues', () => {
  const plan = machineOf('build last', { finally: 'last' });
  const { state } = transition(plan, start(plan).state, {
    type: 'stage-broken',
    stageId: 'build',
    execKey: 'build/0/1',
    code: 'stage/cannot-start',
    message: 'no',
  });
  expect(runBoard('r', plan, state)).toContain('\n\nAll other stages have ended; `finally`: **last**\n');
  expect(runBoard('r', plan, start(plan).state)).not.toContain('finally');
});

test('a board shows the number of items of a stage, and how many of their windows are done', () => {
  const board = (items: number, windows: number, ended: number, failed: number): string =>
    runBoard('r', PLAN, FIRST, undefined, new Map([['build', { items, windows, ended, failed }]]));
  expect(board(5_000, 8, 2, 3)).toMatch(/^\| build\s+\| running: 5000 items, 2 of 8 windows done, 3 failed\s+\|/m);
  expect(board(1, 1, 0, 0)).toMatch(/^\| build\s+\| running: 1 item, 0 of 1 window done\s+\|/m);
  expect(board(0, 0, 0, 0)).toMatch(/^\| build\s+\| running: 0 items\s+\|/m);
});
