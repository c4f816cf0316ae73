import { expect, test } from 'vitest';
import { FAILED_RUN, run, stage, START_MS } from '../../../test/rig/runs/run-view.ts';
import { renderStateLine } from '../../../app/lines/event-lines.ts';
import { renderRunEnd } from './run-end.ts';
import { toRunJson, withStageFacts } from '../../../app/json/run-json.ts';
import { renderRuns } from './runs-table.ts';
import { renderStatus } from './status.ts';
import { PLAIN } from '../text/style.ts';

const OPTIONS = {
  style: PLAIN,
  width: 100,
  nowMs: START_MS + 120_000,
  advise: (text: string) => text,
  folder: '/state/runs/r',
};
const SUCCEEDED = run(
  [
    stage('a', {
      state: 'succeeded',
      attempt: 1,
      startedAtMs: START_MS,
      durationMs: 900,
      exitCode: 0,
      isolation: 'microvm',
      accelerator: 'tcg',
    }),
  ],
  {
    state: 'succeeded',
    finishedAtMs: START_MS + 6_000,
    outcome: {
      state: 'succeeded',
      failedStage: null,
      failure: null,
      output: { sha256: 'ab'.repeat(32), sizeBytes: 2_048, mediaType: 'text/plain' },
    },
    vms: [
      {
        vmKey: 'r/shared/1',
        scope: 'shared',
        generation: 1,
        state: 'stopped',
        isolation: 'microvm',
        vmm: 'qemu',
        accelerator: 'tcg',
        kernel: '6.12.1',
        jail: 'bubblewrap',
        bootMs: 4_100,
        start: 'snapshot',
        snapshot: 'abc',
        reason: null,
      },
    ],
    notices: [{ atMs: START_MS, level: 'warning', message: 'VM scope shared starts again' }],
  },
);

test('status of a run that succeeded', () => {
  expect(renderStatus(SUCCEEDED, OPTIONS)).toEqual([
    'run      sales-20260304-050607-ab12',
    'spec     sales (workflow)',
    'state    succeeded',
    'host     h1',
    'started  2026-03-04T05:06:07.000Z (2m ago)',
    'took     6.0 s',
    'result   2.0 KiB (voidbox result sales-20260304-050607-ab12)',
    '',
    '✓ a     succeeded  900 ms',
    '',
    'vm shared (generation 1): stopped, microvm, VMM qemu, accelerator tcg, kernel 6.12.1, jail bubblewrap, started from a snapshot in 4.1 s',
    'warning: VM scope shared starts again',
  ]);
});

test('status names a VM that waited in the pool', () => {
  const [vm] = SUCCEEDED.vms;
  const lines = renderStatus({ ...SUCCEEDED, vms: [{ ...vm!, pooled: true }] }, OPTIONS);
  expect(lines.find((line) => line.startsWith('vm '))).toContain('started from the pool in 4.1 s');
});

test.each([
  [{ cpus: 2, memoryMib: 1024, note: null }, 'jail bubblewrap, limits of the host: 2 CPUs, 1024 MiB, started'],
  [{ cpus: null, memoryMib: null, note: 'not delegated' }, 'jail bubblewrap, limits of the host: none, started'],
])('status names the limits %j of a VM by control groups', (limits, expected) => {
  const [vm] = SUCCEEDED.vms;
  const lines = renderStatus({ ...SUCCEEDED, vms: [{ ...vm!, limits }] }, OPTIONS);
  expect(lines.find((line) => line.startsWith('vm '))).toContain(expected);
});

test('status of a run that was refused has no line for a spec and a host that are not known', () => {
  const lines = renderStatus({ ...FAILED_RUN, name: '', kind: '', hostId: '' }, OPTIONS);
  expect(lines.filter((line) => /^(spec|host)/.test(line))).toEqual([]);
});

test('status of a run that was refused has one empty line between its facts and the reason', () => {
  const failure = { code: 'admit/mount-refused', message: 'the mount /etc is refused', stderrTail: '' } as const;
  const outcome = { state: 'failed', failedStage: null, failure, output: null } as const;
  const lines = renderStatus({ ...FAILED_RUN, stages: [], vms: [], outcome }, OPTIONS);
  expect(lines.slice(0, lines.indexOf('') + 2).slice(-2)).toEqual([
    '',
    'the run failed: the mount /etc is refused (admit/mount-refused)',
  ]);
});

