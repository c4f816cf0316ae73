import { describe, expect, test } from 'vitest';
import type { RunEvent, RunEventBody } from '../../domain/run/event.ts';
import { stageResult } from '../../test/rig/runs/stage-results.ts';
import { createEventPrinter } from './event-lines.ts';
import { createStyle, PLAIN } from '../../cli/render/text/style.ts';

const RESULT = stageResult('build/0/1', {
  durationMs: 1_250,
  output: { sha256: '0'.repeat(64), sizeBytes: 6, mediaType: 'text/plain' },
});

let seq = 0;
const event = (body: RunEventBody, atMs = 0): RunEvent => ({ id: `e/${(seq += 1)}`, seq, atMs, body });
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
  test('a line that its program writes over is its last state, printed once', () => {
    expect(lines([output('\rstep 1/3\rstep 2/3'), output('\rstep 3/3'), output('\n')])).toEqual(['[build] step 3/3']);
    expect(lines([output('a\r\nb\r\n\rc\r')])).toEqual(['[build] a', '[build] b', '[build] c']);
    expect(lines([output('12 %\r'), output('99 %\r')])).toEqual(['[build] 99 %']);
    const bar = Array.from({ length: 5_000 }, (_, at) => output(`\rstep ${at}/5000 ${'#'.repeat(40)}`));
    expect(lines([...bar, output('\n')])).toEqual([`[build] step 4999/5000 ${'#'.repeat(40)}`]);
  });
  test('a line that grows for a second shows its last state, and each later one once', () => {
    const printer = createEventPrinter({ style: PLAIN, prefix: true, states: () => true, stream: 'both' });
    const push = (data: string): readonly string[] => printer.push(output(data));
    const seen: string[] = [];
    for (let tick = 0; tick < 24; tick += 1) {
      const finished = tick % 2 === 0 ? push(`\rstep ${tick / 2 + 1}/12`) : [];
      expect(finished).toEqual([]);
      seen.push(...printer.takeStates(tick * 250));
    }
    expect(seen).toEqual(['3/12', '5/12', '7/12', '9/12', '11/12'].map((step) => `[build] step ${step}`));
    expect(printer.readStates(6_000)).toEqual(['[build] step 12/12']);
    expect(push('\nPassword: ')).toEqual(['[build] step 12/12']);
    expect(printer.takeStates(6_250)).toEqual([]);
    expect(printer.takeStates(7_250)).toEqual(['[build] Password: ']);
    expect(printer.takeStates(60_000)).toEqual([]);
    expect(push('\nnext\n')).toEqual(['[build] next']);
    expect(printer.flush()).toEqual([]);
  });
  test('an hour of progress is a bounded number of lines', () => {
    const printer = createEventPrinter({ style: PLAIN, prefix: false, states: () => true, stream: 'both' });
    let count = 0;
    for (let second = 0; second < 3_600; second += 1) {
      printer.push(output(`\r${second} s`));
      count += printer.takeStates(second * 1_000).length;
    }
    expect(count).toBeGreaterThan(50);
    expect(count).toBeLessThan(90);
  });
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
  test('the last line of a stage is printed before its end', () => {
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
  test('only the selected stream is printed', () =>
    expect(lines([output('out\n'), output('err\n', { stream: 'stderr' })], { stream: 'stderr' })).toEqual([
      '[build] err',
    ]));
  test('output is printed without prefixes and states on request', () => {
    expect(
      lines([event({ type: 'stage-started', stage: 'build', execKey: 'build/0/1', attempt: 1 }), output('a\n')], {
        prefix: false,
        states: () => false,
      }),
    ).toEqual(['a']);
  });
});

