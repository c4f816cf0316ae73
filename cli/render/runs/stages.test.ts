import { describe, expect, test } from 'vitest';
import { FAILED_STAGE, run, stage, START_MS } from '../../../test/rig/runs/run-view.ts';
import { renderMockedCount, renderCounts, renderStages } from './stages.ts';
import { createStyle, PLAIN } from '../text/style.ts';
import { displayWidth } from '../text/width.ts';

const OPTIONS = { style: PLAIN, width: 100, nowMs: START_MS + 65_000 };

describe('renderStages', () => {
  test('each state has its sign, its time and its reason', () => {
    const view = run([
      stage('fetch', { state: 'succeeded', attempt: 1, startedAtMs: START_MS, durationMs: 2_400 }),
      stage('analyse-north', {
        state: 'running',
        attempt: 1,
        startedAtMs: START_MS + 5_000,
        reattached: 1,
        reason: 'store/io: no space',
      }),
      stage('flaky', { state: 'retrying', attempt: 2, startedAtMs: START_MS, reason: 'exit code 1' }),
      FAILED_STAGE,
      stage('stopped', { state: 'cancelled', attempt: 1, startedAtMs: START_MS, durationMs: 500 }),
      stage('report', { state: 'skipped', reason: 'stage "build" failed' }),
      stage('last'),
    ]);
    expect(renderStages(view, OPTIONS)).toEqual([
      '✓ fetch          succeeded  2.4 s',
      '▶ analyse-north  running    1m 00s   re-attached 1×, store/io: no space',
      '↻ flaky          retrying   1m 05s   attempt 2, exit code 1',
      '✗ build          failed     1.5 s    attempt 2, stage build ended with exit code 2',
      '■ stopped        cancelled  500 ms',
      '- report         skipped             stage "build" failed',
      '· last           waiting',
    ]);
  });

  test('a service that serves says what it has published last', () => {
    const published = {
      output: { sha256: 'a', sizeBytes: 2_048, mediaType: 'application/json' },
      atMs: Date.UTC(2026, 10, 26, 8),
    };
    const view = run([
      stage('serve', { state: 'running', attempt: 1, startedAtMs: START_MS, published }),
      stage('served', { state: 'cancelled', attempt: 1, startedAtMs: START_MS, durationMs: 500, published }),
    ]);
    expect(renderStages(view, OPTIONS)).toEqual([
      '▶ serve   running    1m 05s   published 2.0 KiB at 2026-11-26T08:00:00.000Z',
      '■ served  cancelled  500 ms',
    ]);
  });

  test('the sign of a running stage turns', () => {
    const view = run([stage('a', { state: 'running', startedAtMs: START_MS })]);
    expect(renderStages(view, { ...OPTIONS, frame: 0 })[0]).toMatch(/^⠋ a/);
    expect(renderStages(view, { ...OPTIONS, frame: 11 })[0]).toMatch(/^⠙ a/);
  });

  test('no line is wider than the terminal, with colours and wide names too', () => {
    const view = run([
      stage('日本語日本語', {
        state: 'failed',
        failure: { code: 'stage/exit-nonzero', message: 'm'.repeat(200), stderrTail: '' },
      }),
      stage('x'.repeat(60)),
    ]);
    for (const width of [20, 40, 79]) {
      for (const line of renderStages(view, { ...OPTIONS, style: createStyle(true), width }))
        expect(displayWidth(line)).toBeLessThanOrEqual(width);
    }
  });

  test('a long list shows the stages that run or failed, in the order of the spec', () => {
    const view = run(
      Array.from({ length: 30 }, (_, index) =>
        stage(`s${index}`, {
          state: index === 25 ? 'failed' : index === 20 ? 'running' : 'waiting',
          startedAtMs: START_MS,
        }),
      ),
    );
    const lines = renderStages(view, { ...OPTIONS, maxLines: 4 });
    expect(lines.map((line) => line.split(/\s+/)[1])).toEqual(['s0', 's20', 's25', '…']);
    expect(lines[3]).toBe('  … and 27 more stages');
  });

  test('a message of a guest cannot move the cursor', () => {
    const view = run([
      stage('a', {
        state: 'failed',
        failure: { code: 'stage/exit-nonzero', message: 'bad\u001b[2J\nnews', stderrTail: '' },
      }),
    ]);
    expect(renderStages(view, OPTIONS)).toEqual(['✗ a     failed              bad␊news']);
  });
});

test('renderCounts', () => {
  const view = run([stage('a', { state: 'succeeded' }), stage('b', { state: 'running' }), stage('c'), stage('d')]);
  expect(renderCounts(view, START_MS + 4_200)).toBe('4 stages: 1 succeeded, 1 running, 2 waiting · 4.2 s');
  expect(renderCounts(run([stage('a')], { startedAtMs: null }), START_MS)).toBe('1 stage: 1 waiting');
});

test('mocked stages of items count among the stages', () => {
  const stages = [stage('list'), stage('review')];
  expect(renderMockedCount({ ...run(stages), mocked: ['list'] })).toBe('1 of 2 stages: list');
  expect(renderMockedCount({ ...run(stages), mocked: ['list', 'review.lint', 'review.fix'] })).toBe(
    '3 of 4 stages: list, review.lint, review.fix',
  );
});