test('status of a failed run ends with why and what to type', () => {
  const lines = renderStatus(FAILED_RUN, OPTIONS);
  expect(lines).toContain('stage build (attempt 2) failed: ended with exit code 2 (stage/exit-nonzero)');
  expect(lines.slice(-3)).toEqual([
    '  voidbox logs sales-20260304-050607-ab12 --stage build',
    '  voidbox retry sales-20260304-050607-ab12',
    'All of it: /state/runs/r',
  ]);
});

test('`status` names the outputs of an unsuccessful attempt, with the command that takes them', () => {
  const ref = { sha256: 'ab'.repeat(32), sizeBytes: 2_048, mediaType: 'text/x-patch' };
  const partial = { 'base.bundle': ref, 'partial.patch': ref, 'partial.bundle': ref };
  const one = run([stage('fix', { state: 'cancelled', partial }), stage('b')]);
  expect(renderStatus(one, OPTIONS)).toContain(
    'partial: fix.partial.patch (2.0 KiB), fix.partial.bundle (2.0 KiB) (voidbox apply sales-20260304-050607-ab12 --partial)',
  );
  expect(toRunJson(one).stages.map((each) => each.partial?.map(({ name }) => name))).toEqual([
    Object.keys(partial),
    undefined,
  ]);
  const two = run([stage('fix', { state: 'failed', partial }), stage('b', { state: 'failed', partial: { t: ref } })]);
  const lines = renderStatus(two, OPTIONS).filter((line) => line.startsWith('partial:'));
  expect(lines.map((line) => line.slice(line.lastIndexOf('(')))).toEqual([
    '(voidbox apply sales-20260304-050607-ab12 --partial --stage fix)',
    '(voidbox artifacts sales-20260304-050607-ab12)',
  ]);
});

test('the status of a retry names the earlier run and the reused stages', () => {
  const origin = { runId: 'first\u001b[2J', kind: 'retry', from: 'b' } as const;
  const view = run([stage('a', { state: 'succeeded', givenBy: 'zero' }), stage('b')], { origin });
  const lines = renderStatus(view, OPTIONS);
  expect(lines).toContain('from     retry of first from b');
  expect(lines).toContain('✓ a     succeeded           taken over from zero');
  expect(renderRuns([view], OPTIONS)[1]).toMatch(/ {2}retry of first$/);
  expect(toRunJson(view)).toMatchObject({
    origin,
    stages: [
      { id: 'a', givenBy: 'zero' },
      { id: 'b', givenBy: null },
    ],
  });
});

test('status of a run that was ended from outside says by whom', () => {
  const failure = {
    code: 'run/terminated',
    message: 'its workflow was ended from outside: moving',
    stderrTail: '',
  } as const;
  const outcome = { state: 'terminated', failedStage: null, failure, output: null } as const;
  const lines = renderStatus(run([stage('a', { state: 'cancelled' })], { state: 'terminated', outcome }), OPTIONS);
  expect(lines).toContain('the run failed: its workflow was ended from outside: moving (run/terminated)');
});

test('runs are a table that fits the terminal', () => {
  expect(renderRuns([FAILED_RUN, SUCCEEDED], OPTIONS)).toEqual([
    'RUN                         STATE      STAGES  STARTED  TOOK',
    'sales-20260304-050607-ab12  failed     0/2     2m ago   2.5 s  failed at build',
    'sales-20260304-050607-ab12  succeeded  1/1     2m ago   6.0 s',
  ]);
  for (const line of renderRuns([FAILED_RUN], { ...OPTIONS, width: 30 }))
    expect([...line].length).toBeLessThanOrEqual(30);
});

