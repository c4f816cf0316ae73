import { expect, test } from 'vitest';
import { planOf } from '../../../test/machine/plan-of.ts';
import { renderPlanSummary } from './plan.ts';
import { PLAIN } from '../text/style.ts';

test('the summary shows what each stage does, what it waits for, its condition and its VM', () => {
  const plan = planOf('a b>a c>a! d', { shared: 'a c', finally: 'd' });
  const when = { source: `stages.a.json.ok\u001b[2J && ${'x'.repeat(60)}`, stages: ['a'], params: {} };
  const stages = plan.stages.map((stage) => (stage.id === 'b' ? { ...stage, when } : stage));
  expect(renderPlanSummary('x.yaml', { ...plan, stages }, { style: PLAIN })).toBe(
    [
      'valid: x.yaml (workflow test, 4 stages, 3 VMs)',
      '  a  true',
      `  b  true, after a, when stages.a.json.ok && ${'x'.repeat(27)}…, in its own VM`,
      '  c  true, after a failure of a',
      '  d  true, after all others, in any case, in its own VM',
      '',
    ].join('\n'),
  );
});
