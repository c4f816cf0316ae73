/** Tests of the chain, and of the builders around a stage: each makes the plan that the spec makes. */
import { expect, expectTypeOf, test } from 'vitest';
import * as z from 'zod';
import { loadText } from '../domain/language/load.ts';
import type { ApprovalAnswer } from '../domain/run/approval-answer.ts';
import {
  agentBox,
  approval,
  box,
  type Definition,
  definePipeline,
  defineWorkflow,
  forEach,
  type ItemResult,
  items,
  type Merged,
  Pipeline,
  type RunResult,
  step,
  uses,
  wait,
  when,
} from './index.ts';

const named = (): Pipeline => Pipeline.named('x');
const spec = (body: string, more = ''): string => `kind: pipeline\nname: x\n${more}pipeline:\n${body}`;
const a = box('a', ['echo', '[1, 2]']);
const YAML_A = '    - { name: a, run: { program: echo, args: ["[1, 2]"] } }\n';

test.each<[string, () => Definition, string]>([
  [
    'one box after the other',
    () =>
      named()
        .pipe(a)
        .pipe(box('b', ['cat'], { stdinFrom: a })),
    spec(`  boxes:\n${YAML_A}    - { name: b, run: { program: cat, stdin_from: a } }\n`),
  ],
  [
    'boxes side by side, with a name',
    () =>
      named()
        .fanOut([a, box('b', ['true'])], { name: 'both' })
        .pipe(box('c', ['cat'])),
    spec(
      `  boxes:\n${YAML_A}    - { name: b, run: { program: "true" } }\n    - { name: c, run: { program: cat } }\n  stages:\n    - { type: fan_out, name: both, boxes: [a, b] }\n    - { type: box, name: c }\n`,
    ),
  ],
  [
    'a box for each item',
    () =>
      named()
        .pipe(a)
        .forEach(items(a), box('b', ['true']), { maxParallel: 2, failFast: true, allowFailures: 1 }),
    spec(
      `  boxes:\n${YAML_A}    - { name: b, for_each: "stages.a.json", max_parallel: 2, fail_fast: true, allow_failures: 1, run: { program: "true" } }\n`,
    ),
  ],
  [
    'a question, a wait and an agent',
    () =>
      named()
        .pipe(approval('a', { message: 'Go?' }))
        .pipe(wait('b', { forMs: 1_000 }))
        .pipe(agentBox('c', 'Go.')),
    spec(
      '  boxes:\n    - { name: a, approval: { message: "Go?" } }\n    - { name: b, wait: { for: 1s } }\n    - { name: c, prompt: Go. }\n',
    ),
  ],
  [
    'boxes beside the order',
    () =>
      named()
        .pipe(a)
        .aside(box('sorry', ['true'], { onFailure: [a] }))
        .aside(box('clean', ['true'], { finally: true })),
    spec(
      `  boxes:\n${YAML_A}    - { name: sorry, on_failure: [a], run: { program: "true" } }\n    - { name: clean, finally: true, run: { program: "true" } }\n`,
    ),
  ],
  [
    'conditions',
    () =>
      Pipeline.named('x', { params: { go: { type: 'boolean', default: true } } })
        .pipe(when('params.go', box('b', ['true'])))
        .pipe(when('params.go', approval('c', { message: 'Go?' })))
        .pipe(when('params.go', forEach([1, 2], box('d', ['true'])))),
    spec(
      '  boxes:\n    - { name: b, when: params.go, run: { program: "true" } }\n    - { name: c, when: params.go, approval: { message: "Go?" } }\n    - { name: d, when: params.go, for_each: [1, 2], run: { program: "true" } }\n',
      'params: { go: { type: boolean, default: true } }\n',
    ),
  ],
  [
    'what holds of all boxes, and another result',
    () =>
      Pipeline.named('x', {
        maxParallel: 2,
        timeoutMs: 1_000,
        sandbox: { memoryMib: 256 },
        defaults: { timeoutMs: 500 },
      })
        .pipe(a)
        .pipe(box('b', ['true']))
        .returns(a),
    spec(
      `  output_box: a\n  boxes:\n${YAML_A}    - { name: b, run: { program: "true" } }\n`,
      'max_parallel: 2\ntimeout_secs: 1\nsandbox: { memory_mb: 256 }\ndefaults: { timeout_secs: 0.5 }\n',
    ),
  ],
  [
    'steps of a workflow for each item, and with a condition',
    () =>
      defineWorkflow({
        name: 'x',
        params: { list: [1] },
        steps: [when('size(params.list) > 0', forEach(items('list'), step('a', ['true']), { maxParallel: 3 }))],
      }),
    'kind: workflow\nname: x\nparams: { list: [1] }\nworkflow:\n  steps:\n    - { name: a, when: size(params.list) > 0, for_each: params.list, max_parallel: 3, run: { program: "true" } }\n',
  ],
])('%s', async (_what, define, yaml) => {
  const { plan, diagnostics } = await loadText(yaml, 'x.yaml', { baseDir: '/', params: {} });
  expect(diagnostics).toEqual([]);
  expect(plan).not.toBeNull();
  expect(define().compile({ baseDir: '/' })).toEqual({ plan, diagnostics });
});

