// oxlint-disable typescript/no-explicit-any -- plans that break their type are the subject
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { toWire } from '../../domain/plan/wire.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { findRecordProblem } from './record-shapes.ts';

const SPECS = join(findPackageRoot(), 'test/spec');
const PLANS = readdirSync(SPECS)
  .map((name) => join(SPECS, name, 'plan.json'))
  .filter((path) => existsSync(path))
  .map((path) => JSON.parse(readFileSync(path, 'utf8')) as any);

test('golden plans are read back, with their defaults and as they travel', () => {
  expect(PLANS.length).toBeGreaterThan(50);
  for (const plan of PLANS) {
    expect(findRecordProblem('plan', plan)).toBeNull();
    expect(findRecordProblem('plan', JSON.parse(JSON.stringify(toWire(plan))))).toBeNull();
  }
});

/** A stored plan with everything in it that the change needs. */
function problemAfter(change: (stage: any, scope: any, plan: any) => unknown): string | null {
  const plan = structuredClone(
    PLANS.find(({ stages, scopes }) => stages[0].work.kind === 'command' && scopes.length > 0),
  );
  change(plan.stages[0], plan.scopes[0], plan);
  return findRecordProblem('plan', plan);
}

test.each<[string, (stage: any, scope: any, plan: any) => unknown, string]>([
  ['another format', (_stage, _scope, plan) => (plan.version = 2), 'plan.version is not 1'],
  ['a condition without a source', (stage) => (stage.when = {}), 'plan.stages[0].when.source is not a string'],
  ['a loop that is a text', (stage) => (stage.loop = 'x'), 'plan.stages[0].loop is not an object'],
  ['visits that are negative', (stage) => (stage.visits = -1), 'plan.stages[0].visits is not a whole number from 0'],
  [
    'a tolerance that is false',
    (stage) => (stage.continueOnError = false),
    'plan.stages[0].continueOnError is not true',
  ],
  [
    'texts without places',
    (stage) => (stage.texts = { sources: [], stages: [], params: {} }),
    'plan.stages[0].texts.texts is not a list',
  ],
  [
    'an edge on another end',
    (stage) => (stage.after = [{ stage: 'a', on: 'x' }]),
    'plan.stages[0].after[0].on is not one of success, end, failure',
  ],
  [
    'rules that are a number',
    (_stage, scope) => (scope.sandbox.egress = { allow: 7 }),
    'plan.scopes[0].sandbox.egress.allow is not a list',
  ],
])('%s is damaged', (_what, change, problem) => {
  expect(problemAfter(change)).toBe(problem);
});

test.each<[string, (stage: any, scope: any, plan: any) => unknown]>([
  ['a key of another build', (stage) => (stage.later = 1)],
  ['a value beyond a limit', (_stage, scope) => (scope.sandbox.memoryMib = 1)],
  ['a name with a slash', (stage) => (stage.of = 'a/b')],
])('%s is no damage, because rules differ between builds', (_what, change) => {
  expect(problemAfter(change)).toBeNull();
});
