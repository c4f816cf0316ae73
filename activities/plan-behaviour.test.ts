import { expect, test } from 'vitest';
import { checkExpressions } from '../domain/spec/expression/check.ts';
import { compileText } from '../domain/spec/load.ts';
import { refuseNewer } from './plan-behaviour.ts';

test('a part whose failure is tolerated is not given to a workflow of an earlier build', () => {
  const text = `kind: pipeline
name: x
parts: { p: { pipeline: { boxes: [{ name: a, run: { program: a } }] } } }
pipeline: { boxes: [{ name: p, uses: p, continue_on_error: true }, { name: b, run: { program: b } }] }`;
  const { plan } = compileText(text, 'x.yaml', { baseDir: null, checkExpression: checkExpressions });
  expect(() => refuseNewer(plan!, 17)).toThrow('stage p ends a part whose failure is tolerated');
  expect(() => refuseNewer(plan!, 18)).not.toThrow();
});

test('a wait until a time that outputs say is not given to a workflow of an earlier build', () => {
  const spec = (until: string): string => `kind: workflow
name: x
workflow: { output_step: a, steps: [{ name: a, run: { program: a } }, { name: b, depends_on: [a], wait: { until: ${until} } }] }`;
  const options = { baseDir: null, checkExpression: checkExpressions };
  const { plan } = compileText(spec('stages.a.output'), 'x.yaml', options);
  expect(() => refuseNewer(plan!, 24)).toThrow('stage b waits until a time that outputs say');
  expect(() => refuseNewer(plan!, 25)).not.toThrow();
  expect(() => refuseNewer(compileText(spec('2026-12-01T09:00:00Z'), 'x.yaml', options).plan!, 9)).not.toThrow();
});

test('a part for each item needs no other workflow where its failure is tolerated', () => {
  const text = `kind: pipeline
name: x
parts: { p: { pipeline: { boxes: [{ name: a, run: { program: a } }] } } }
pipeline: { boxes: [{ name: p, uses: p, for_each: [1], continue_on_error: true }, { name: b, run: { program: b } }] }`;
  const { plan } = compileText(text, 'x.yaml', { baseDir: null, checkExpression: checkExpressions });
  expect(() => refuseNewer(plan!, 17)).not.toThrow();
  expect(() => refuseNewer(plan!, 16)).toThrow('stage p.a is done for each item of a part');
});