describe('times, wanted lines, colours', () => {
  const at = (atMs: number, data: string): RunEvent => ({ ...output(data), atMs });
  test('a line has the time at which it began', () => {
    expect(lines([at(1_000, 'a\nb'), at(2_000, 'c\nd'), at(3_000, '\n')], { timestamps: true })).toEqual([
      '1970-01-01T00:00:01.000Z [build] a',
      '1970-01-01T00:00:01.000Z [build] bc',
      '1970-01-01T00:00:02.000Z [build] d',
    ]);
    const started = event({ type: 'stage-started', stage: 'build', execKey: 'build/0/1', attempt: 1 }, 5);
    expect(lines([started], { timestamps: true })).toEqual(['1970-01-01T00:00:00.005Z ==> build started']);
    expect(lines([at(Number.MAX_VALUE, 'a\n')], { timestamps: true })).toEqual([`${Number.MAX_VALUE} [build] a`]);
  });

  test('a line is judged by what it says, not by names and escape sequences', () => {
    const isWanted = ({ text }: { readonly text: string }): boolean => text.includes('build');
    const started = event({ type: 'stage-started', stage: 'build', execKey: 'build/0/1', attempt: 1 });
    expect(lines([started, output('one\nbu\u001b[1mild\n'), output('of build', { stage: 'x' })], { isWanted })).toEqual(
      ['==> build started', '[build] build', '[x] of build'],
    );
  });

  test('each stage has its colour, the same wherever one begins to read', () => {
    const admitted = event({
      type: 'run-admitted',
      name: 'n',
      kind: 'workflow',
      hostId: 'h',
      stages: ['a', 'b'].map((id) => ({ id, dependsOn: [] })),
      outputStage: null,
    });
    const style = createStyle(true);
    const both = [output('1\n', { stage: 'b' }), output('2\n', { stage: 'a' })];
    const whole = lines([admitted, ...both], { style, states: () => false });
    expect(whole).toEqual([`${style.hue(1, '[b]')} 1`, `${style.hue(0, '[a]')} 2`]);
    expect(style.hue(0, 'x')).not.toBe(style.hue(1, 'x'));
    expect(lines(both, { style, stages: ['a', 'b'] })).toEqual(whole);
    expect(lines(both, { style: createStyle(false) })).toEqual(['[b] 1', '[a] 2']);
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
        backend: 'qemu',
        vmm: 'qemu',
        isolation: 'microvm',
        accelerator: 'tcg',
        kernel: '6.12',
        jail: 'bubblewrap',
        bootMs: 4_200,
      },
      'vm shared ready in 4.2 s (microvm, VMM qemu, accelerator tcg, kernel 6.12, jail bubblewrap)',
    ],
    [
      {
        type: 'vm-ready',
        vmKey: 'r/shared/0',
        scope: 'shared',
        generation: 0,
        backend: 'qemu',
        vmm: 'qemu',
        isolation: 'microvm',
        accelerator: 'tcg',
        kernel: '6.12',
        jail: 'bubblewrap',
        bootMs: 200,
        start: 'snapshot',
        pooled: true,
      },
      'vm shared ready in 200 ms from the pool (microvm, VMM qemu, accelerator tcg, kernel 6.12, jail bubblewrap)',
    ],
    [
      { type: 'vm-lost', vmKey: 'r/shared/0', scope: 'shared', generation: 0, reason: 'killed' },
      'vm shared lost: killed',
    ],
    [{ type: 'stage-started', stage: 'a', execKey: 'a/0/2', attempt: 2 }, 'a started (attempt 2)'],
    [
      { type: 'stage-reattached', stage: 'a', execKey: 'a/0/1', fence: 3, reason: 'store/io: no\u001b[2J space' },
      'a continues: a worker has attached again (store/io: no space)',
    ],
    [
      { type: 'stage-retrying', stage: 'a', execKey: 'a/0/1', reason: 'exit code 1', delayMs: 2_000 },
      'a is tried again in 2.0 s: exit code 1',
    ],
    [
      {
        type: 'stage-asking',
        stage: 'a',
        execKey: 'a/0/2',
        attempt: 2,
        question: { message: 'Go?', by: [], fields: [], deadlineAtMs: null, onTimeout: 'fail' },
      },
      'a waits for an answer (attempt 2): Go?',
    ],
    [
      { type: 'stage-sleeping', stage: 'a', execKey: 'a/0/1', attempt: 1, untilMs: 0 },
      'a waits until 1970-01-01T00:00:00.000Z',
    ],
    [{ type: 'stage-woken', stage: 'a', execKey: 'a/0/1', outcome: 'succeeded' }, 'a has waited'],
    [{ type: 'stage-woken', stage: 'a', execKey: 'a/0/1', outcome: 'cancelled' }, 'a cancelled'],
    [
      {
        type: 'stage-asking',
        stage: 'a',
        execKey: 'a/0/1',
        attempt: 1,
        question: {
          message: 'Go\u001b[2J on?',
          by: ['ada', 'bob'],
          fields: [],
          deadlineAtMs: Date.UTC(2026, 2, 4, 5, 6, 7),
          onTimeout: 'reject',
        },
      },
      'a waits for an answer: Go on? (asks ada, bob; until 2026-03-04T05:06:07Z, then rejected)',
    ],
    [
      {
        type: 'stage-answered',
        stage: 'a',
        execKey: 'a/0/1',
        outcome: 'succeeded',
        failure: null,
        by: 'ada',
        comment: 'fine\u001b[2J',
      },
      'a approved by ada: fine',
    ],
    [{ type: 'stage-answered', stage: 'a', execKey: 'a/0/1', outcome: 'cancelled', failure: null }, 'a cancelled'],
    [{ type: 'stage-answered', stage: 'a', execKey: 'a/0/1', outcome: 'succeeded', failure: null }, 'a approved'],
    [
      {
        type: 'stage-answered',
        stage: 'a',
        execKey: 'a/0/1',
        outcome: 'failed',
        failure: { code: 'stage/rejected', message: 'not\u001b[2J yet', stderrTail: '' },
      },
      'a failed: not yet (stage/rejected)',
    ],
    [
      { type: 'stage-retrying', stage: 'a', execKey: 'a/0/1', reason: 'vm/lost: killed', delayMs: 0 },
      'a is tried again: vm/lost: killed',
    ],
    [
      { type: 'scope-restarted', scope: 'shared', reason: 'vm/lost: killed', stages: ['a', 'b'] },
      'vm shared starts again with a, b: vm/lost: killed',
    ],
    [
      {
        type: 'scope-restarted',
        scope: 'shared',
        reason: 'vm/lost: killed',
        stages: ['b'],
        attempts: [1],
        kept: ['a'],
      },
      'vm shared starts again with b, and keeps a: vm/lost: killed',
    ],
    [
      {
        type: 'checkpoint-made',
        vmKey: 'r/shared/0',
        scope: 'shared',
        generation: 0,
        stage: 'a',
        execKey: 'a/0/1',
        checkpoint: 'x',
        usedBytes: 2_097_152,
        tookMs: 40,
      },
      'checkpoint after a: 2.0 MiB in 40 ms',
    ],
    [
      {
        type: 'checkpoint-failed',
        vmKey: 'r/shared/0',
        scope: 'shared',
        generation: 0,
        stage: 'a',
        execKey: 'a/0/1',
        reason: 'the disk\u001b[31m is full',
      },
      'no checkpoint after a: the disk is full',
    ],
    [
      { type: 'scope-restarted', scope: 'shared', reason: 'vm/lost: killed', stages: [] },
      'vm shared starts again: vm/lost: killed',
    ],
    [
      {
        type: 'stage-failed',
        stage: 'a',
        execKey: 'a/0/4',
        failure: { code: 'vm/lost', message: 'the VM was lost 4\u001b[2J times', stderrTail: '' },
      },
      'a failed: the VM was lost 4 times (vm/lost)',
    ],
    [{ type: 'of-a-later-build' } as unknown as RunEventBody, ''],
    [{ type: 'stage-passed', stage: 'b\u001b[2J' }, 'b passed: its condition does not hold'],
    [{ type: 'stage-skipped', stage: 'b', reason: 'a failed' }, 'b skipped: a failed'],
    [
      { type: 'run-finished', outcome: { state: 'failed', failedStage: 'a', failure: null, output: null } },
      'run failed',
    ],
    [
      {
        type: 'run-finished',
        outcome: {
          state: 'failed',
          failedStage: null,
          failure: { code: 'admit/mount-refused', message: 'the mount /etc\u001b[2J is refused', stderrTail: '' },
          output: null,
        },
      },
      'run failed: the mount /etc is refused (admit/mount-refused)',
    ],
    [{ type: 'notice', level: 'warning', message: 'low\u001b[2J memory' }, 'warning: low memory'],
  ];
  test.each(cases)('%j', (body, expected) =>
    expect(lines([event(body)])).toEqual(expected === '' ? [] : [`==> ${expected}`]),
  );

  test('a VM that never came has not stopped', () => {
    const vm = { vmKey: 'r/a/0', scope: 'a', generation: 0 };
    const admitted = event({
      type: 'run-admitted',
      name: 'n',
      kind: 'workflow',
      hostId: 'h',
      stages: [],
      outputStage: null,
    });
    const stopped = event({ type: 'vm-stopped', ...vm });
    expect(lines([admitted, stopped]).slice(1)).toEqual([]);
    expect(lines([admitted, event({ type: 'vm-starting', ...vm }), stopped]).slice(1)).toEqual([
      '==> vm a starting',
      '==> vm a stopped',
    ]);
    // From a later event on the beginning is not known.
    expect(lines([stopped])).toEqual(['==> vm a stopped']);
  });

  test('the last line of a stage is printed before the line about its lost VM', () => {
    const failure = { code: 'vm/lost', message: 'gone', stderrTail: '' } as const;
    expect(
      lines([output('tail'), event({ type: 'stage-failed', stage: 'build', execKey: 'build/0/1', failure })]),
    ).toEqual(['[build] tail', '==> build failed: gone (vm/lost)']);
    expect(
      lines([output('tail'), event({ type: 'scope-restarted', scope: 's', reason: 'gone', stages: ['build'] })]),
    ).toEqual(['[build] tail', '==> vm s starts again with build: gone']);
  });

  test('a failed stage says why', () => {
    const failure = {
      code: 'stage/exit-nonzero',
      message: 'the command ended with exit code 3',
      stderrTail: '',
    } as const;
    const result = stageResult('a/0/1', { durationMs: 1_250, failure });
    expect(lines([event({ type: 'stage-finished', stage: 'a', execKey: 'a/0/1', result })])).toEqual([
      '==> a failed in 1.3 s: the command ended with exit code 3 (stage/exit-nonzero)',
    ]);
  });
});

