import { expect, test } from 'vitest';
import { SERVICE_TIMEOUT_MS } from '../../plan/defaults.ts';
import { compileText } from '../load.ts';
import { checkPlan } from '../check-plan.ts';

/** A plan in the form that a client may send. */
interface Loose {
  readonly stages: Record<string, unknown>[];
}

const SPEC = `kind: workflow
name: site
workflow:
  output_step: serve
  steps:
    - { name: prepare, run: { program: prepare } }
    - { name: serve, mode: service, depends_on: [prepare], run: { program: serve } }
`;

const plan = (): Loose => JSON.parse(JSON.stringify(compileText(SPEC, 'spec.yaml', { baseDir: null }).plan)) as Loose;

test('a service in a plan has the time limit of a service, and is marked as one', () => {
  expect(plan().stages[1]).toMatchObject({ timeoutMs: SERVICE_TIMEOUT_MS, work: { service: true } });
  expect(checkPlan(plan())).toMatchObject({ plan: {} });
});

test.each<[string, (stages: Loose['stages']) => void, RegExp]>([
  [
    'a time limit',
    ([, serve]) => (serve!['timeoutMs'] = 60_000),
    /stage serve is a service and has the time limit 60000/,
  ],
  [
    'items',
    ([, serve]) =>
      (serve!['each'] = { list: { kind: 'inline', items: [1] }, maxParallel: 1, failFast: false, allowFailures: 0 }),
    /stage serve is a service and runs for each item/,
  ],
  [
    'what waits for it',
    ([prepare, serve]) => {
      prepare!['after'] = [{ stage: 'serve', on: 'success' }];
      serve!['after'] = [];
    },
    /"prepare" waits for the end of "serve"/,
  ],
  [
    'what hears of its end, whatever that is',
    ([prepare, serve]) => {
      prepare!['after'] = [{ stage: 'serve', on: 'end' }];
      serve!['after'] = [];
    },
    /"prepare" waits for the end of "serve"/,
  ],
  [
    'its time without a service',
    ([prepare]) => (prepare!['timeoutMs'] = SERVICE_TIMEOUT_MS),
    /stage prepare has the time limit of a service and is not a service/,
  ],
])('%s is refused in a plan that any client sends', (_what, change, message) => {
  const changed = plan();
  change(changed.stages);
  const checked = checkPlan(changed);
  expect('problems' in checked ? checked.problems.join('\n') : '').toMatch(message);
});

test('a stage may wait for the failure of a service', () => {
  const changed = plan();
  changed.stages.push({
    id: 'tell',
    scope: null,
    work: { kind: 'wait', forMs: 1_000 },
    after: [{ stage: 'serve', on: 'failure' }],
  });
  expect(checkPlan(changed)).toMatchObject({ plan: {} });
});

test.each<[number, string, readonly string[]]>([
  [1, '', []],
  [1, '    - { name: beside, run: { program: x } }', ['beside']],
  [2, '    - { name: beside, run: { program: x } }', []],
  [1, '    - { name: tell, on_failure: [serve], run: { program: x } }', []],
  [1, '    - { name: clean, finally: true, run: { program: x } }', []],
  [1, '    - { name: ask, approval: { message: Go on? } }', []],
  [1, '    - { name: other, mode: service, run: { program: x } }', ['other']],
  [2, '    - { name: other, mode: service, run: { program: x } }', []],
])('with max_parallel %i and %j beside it no slot is left for %j', (maxParallel, step, crowded) => {
  const { diagnostics } = compileText(
    `${SPEC.replace('name: site', `name: site\nmax_parallel: ${maxParallel}`)}${step}\n`,
    'spec.yaml',
    { baseDir: null },
  );
  const starved = diagnostics.map(({ message }) => /"([^"]*)" may never start$/.exec(message)?.[1] ?? message);
  expect(starved).toEqual(crowded);
});