test('a long id leaves room for what else is to be known', () => {
  const runId = `nightly-${'x'.repeat(900)}-2026-11-22T06:00:00Z`;
  const line = renderRuns([{ ...FAILED_RUN, runId }], OPTIONS)[1] ?? '';
  expect(line).toContain('nightly-xxx');
  expect(line).toContain('x-2026-11-22T06:00:00Z  failed');
  expect(toRunJson({ ...FAILED_RUN, runId }).runId).toBe(runId);
});

test('the JSON of a run has exactly the documented fields', () => {
  const json = toRunJson(FAILED_RUN);
  expect(Object.keys(json)).toEqual([
    'runId',
    'name',
    'kind',
    'state',
    'host',
    'origin',
    'trigger',
    'mocked',
    'mockAgents',
    'agents',
    'budget',
    'network',
    'startedAt',
    'finishedAt',
    'stages',
    'failedStage',
    'failure',
    'tolerated',
    'output',
    'damage',
  ]);
  expect(Object.keys(json.stages[0] ?? {})).toEqual([
    'id',
    'state',
    'givenBy',
    'attempt',
    'exitCode',
    'durationMs',
    'isolation',
    'vmm',
    'accelerator',
    'failure',
    'usage',
    'question',
    'answer',
    'sleepsUntil',
    'items',
  ]);
  expect(json).toMatchObject({
    state: 'failed',
    startedAt: '2026-03-04T05:06:07.000Z',
    finishedAt: '2026-03-04T05:06:09.500Z',
    failedStage: 'build',
  });
});

const QUESTION = {
  message: 'Release?',
  by: ['managers'],
  fields: [
    { name: 'window', type: 'choice', required: true, description: 'when', choices: ['tonight', 'later'] },
    { name: 'note', type: 'text', required: false, description: '', choices: [] },
  ],
  deadlineAtMs: START_MS + 3_720_000,
  onTimeout: 'reject',
} as const;
const ASKING = run([
  stage('release', { state: 'asking', attempt: 1, startedAtMs: START_MS, question: QUESTION }),
  stage('publish'),
]);

test('the status shows a question with its fields, the time left, and how to answer it', () => {
  const lines = renderStatus(ASKING, OPTIONS);
  expect(lines.slice(lines.indexOf('') + 3)).toEqual([
    '',
    '? release: Release? (asks managers; until 2026-03-04T06:08:07Z, then rejected)',
    '  1h 00m left',
    '  field window (one of: tonight, later): when',
    '  field note (text, optional)',
    '  answer: voidbox approve sales-20260304-050607-ab12 release --field window=tonight',
    '  or:     voidbox reject sales-20260304-050607-ab12 release --comment WHY',
  ]);
  expect(renderRuns([ASKING], { ...OPTIONS, width: 200 })[1]).toContain('release asks: Release? (asks managers;');
  expect(toRunJson(ASKING).stages[0]?.question).toMatchObject({
    message: 'Release?',
    deadlineAt: '2026-03-04T06:08:07.000Z',
    onTimeout: 'reject',
  });
});

test('the state, the list of runs and --json show a tolerated failure', () => {
  const failure = {
    code: 'stage/exit-nonzero',
    message: 'stage lint ended with exit code 1',
    stderrTail: 'two spaces',
  } as const;
  const outcome = { state: 'succeeded', failedStage: null, failure: null, output: null, tolerated: ['lint'] } as const;
  const view = run([stage('lint', { state: 'failed', attempt: 1, failure })], { state: 'succeeded', outcome });
  const text = renderStatus(view, OPTIONS).join('\n');
  expect(text).toContain('succeeded, 1 failure tolerated: lint');
  expect(text).toContain('two spaces');
  expect(renderRuns([view], { ...OPTIONS, width: 200 }).join('\n')).toContain('1 failure tolerated: lint');
  expect(toRunJson(view).tolerated).toEqual(['lint']);
});

test('the status names the first of many tolerated failures', () => {
  const tolerated = Array.from({ length: 10 }, (_, index) => `s${index}`);
  const outcome = { state: 'succeeded', failedStage: null, failure: null, output: null, tolerated } as const;
  expect(renderStatus(run([], { state: 'succeeded', outcome }), OPTIONS).join('\n')).toContain(
    'succeeded, 10 failures tolerated: s0, s1, s2, s3, s4, s5, s6, s7 and 2 more',
  );
});

