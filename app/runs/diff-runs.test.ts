import { expect, test } from 'vitest';
import type { DataRef, Plan } from '../../domain/plan/plan.ts';
import type { StageEnd } from '../../domain/run/stage-ends.ts';
import { planOf } from '../../test/machine/plan-of.ts';
import { emptyView, newStage } from '../../store/run-view.ts';
import { compareRuns, type RunDiff } from './diff-runs.ts';
import type { RecordedRun } from './recorded-run.ts';
import { renderRunDiff } from '../../cli/render/runs/run-diff.ts';
import { PLAIN } from '../../cli/render/text/style.ts';

function refOf(text: string): DataRef {
  return { sha256: Buffer.from(text).toString('hex').padEnd(64, '0'), sizeBytes: text.length, mediaType: 'text/plain' };
}

function endOf(text: string, outputs: Readonly<Record<string, DataRef>> = {}): StageEnd {
  return { state: 'succeeded', output: refOf(text), outputs, ranIn: 'r', attempt: 1 };
}

interface Told extends Partial<Omit<RecordedRun, 'view'>> {
  readonly plan?: Plan;
}

function run(runId: string, ends: Readonly<Record<string, StageEnd>>, told: Told = {}): RecordedRun {
  const plan = told.plan ?? planOf('a b>a');
  const stages = plan.stages.map(({ id }) => ({ ...newStage(id), state: ends[id]?.state ?? ('waiting' as const) }));
  return {
    runId,
    view: { ...emptyView(runId), state: 'succeeded', startedAtMs: 1_000, finishedAtMs: 3_000, stages },
    plan,
    input: null,
    ends: new Map(Object.entries(ends)),
    continued: {},
    baseDir: null,
    confinedTo: null,
    source: { path: '/s.yaml', text: 'spec\n', params: { who: 'ada' }, mode: null },
    ...told,
  };
}

/** Texts of refs that `refOf` made. */
const textOf = (ref: DataRef): Promise<string | null> =>
  Promise.resolve(Buffer.from(ref.sha256, 'hex').toString('utf8').slice(0, ref.sizeBytes));

const said = (diff: RunDiff): string => renderRunDiff(diff, PLAIN).join('\n');

test('runs with equal results have no diff, whatever their ids, times and hosts', async () => {
  const one = run('one', { a: endOf('x'), b: endOf('y') });
  const other = run('other', { a: endOf('x'), b: { ...endOf('y'), ranIn: 'one' } });
  const later = { ...other, view: { ...other.view, hostId: 'h2', finishedAtMs: 9_000 } };
  const diff = await compareRuns(one, later, textOf);
  expect(diff).toMatchObject({ isSame: true, stages: [], spec: [], params: [], plan: [] });
  expect(said(diff)).toBe('one and other are the same: params, input, stages, states and outputs, 2.0 s → 8.0 s');
});

test('a diff lists every difference in a form that is safe to print', async () => {
  const one = run('one', { a: endOf('x\n'), b: endOf('same') });
  const plan = { ...planOf('a c>a'), maxParallel: 3 };
  const source = { path: null, text: 'spec\nmore\n', params: { who: 'gr\u001b[2Jace' }, mode: null };
  const changed = { a: endOf('\u001b[31my\n', { report: refOf('r') }), c: endOf('z') };
  const diff = await compareRuns(
    one,
    run('other', changed, { plan, source, input: { kind: 'inline', text: '1' } }),
    textOf,
  );
  expect(diff).toMatchObject({
    isSame: false,
    isSameInput: false,
    plan: ['output', 'maxParallel'],
    params: [{ name: 'who', values: ['ada', 'gr\u001b[2Jace'] }],
    spec: [
      { sign: ' ', text: 'spec' },
      { sign: '+', text: 'more' },
    ],
    stages: [
      { id: 'a', outputs: [{ name: null }, { name: 'report', refs: [null, { sizeBytes: 1 }], lines: null }] },
      { id: 'b', states: ['succeeded', null] },
      { id: 'c', states: [null, 'succeeded'] },
    ],
  });
  const text = said(diff);
  expect(text).not.toContain('\u001b');
  for (const line of [
    '- who=ada',
    'the input differs',
    '+ more',
    '    - x',
    '  - b  only in the first',
    '  + c  only in',
  ])
    expect(text).toContain(line);
});

test('a param or spec that was not recorded is no difference, and the diff names the gap', async () => {
  const one = run('one', { a: endOf('x'), b: endOf('y') }, { source: null });
  const diff = await compareRuns(one, run('other', { a: endOf('x'), b: endOf('y') }), textOf);
  expect(diff).toMatchObject({ isSame: true, params: null, spec: null });
  const failed = await compareRuns(one, run('other', { a: endOf('x'), b: endOf('z') }), textOf);
  expect(said(failed)).toContain('params and specs of one run were not recorded');
});
