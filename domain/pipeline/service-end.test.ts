import { expect, test } from 'vitest';
import { compileText } from '../language/load.ts';
import { isEndOfServices } from './service-end.ts';

const SPEC = `kind: workflow
name: serving
workflow:
  output_step: serve
  steps:
    - { name: prepare, run: { program: 'true' } }
    - { name: serve, depends_on: [prepare], mode: service, run: { program: server } }
    - { name: repair, on_failure: [serve], run: { program: 'true' } }
    - { name: clean, finally: true, run: { program: 'true' } }
`;
const plan = compileText(SPEC, 'x.yaml', { baseDir: '/' }).plan!;

const ENDED = { prepare: 'succeeded', serve: 'cancelled', repair: 'skipped', clean: 'succeeded' };

function ended(
  states: Partial<typeof ENDED>,
  run: { readonly state?: string; readonly hasFailure?: boolean; readonly attempt?: number } = {},
): boolean {
  const { state = 'cancelled', hasFailure = false, attempt = 1 } = run;
  const stages = Object.entries({ ...ENDED, ...states }).map(([id, of]) => ({ id, state: of, attempt }));
  return isEndOfServices(plan, { state, hasFailure, stages });
}

test('the cancel of a service that served is its end', () => {
  expect(ended({})).toBe(true);
});

test.each<[string, boolean]>([
  ['a service that never began', ended({}, { attempt: 0 })],
  ['a stage that was cancelled too', ended({ clean: 'cancelled' })],
  ['a stage that never ran, though it does not wait for the service', ended({ prepare: 'skipped' })],
  ['a failure', ended({}, { hasFailure: true })],
  ['a run that failed', ended({}, { state: 'failed' })],
  ['a service that never ran', ended({ serve: 'skipped' })],
])('the cancel of a run is not its end: %s', (_, isEnd) => {
  expect(isEnd).toBe(false);
});

test('a run without a service does not end by a cancel', () => {
  const { plan: other } = compileText(
    'kind: workflow\nname: x\nworkflow:\n  steps:\n    - { name: a, run: { program: x } }\n',
    'x.yaml',
    { baseDir: '/' },
  );
  const stages = [{ id: 'a', state: 'cancelled', attempt: 1 }];
  expect(isEndOfServices(other!, { state: 'cancelled', hasFailure: false, stages })).toBe(false);
  expect(isEndOfServices(other!, { state: 'cancelled', hasFailure: false, stages: [] })).toBe(false);
});