test('a stage that waits says until when, in words and in --json', () => {
  const view = run([stage('pause', { state: 'sleeping', attempt: 1, startedAtMs: START_MS, sleepsUntilMs: 0 })]);
  expect(renderStatus(view, OPTIONS).join('\n')).toMatch(/z pause +sleeping .*until 1970-01-01T00:00:00\.000Z/);
  const note = 'pause waits until 1970-01-01T00:00:00.000Z';
  expect(renderRuns([view], { ...OPTIONS, width: 200 }).join('\n')).toContain(note);
  const busy = run([...view.stages, stage('work', { state: 'running', attempt: 1 })]);
  expect(renderRuns([busy], { ...OPTIONS, width: 200 }).join('\n')).not.toContain(note);
  expect(toRunJson(view).stages[0]).toMatchObject({ state: 'sleeping', sleepsUntil: '1970-01-01T00:00:00.000Z' });
});

test('items are counted behind their stage, and those that failed are named', () => {
  const failure = { code: 'stage/exit-nonzero', message: 'exit code 3', stderrTail: '' } as const;
  const items = {
    total: 30,
    running: 2,
    succeeded: 7,
    failed: 3,
    failures: [{ item: 4, execKey: 'each/each~4/1', failure }],
    open: {},
  };
  const view = run([stage('each', { state: 'running', attempt: 1, startedAtMs: START_MS, items })]);
  const text = renderStatus(view, OPTIONS).join('\n');
  expect(text).toContain('10 of 30 items, 2 running, 3 failed');
  expect(text).toContain('✗ each[4]: exit code 3 (stage/exit-nonzero)\n  … and 2 more failed items of each');
  expect(toRunJson(view).stages[0]!.items).toEqual({
    total: 30,
    running: 2,
    succeeded: 7,
    failed: 3,
    failures: [{ item: 4, failure }],
  });
});

test('each view of a run with mocked stages names the mocks', () => {
  const view = { ...SUCCEEDED, mocked: ['a'] };
  expect(renderStatus(view, OPTIONS)).toEqual(
    expect.arrayContaining(['mocked   1 of 1 stage: a', expect.stringMatching(/^✓ a .*mocked/)]),
  );
  expect(renderRuns([view], OPTIONS)[1]).toMatch(/1 mocked$/);
  expect(toRunJson(view).mocked).toEqual(['a']);
  expect(renderRunEnd(view, OPTIONS)[0]).toContain('1 mocked');
  expect(
    renderStateLine(
      {
        type: 'run-admitted',
        name: 'x',
        kind: 'workflow',
        hostId: 'h',
        stages: [{ id: 'a', dependsOn: [] }],
        outputStage: 'a',
        mocked: ['a'],
      },
      PLAIN,
    ),
  ).toBe('run admitted on host h, 1 stage; mocked, without their work: a');
});

test('the status shows facts of the plan for a stage: its condition while it counts, and `finally`', () => {
  const stages = [
    stage('build', { state: 'succeeded' }),
    stage('ship', { state: 'passed', reason: 'its condition does not hold' }),
    stage('later'),
    stage('clean'),
  ];
  const facts = new Map([
    ['build', { when: 'true', finally: false }],
    ['ship', { when: 'stages.build\u001b[2J.json.ok', finally: false }],
    ['later', { when: null, finally: false }],
    ['clean', { when: 'params.x == "1"', finally: true }],
  ]);
  const view = run(stages);
  const lines = renderStatus(view, { ...OPTIONS, facts }).join('\n');
  expect(lines).toMatch(/^✓ build +succeeded$/m);
  expect(lines).toMatch(/^- ship .* its condition does not hold, when: stages\.build\S*\.json\.ok$/m);
  expect(lines).not.toContain('\u001b');
  expect(lines).toMatch(/^· clean .* finally, when: params\.x == "1"$/m);
  expect(withStageFacts(toRunJson(view), facts).stages[3]).toMatchObject({ when: 'params.x == "1"', finally: true });
});