test('lines of an item begin with its name, and no line reports its VM', () => {
  const name = { stage: 'each', execKey: 'each/each~3/1' };
  const result = { ...RESULT, ...name, instance: [{ part: 'each', item: 3 }] };
  const vm = { vmKey: 'r/each/each~3/0', scope: 'each', generation: 0 };
  expect(
    lines([
      event({ type: 'stage-started', stage: 'each', execKey: 'each/0/1', attempt: 1, items: 5 }),
      event({ type: 'vm-starting', ...vm }),
      event({ type: 'stage-started', ...name, attempt: 1 }),
      event({ type: 'output', ...name, stream: 'stdout', from: 0, to: 4, encoding: 'utf8', data: 'half' }),
      event({ type: 'stage-finished', ...name, result }),
      event({ type: 'vm-stopped', ...vm }),
    ]),
  ).toEqual([
    '==> each started, 5 items',
    '==> each[3] started',
    '[each[3]] half',
    '==> each[3] succeeded in 1.3 s (6 B of output)',
  ]);
});

describe('what an agent says', () => {
  const says = (text: string): RunEvent => event({ type: 'agent-text', stage: 'fix', execKey: 'fix/0/1', text });
  const calls = (tool: string, detail: string, failed = false): RunEvent =>
    event({ type: 'agent-tool', stage: 'fix', execKey: 'fix/0/1', tool, detail, failed });

  test('each line has its stage; no escape sequence, return or mark that reorders text reaches the terminal', () =>
    expect(lines([says('\u001b[2K\u001b[1A\u001b]0;title\u0007red\r==> run succeeded\n[test] fine\u202e')])).toEqual([
      '[fix] red␍==> run succeeded',
      '[fix] [test] fine�',
    ]));

  test('a call is one line, whatever its name and its arguments hold', () => {
    expect(
      lines([calls('\u001b[31mBash\n==> run succeeded', 'ls\n\u001b]8;;http://a.example\u0007link\u009b2J')]),
    ).toEqual(['[fix] → Bash␊==> run succeeded: ls␊link']);
    expect(lines([calls('', 'denied\r\n\u001b[1A', true), calls('', '', true)])).toEqual([
      '[fix] ✗ a tool failed: denied',
      '[fix] ✗ a tool failed',
    ]);
  });

  const prints = (text: string, leftOutBytes = 0, tool = 'Bash'): RunEvent =>
    event({ type: 'agent-tool-output', stage: 'fix', execKey: 'fix/0/1', tool, text, leftOutBytes });

  test('the output of a tool is printed on lines of its own, dimmed, if `tools` asks for it', () => {
    const printed = prints('one\n\u001b[2Jtwo\r==> run succeeded\n');
    expect(lines([printed])).toEqual([]);
    expect(lines([printed], { tools: 'none' })).toEqual([]);
    const short = ['[fix] ← Bash:', '[fix]   one', '[fix]   two␍==> run succeeded'];
    expect(lines([printed], { tools: 'short' })).toEqual(short);
    expect(lines([printed], { tools: 'full' })).toEqual(short);
    const style = createStyle(true);
    const [first] = createEventPrinter({
      style,
      prefix: false,
      states: () => true,
      stream: 'both',
      tools: 'short',
    }).push(printed);
    expect(first).toBe(style.dim('← Bash:'));
    expect(lines([printed], { tools: 'short', stream: 'stderr' })).toEqual([]);
  });

  test('`short` prints the last 2 KiB of a call in whole lines, and `full` prints all of the event', () => {
    const text = Array.from({ length: 1_000 }, (_, at) => `line ${String(at).padStart(3, '0')}`).join('\n');
    const short = lines([prints(text, 5_000, '')], { tools: 'short' });
    expect(short.slice(0, 3)).toEqual([
      '[fix] ← a tool:',
      '[fix]   … 12 KiB before, see --tools full',
      '[fix]   line 773',
    ]);
    expect(short.at(-1)).toBe('[fix]   line 999');
    const full = lines([prints(text, 5_000)], { tools: 'full' });
    expect(full.slice(0, 3)).toEqual(['[fix] ← Bash:', '[fix]   … 4.9 KiB before, see --raw', '[fix]   line 000']);
    expect(full).toHaveLength(1_002);
  });

  test('an agent that is asked again has a line with the reason', () => {
    const reason = 'stage fix left no JSON\n\u001b[2J';
    expect(
      lines([event({ type: 'agent-asked', stage: 'fix', execKey: 'fix/0/1', time: 2, mostTimes: 3, reason })]),
    ).toEqual(['[fix] ↻ asked again (2 of 3): stage fix left no JSON']);
  });

  test('its stream is not printed besides, and what it prints to standard error is', () => {
    const admitted = event({
      type: 'run-admitted',
      name: 'fix',
      kind: 'agent',
      hostId: 'host',
      stages: [{ id: 'fix', dependsOn: [] }],
      outputStage: 'fix',
      agents: ['fix'],
    });
    const printed = [
      output('{"type":"result","result":"fake"}\n', { stage: 'fix' }),
      output('\u001b[2Jwarned\n', { stage: 'fix', stream: 'stderr' }),
    ];
    expect(lines([admitted, ...printed], { states: () => false })).toEqual(['[fix] warned']);
  });
});
