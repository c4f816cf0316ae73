import { describe, expect, test } from 'vitest';
import type { RunEvent, RunEventBody } from '../../domain/run/event.ts';
import { type EarlierStageResult, toStageResult } from '../../domain/run/stage-result.ts';
import { createEventPrinter } from './event-lines.ts';
import { PLAIN } from './style.ts';

const RESULT: EarlierStageResult = {
  stage: 'build',
  execKey: 'build/0/1',
  outcome: 'succeeded',
  failure: null,
  exitCode: 0,
  durationMs: 1_250,
  stdoutBytes: 6,
  stderrBytes: 0,
  output: { sha256: '0'.repeat(64), sizeBytes: 6, mediaType: 'text/plain' },
  outputs: {},
  isolation: 'microvm',
  accelerator: 'tcg',
};

let seq = 0;
const event = (body: RunEventBody): RunEvent => ({ id: `e/${(seq += 1)}`, seq, atMs: 0, body });
const output = (
  data: string,
  more: { stream?: 'stdout' | 'stderr'; stage?: string; encoding?: 'utf8' | 'base64' } = {},
): RunEvent =>
  event({
    type: 'output',
    stage: more.stage ?? 'build',
    execKey: `${more.stage ?? 'build'}/0/1`,
    stream: more.stream ?? 'stdout',
    from: 0,
    to: 0,
    encoding: more.encoding ?? 'utf8',
    data,
  });
const lines = (
  events: readonly RunEvent[],
  options: Partial<Parameters<typeof createEventPrinter>[0]> = {},
): string[] => {
  const printer = createEventPrinter({ style: PLAIN, prefix: true, states: () => true, stream: 'both', ...options });
  return [...events.flatMap((one) => printer.push(one)), ...printer.flush()];
};

describe('output', () => {
  test('each line has its stage', () => expect(lines([output('a\nb\n')])).toEqual(['[build] a', '[build] b']));
  test('pieces are put together to lines', () =>
    expect(lines([output('ab'), output('c\nd'), output('e\n')])).toEqual(['[build] abc', '[build] de']));
  test('streams and stages do not mix', () => {
    expect(
      lines([
        output('out'),
        output('err', { stream: 'stderr' }),
        output('other', { stage: 'test' }),
        output('1\n'),
        output('2\n', { stream: 'stderr' }),
        output('3\n', { stage: 'test' }),
      ]),
    ).toEqual(['[build] out1', '[build] err2', '[test] other3']);
  });
  test('a last line without a line feed is printed at the end', () =>
    expect(lines([output('tail')])).toEqual(['[build] tail']));
  test("a last line stands before the stage's end", () => {
    expect(
      lines([output('tail'), event({ type: 'stage-finished', stage: 'build', execKey: 'build/0/1', result: RESULT })]),
    ).toEqual(['[build] tail', '==> build succeeded in 1.3 s (6 B of output)']);
  });
  test('a character that two pieces share is whole', () => {
    const bytes = Buffer.from('é\n');
    expect(
      lines([
        output(bytes.subarray(0, 1).toString('base64'), { encoding: 'base64' }),
        output(bytes.subarray(1).toString('base64'), { encoding: 'base64' }),
      ]),
    ).toEqual(['[build] é']);
  });
  test('escape sequences never reach the terminal, even when pieces share one', () => {
    expect(lines([output('\u001b[3'), output('1mred\u001b[0m\n')])).toEqual(['[build] red']);
  });
  test('an endless line is broken', () => {
    const printed = lines([output('x'.repeat(40_000))]);
    expect(printed).toHaveLength(3);
    expect(printed.join('').replaceAll('[build] ', '')).toBe('x'.repeat(40_000));
  });
  test('one stream alone', () =>
    expect(lines([output('out\n'), output('err\n', { stream: 'stderr' })], { stream: 'stderr' })).toEqual([
      '[build] err',
    ]));
  test('without prefixes and states', () => {
    expect(
      lines([event({ type: 'stage-started', stage: 'build', execKey: 'build/0/1', attempt: 1 }), output('a\n')], {
        prefix: false,
        states: () => false,
      }),
    ).toEqual(['a']);
  });
});

describe('states', () => {
  const cases: readonly [RunEventBody, string][] = [
    [
      {
        type: 'run-admitted',
        name: 'n',
        kind: 'workflow',
        hostId: 'h1',
        stages: [{ id: 'a', dependsOn: [] }],
        outputStage: 'a',
      },
      'run admitted on host h1, 1 stage',
    ],
    [
      {
        type: 'vm-ready',
        vmKey: 'r/shared/0',
        scope: 'shared',
        generation: 0,
        isolation: 'microvm',
        accelerator: 'tcg',
        kernel: '6.12',
        jail: 'bubblewrap',
        bootMs: 4_200,
      },
      'vm shared ready in 4.2 s (microvm, tcg, 6.12, jail bubblewrap)',
    ],
    [
      { type: 'vm-lost', vmKey: 'r/shared/0', scope: 'shared', generation: 0, reason: 'killed' },
      'vm shared lost: killed',
    ],
    [{ type: 'stage-started', stage: 'a', execKey: 'a/0/2', attempt: 2 }, 'a started (attempt 2)'],
    [{ type: 'stage-reattached', stage: 'a', execKey: 'a/0/1', fence: 2 }, 'a goes on: a worker has attached again'],
    [
      { type: 'stage-reattached', stage: 'a', execKey: 'a/0/1', fence: 3, reason: 'store/io: no\u001b[2J space' },
      'a goes on: a worker has attached again (store/io: no space)',
    ],
    [
      { type: 'stage-retrying', stage: 'a', execKey: 'a/0/1', reason: 'exit code 1', delayMs: 2_000 },
      'a is tried again in 2.0 s: exit code 1',
    ],
    [{ type: 'stage-asking', stage: 'a', execKey: 'a/0/1', attempt: 1 }, 'a waits for an answer'],
    [{ type: 'stage-asking', stage: 'a', execKey: 'a/0/2', attempt: 2 }, 'a waits for an answer (attempt 2)'],
    [
      { type: 'stage-answered', stage: 'a', execKey: 'a/0/1', outcome: 'succeeded', failure: null },
      'a was answered: succeeded',
    ],
    [
      {
        type: 'stage-answered',
        stage: 'a',
        execKey: 'a/0/1',
        outcome: 'failed',
        failure: { code: 'stage/declined', message: 'not\u001b[2J yet', stderrTail: '' },
      },
      'a was answered: failed: not yet (stage/declined)',
    ],
    [{ type: 'stage-skipped', stage: 'b', reason: 'a failed' }, 'b skipped: a failed'],
    [
      { type: 'run-finished', outcome: { state: 'failed', failedStage: 'a', failure: null, output: null } },
      'run failed',
    ],
    [{ type: 'notice', level: 'warning', message: 'low\u001b[2J memory' }, 'warning: low memory'],
  ];
  test.each(cases)('%j', (body, expected) => expect(lines([event(body)])).toEqual([`==> ${expected}`]));

  test('a failed stage says why', () => {
    const result: EarlierStageResult = {
      ...RESULT,
      outcome: 'failed',
      exitCode: 3,
      output: null,
      failure: { code: 'stage/exit-nonzero', message: 'the command ended with exit code 3', stderrTail: '' },
    };
    expect(
      lines([event({ type: 'stage-finished', stage: 'a', execKey: 'a/0/1', result: toStageResult(result) })]),
    ).toEqual(['==> a failed in 1.3 s: the command ended with exit code 3 (stage/exit-nonzero)']);
  });
});
