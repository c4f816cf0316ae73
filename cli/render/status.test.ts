import { expect, test } from 'vitest';
import { FAILED_RUN, run, stage, START_MS } from '../../test/rig/run-view.ts';
import { toRunJson } from './run-json.ts';
import { renderRuns } from './runs-table.ts';
import { renderStatus } from './status.ts';
import { PLAIN } from './style.ts';

const OPTIONS = { style: PLAIN, width: 100, nowMs: START_MS + 120_000, advise: (text: string) => text };
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
        accelerator: 'tcg',
        kernel: '6.12.1',
        jail: 'bubblewrap',
        bootMs: 4_100,
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
    'vm shared (generation 1): stopped, microvm, tcg, 6.12.1, jail bubblewrap, booted in 4.1 s',
    'warning: VM scope shared starts again',
  ]);
});

test('status of a failed run ends with why and what to type', () => {
  const lines = renderStatus(FAILED_RUN, OPTIONS);
  expect(lines).toContain('stage build (attempt 2) failed: ended with exit code 2 (stage/exit-nonzero)');
  expect(lines.at(-1)).toBe('  voidbox logs sales-20260304-050607-ab12 --stage build');
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
    'startedAt',
    'finishedAt',
    'stages',
    'failedStage',
    'failure',
    'output',
    'damage',
  ]);
  expect(Object.keys(json.stages[0] ?? {})).toEqual([
    'id',
    'state',
    'attempt',
    'exitCode',
    'durationMs',
    'isolation',
    'accelerator',
    'failure',
    'usage',
  ]);
  expect(json).toMatchObject({
    state: 'failed',
    startedAt: '2026-03-04T05:06:07.000Z',
    finishedAt: '2026-03-04T05:06:09.500Z',
    failedStage: 'build',
  });
});
