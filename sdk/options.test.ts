/** Mistakes that types exclude, but JavaScript can contain. */
import { expect, test } from 'vitest';
import { STAGE } from '../domain/language/grammar/stage-table.ts';
import { isAllowedBeside, type Key } from '../domain/language/grammar/table.ts';
import {
  agentBox,
  agentStep,
  approval,
  box,
  definePipeline,
  defineWorkflow,
  fanOut,
  forEach,
  loop,
  part,
  Pipeline,
  skillBox,
  skillStep,
  step,
  wait,
  when,
} from './index.ts';

const a = step('a', ['true'], { outputs: { d: '/workspace/d' } });
const first = box('first', ['true']);
/** Hides the type of a value, as in JavaScript. */
const any = (value: unknown): never => value as never;

test.each<[string, () => unknown]>([
  [
    'options of step "b": there is no `dependOn`; did you mean "dependsOn"?',
    () => step('b', ['x'], any({ dependOn: [a] })),
  ],
  [
    'options of step "b": there is no `timeout_secs`; did you mean "timeoutMs"?',
    () => step('b', ['x'], any({ timeout_secs: 3 })),
  ],
  ['options of box "b": there is no `dependsOn`; there are when, ', () => box('b', ['x'], any({ dependsOn: [a] }))],
  ['options of step "b": there is no `cwd`', () => agentStep('b', 'x', any({ cwd: '/x' }))],
  ['options of box "b": there is no `finally`', () => agentBox('b', 'x', any({ finally: true }))],
  ['options of box "b": there is no `forEach`', () => agentBox('b', 'x', any({ forEach: [1] }))],
  ['options of step "b": there is no `outputFile`', () => skillStep('b', any({ use: './s', outputFile: '/x' }))],
  ['options of box "b": an object is needed, got the text "./s"', () => skillBox('b', any('./s'))],
  [
    '`agent` of box "b": there is no `provider`',
    () => skillBox('b', any({ use: './s', agent: { provider: 'claude' } })),
  ],
  ['options of approval "b": an object is needed, got the text "Go on?"', () => approval('b', any('Go on?'))],
  [
    'options of approval "b": there is no `timeout`; did you mean "timeoutMs"?',
    () => approval('b', any({ message: 'x', timeout: '2d' })),
  ],
  ['options of wait "b": an object is needed, got the number 5000', () => wait('b', any(5_000))],
  ['`forMs` of wait "b": a number of milliseconds is needed, got the text "5s"', () => wait('b', any({ forMs: '5s' }))],
  ['options of part "b": there is no `env`', () => part('b', './b.yaml', any({ env: {} }))],
  ['options of loop "b": there is no `max`', () => loop('b', [first], any({ until: 'true', max: 3 }))],
  [
    'a box of loop "b": a stage is needed, got the text "first"; pass the stage object instead of its name',
    () => loop('b', any(['first']), { until: 'true', maxVisits: 3 }),
  ],
  ['boxes of a fan-out: a list is needed, got a box', () => fanOut(any(first))],
  ['options of fan-out "f": there is no `x`; there are name', () => fanOut([first], any({ name: 'f', x: 1 }))],
  [
    '`retry` of step "b": there is no `attempts`; there are maxAttempts, ',
    () => step('b', ['x'], any({ retry: { attempts: 3 } })),
  ],
  ['`retry` of step "b": an object is needed, got the number 3', () => step('b', ['x'], any({ retry: 3 }))],
  ['`mock` of step "b": there is no `stdout`', () => step('b', ['x'], any({ mock: { stdout: '' } }))],
  [
    'an input of step "b": there is no `to`',
    () => step('b', ['x'], any({ inputs: [{ from: a.output('d'), to: '/x' }] })),
  ],
  [
    '`from` of an input of step "b": an output is needed, got the text "a.d"; write `stage.output("name")`',
    () => step('b', ['x'], any({ inputs: [{ from: 'a.d' }] })),
  ],
  [
    '`inputs` of step "b": a list is needed, got an object',
    () => step('b', ['x'], any({ inputs: { from: a.output('d') } })),
  ],
  ['`llm` of box "b": there is no `name`', () => agentBox('b', 'x', any({ llm: { name: 'claude' } }))],
  [
    'the command of step "b": a text, or a list of program and arguments is needed, got an object',
    () => step('b', any({ program: 'ls' })),
  ],
  [
    '`dependsOn` of step "b": a stage is needed, got the text "a"; pass the stage object instead of its name',
    () => step('b', ['x'], any({ dependsOn: ['a'] })),
  ],
  ['`dependsOn` of step "b": a list is needed, got a step', () => step('b', ['x'], any({ dependsOn: a }))],
  [
    '`onFailure` of wait "b": a stage is needed, got undefined',
    () => wait('b', any({ forMs: 1_000, onFailure: [undefined] })),
  ],
  [
    '`stdinFrom` of box "b": a stage is needed, got a fan-out',
    () => box('b', ['x'], any({ stdinFrom: fanOut([first]) })),
  ],
  [
    '`forEach` of box "b": a list, or a result of `items` or `files` is needed, got the text "params.x"',
    () => box('b', ['x'], any({ forEach: 'params.x' })),
  ],
  ['the list of `forEach` around "a": a list, or a result', () => forEach(any('params.x'), a)],
  ['options of `forEach` around "a": there is no `parallel`', () => forEach([1], a, any({ parallel: 3 }))],
  ['`when`: a stage is needed, got the text "a"', () => when('true', any('a'))],
  [
    'options of `defineWorkflow`: there is no `parms`; did you mean "params"?',
    () => defineWorkflow(any({ name: 'x', parms: {}, steps: [a] })),
  ],
  ['`steps` of `defineWorkflow`: a list is needed, got a step', () => defineWorkflow(any({ name: 'x', steps: a }))],
  [
    'a step of `defineWorkflow`: a stage is needed, got a fan-out',
    () => defineWorkflow(any({ name: 'x', steps: [a, fanOut([first])] })),
  ],
  ['`output`: a stage is needed, got the text "a"', () => defineWorkflow(any({ name: 'x', steps: [a], output: 'a' }))],
  [
    '`defaults` of workflow "x": there is no `secrets`',
    () => defineWorkflow(any({ name: 'x', steps: [a], defaults: { secrets: [] } })),
  ],
  [
    '`retry` of `defaults` of workflow "x": there is no `times`',
    () => defineWorkflow(any({ name: 'x', steps: [a], defaults: { retry: { times: 1 } } })),
  ],
  ['`stages` of `definePipeline`: a list is needed, got undefined', () => definePipeline(any({ name: 'x' }))],
  [
    'a stage of `definePipeline`: a stage is needed, got a list',
    () => definePipeline(any({ name: 'x', stages: [[first]] })),
  ],
  [
    '`aside` of `definePipeline`: a list is needed, got a box',
    () => definePipeline(any({ name: 'x', stages: [first], aside: first })),
  ],
  [
    'options of `definePipeline`: there is no `secret`; did you mean "secrets"?',
    () => Pipeline.named('x', any({ secret: [] })),
  ],
  [
    'options of `compile`: there is no `dir`',
    () =>
      Pipeline.named('x')
        .pipe(first)
        .compile(any({ dir: '/' })),
  ],
])('%s', (message, make) => {
  expect(make).toThrow(TypeError);
  expect(make).toThrow(message);
});

