import { expect, test } from 'vitest';
import { run, stage, START_MS } from '../../../test/rig/runs/run-view.ts';
import { toRunJson } from '../../../app/json/run-json.ts';
import { renderStatus } from './status.ts';
import { PLAIN } from '../text/style.ts';

const OPTIONS = { style: PLAIN, width: 200, nowMs: START_MS, advise: (text: string) => text, folder: '/runs/r' };

test('status adds up tokens and cost of all agents of a run, also without a budget', () => {
  const review = stage('review', { usage: { inputTokens: 41_000, outputTokens: 200, turns: 3, costUsd: 1.25 } });
  // Its command line tells no cost.
  const fix = stage('fix', { usage: { inputTokens: 9_000, outputTokens: 34, turns: 1 } });
  const command = stage('test', { usage: { vmCpuMs: 900 } });
  const view = run([review, fix, command], { state: 'running' });
  const lines = renderStatus(view, OPTIONS);
  expect(lines).toContain('tokens   50,000 in, 234 out · $1.25');
  expect(lines.join('\n')).toMatch(/ review .*tokens 41,000 in, 200 out · \$1\.25$/m);
  expect(lines.join('\n')).toMatch(/ fix .*tokens 9,000 in, 34 out$/m);
  expect(lines.filter((line) => line.startsWith('budget'))).toEqual([]);
  expect(toRunJson(view)).toMatchObject({
    agents: { inputTokens: 50_000, outputTokens: 234, costUsd: 1.25 },
    budget: null,
  });

  expect(renderStatus(run([fix]), OPTIONS)).toContain('tokens   9,000 in, 34 out');
  expect(toRunJson(run([fix])).agents).toEqual({
    inputTokens: 9_000,
    outputTokens: 34,
    costUsd: null,
    isIncomplete: false,
  });
  expect(toRunJson(run([command])).agents).toBeNull();
  expect(renderStatus(run([command]), OPTIONS).filter((line) => line.startsWith('tokens'))).toEqual([]);
});

test('the figures of an agent that was cut off are marked as the least, or as unknown', () => {
  const cut = stage('cut', { usage: { inputTokens: 1_000, outputTokens: 4_321, turns: 1, partlyCounted: 1 } });
  const silent = stage('silent', { usage: { inputTokens: 0, outputTokens: 0, turns: 0, partlyCounted: 1 } });
  const whole = stage('whole', { usage: { inputTokens: 10, outputTokens: 5, turns: 1, costUsd: 0.5 } });
  const lines = renderStatus(run([cut, silent, whole]), OPTIONS).join('\n');
  expect(lines).toMatch(/^tokens {3}at least 1,010 in, 4,326 out · \$0\.5000$/m);
  expect(lines).toMatch(/ cut .*tokens at least 1,000 in, 4,321 out$/m);
  expect(lines).toMatch(/ silent .*tokens unknown$/m);
  expect(lines).toMatch(/ whole .*tokens 10 in, 5 out · /m);
  expect(toRunJson(run([cut])).agents).toEqual({
    inputTokens: 1_000,
    outputTokens: 4_321,
    costUsd: null,
    isIncomplete: true,
  });
});