test('the chain makes what `definePipeline` makes', () => {
  const b = box('b', ['true']);
  const options = { params: { p: 1 }, secrets: ['TOKEN'] } as const;
  expect(Pipeline.named('x', options).pipe(a).fanOut([b]).source).toBe(
    definePipeline({ ...options, name: 'x', stages: [a, { kind: 'fan-out', name: undefined, boxes: [b] }] }).source,
  );
});

test('a part of a chain, with a condition, makes the same plan as its options', () => {
  const inner = named().pipe(a);
  const chain = named().pipe(when('true', uses('p', inner)));
  const { plan, diagnostics } = chain.compile();
  expect(diagnostics).toEqual([]);
  expect(plan?.stages.map(({ id }) => id)).toContain('p.a');
  expect(plan).toEqual(
    named()
      .pipe(uses('p', inner, { when: 'true' }))
      .compile().plan,
  );
  expect(plan).not.toEqual(named().pipe(uses('p', inner)).compile().plan);
});

test('pipelines may share their beginning', () => {
  const start = named().pipe(a);
  const one = start.pipe(box('b', ['true']));
  const other = start.pipe(box('c', ['true']));
  const names = (pipeline: Definition): unknown => pipeline.compile().plan?.stages.map(({ id }) => id);
  expect([start, one, other].map(names)).toEqual([['a'], ['a', 'b'], ['a', 'c']]);
});

test('a pipeline without stages is a mistake', () => {
  const { plan, diagnostics } = named().compile();
  expect(plan).toBeNull();
  expect(diagnostics.map(({ severity }) => severity)).toContain('error');
});

test('a second condition or list on a stage is a mistake at the place in the source', () => {
  expect(() => when('true', when('false', a))).toThrow(
    new TypeError('the stage "a" already has `when`: write it once'),
  );
  expect(() => forEach([1], box('b', ['true'], { forEach: [2] }))).toThrow(
    new TypeError('the stage "b" already has `forEach`: write it once'),
  );
});

test('results and parameters have types', () => {
  type ResultOfRun<D> = D extends Definition<never, infer R> | { run(...options: never[]): Promise<RunResult<infer R>> }
    ? R
    : never;
  const report = box('report', ['true'], { outputSchema: z.object({ ok: z.boolean() }) });
  const text = named().pipe(report).pipe(a);
  expectTypeOf<ResultOfRun<typeof text>>().toEqualTypeOf<string>();
  const object = named()
    .pipe(report)
    .pipe(wait('w', { forMs: 1 }));
  expectTypeOf<ResultOfRun<typeof object>>().toEqualTypeOf<{ ok: boolean }>();
  const list = named().forEach([1], report);
  expectTypeOf<ResultOfRun<typeof list>>().toEqualTypeOf<readonly ItemResult<{ ok: boolean }>[]>();
  const texts = named().forEach([1], a);
  expectTypeOf<ResultOfRun<typeof texts>>().toEqualTypeOf<readonly ItemResult[]>();
  const merged = named().fanOut([a]);
  expectTypeOf<ResultOfRun<typeof merged>>().toEqualTypeOf<Merged>();
  const answer = named().pipe(approval('go', { message: 'Go?' }));
  expectTypeOf<ResultOfRun<typeof answer>>().toEqualTypeOf<ApprovalAnswer>();
  const workflow = defineWorkflow({
    name: 'x',
    steps: [],
    output: step('s', ['true'], { outputSchema: z.array(z.string()) }),
  });
  expectTypeOf<ResultOfRun<typeof workflow>>().toEqualTypeOf<string[]>();

  const typed = Pipeline.named('x', {
    params: {
      to: { type: 'number' },
      env: { choices: ['dev', 'prod'] },
      dry: { type: 'boolean', default: true },
      who: 'ada',
    },
  });
  type Given = Parameters<typeof typed.run>[0]['params'];
  expectTypeOf<{ to: 1; env: 'dev' }>().toExtend<Given>();
  expectTypeOf<{ to: 1; env: 'prod'; dry: false; who: 'bob' }>().toExtend<Given>();
  expectTypeOf<{ to: 1 }>().not.toExtend<Given>();
  expectTypeOf<{ to: 'one'; env: 'dev' }>().not.toExtend<Given>();
  expectTypeOf<{ to: 1; env: 'test' }>().not.toExtend<Given>();
  expectTypeOf<{ to: 1; env: 'dev'; dry: 'no' }>().not.toExtend<Given>();
  // If no parameter is required, the argument may be absent.
  expectTypeOf<Parameters<typeof text.run>[0]>().extract<undefined>().toEqualTypeOf<undefined>();
  expect(typed.name).toBe('x');
});