test('an option of `run` that does not exist is an error, and no run starts', async () => {
  const { run } = Pipeline.named('x').pipe(first);
  await expect(run.call(Pipeline.named('x').pipe(first), any({ param: { a: 1 } }))).rejects.toThrow(
    'options of `run`: there is no `param`; did you mean "params"?',
  );
});

test('a time that is not a number is a mistake with its place, as in a spec', () => {
  const { diagnostics } = defineWorkflow({ name: 'x', steps: [step('b', ['x'], any({ timeoutMs: '3' }))] }).compile();
  expect(diagnostics.map(({ message }) => message)).toEqual([
    '`timeout_secs` of step "b" must be a number from 0.001 to 604800 (seconds), got the string "3"',
  ]);
});

const everything = { when: 'true', dependsOn: [a], onFailure: [a], continueOnError: true } as const;

const schema = any({ '~standard': { vendor: 'x', jsonSchema: { input: () => ({}) } } });

test.each([
  [
    'skill',
    skillStep('machine', {
      ...everything,
      use: './s',
      env: { A: 'b' },
      secrets: ['TOKEN'],
      inputs: [],
      outputs: {},
      timeoutMs: 1_000,
      retry: {},
      sandbox: {},
      outputSchema: schema,
      mock: {},
    }),
  ],
  ['approval', approval('ok', { ...everything, message: 'Go on?' })],
  ['wait', wait('pause', { ...everything, forMs: 1_000 })],
  [
    'uses',
    part('review', './review.yaml', {
      with: { x: 1 },
      outputSchema: schema,
      when: 'true',
      dependsOn: [a],
      onFailure: [a],
      continueOnError: true,
      mock: { output: 1 },
      forEach: [1, 2],
      maxParallel: 2,
      failFast: true,
      allowFailures: 1,
    }),
  ],
])('the keys that a spec allows next to `%s` exist in TypeScript', (work, { spec }) => {
  const allowed = Object.entries<Key>(STAGE.keys)
    .filter(([name, key]) => name === work || (key.group === undefined && isAllowedBeside(key, work)))
    .map(([name]) => name);
  expect(Object.keys(spec).filter((name) => spec[name] !== undefined)).toEqual(expect.arrayContaining(allowed));
});
