import { type } from 'arktype';
import { expect, test } from 'vitest';
import * as z from 'zod';
import { checkExpressions } from '../domain/language/expression/check.ts';
import { compileText } from '../domain/language/load.ts';
import {
  approval,
  box,
  defineWorkflow,
  definePipeline,
  fanOut,
  fromHost,
  param,
  step,
  type Definition,
  type OutputSchema,
} from './index.ts';

function expectSamePlan(definition: Definition, yaml: string): void {
  const options = { baseDir: '/home/ada' };
  const { plan, diagnostics } = compileText(yaml, 'spec.yaml', { ...options, checkExpression: checkExpressions });
  expect(diagnostics).toEqual([]);
  expect(definition.compile(options)).toEqual({ plan, diagnostics });
}

test('a workflow in TypeScript makes the plan that it makes in YAML', () => {
  const split = step('split', ['head', '-n', param('rows'), '/data/x.csv'], {
    cwd: '/data',
    env: { TOKEN: fromHost, JOBS: 2 },
    outputs: { parts: '/workspace/parts' },
  });
  const count = step('count', ['wc', '-l'], {
    stdinFrom: split,
    timeoutMs: 1_500,
    retry: { maxAttempts: 3, backoffMs: 250 },
    maxOutputMib: 1,
  });
  const heavy = step('heavy', ['ls', '/workspace/in'], {
    inputs: [{ from: split.output('parts'), guest: '/workspace/in' }],
    sandbox: { memoryMib: 2_048 },
  });
  const report = step('report', ['cat', '/workspace/report.json'], {
    dependsOn: [count, heavy],
    outputFile: '/workspace/report.json',
  });
  const audit = step('audit', ['true'], { dependsOn: [split] });
  expectSamePlan(
    defineWorkflow({
      name: 'sales',
      params: { rows: { default: 100, description: 'how many' } },
      sandbox: {
        memoryMib: 768,
        vcpus: 2,
        diskMib: 4_096,
        isolation: 'microvm',
        mounts: [{ host: 'data', guest: '/data' }],
      },
      maxParallel: 8,
      steps: [split, count, heavy, report, audit],
      output: report,
    }),
    `
kind: workflow
name: sales
params: { rows: 100 }
sandbox: { memory_mb: 768, vcpus: 2, disk_mb: 4096, mounts: [{ host: ./data, guest: /data }] }
max_parallel: 8
workflow:
  output_step: report
  steps:
    - name: split
      run: { program: head, args: [-n, "\${{ params.rows }}", /data/x.csv], cwd: /data }
      env: { TOKEN: "", JOBS: 2 }
      outputs: [{ name: parts, guest: /workspace/parts }]
    - { name: count, run: { program: wc, args: [-l], stdin_from: split }, timeout_secs: 1.5, retry: { max_attempts: 3, backoff_secs: 0.25 }, max_output_mb: 1 }
    - { name: heavy, run: { program: ls, args: [/workspace/in] }, inputs: [{ from: parts, guest: /workspace/in }], sandbox: { memory_mb: 2048 } }
    - { name: report, run: { program: cat, args: [/workspace/report.json] }, depends_on: [count, heavy], output_file: /workspace/report.json }
    - { name: audit, run: { program: "true" }, depends_on: [split] }
`,
  );
});

test('a pipeline in TypeScript makes the plan that it makes in YAML', () => {
  const fetch = box('fetch', ['fetch'], { outputs: { data: '/workspace/output' } });
  const left = box('left', ['count', 1e3], { inputs: [{ from: fetch.output('data') }] });
  const right = box('right', ['cat'], { stdinFrom: fetch });
  expectSamePlan(
    definePipeline({ name: 'sales', stages: [fetch, fanOut([left, right], { name: 'tables' })], output: left }),
    `
kind: pipeline
name: sales
pipeline:
  output_box: left
  boxes:
    - { name: fetch, run: { program: fetch }, outputs: [{ name: data }] }
    - { name: left, run: { program: count, args: [1000] }, inputs: [{ from: data }] }
    - { name: right, run: { program: cat, stdin_from: fetch } }
  stages:
    - { type: box, name: fetch }
    - { type: fan_out, boxes: [left, right] }
`,
  );
});

test('a pipeline that ends in a fan-out has the merge as its result', () => {
  const { plan } = definePipeline({
    name: 'both',
    stages: [fanOut([box('left', ['true']), box('right', ['true'])])],
  }).compile();
  expect(plan?.output).toEqual({ kind: 'merge', stages: ['left', 'right'] });
});

test('mistakes point into the source of the definition', () => {
  const once = box('once', ['true']);
  const { plan, diagnostics } = definePipeline({ name: 'twice', stages: [once, once] }).compile();
  expect(plan).toBeNull();
  expect(diagnostics.map(({ code, file, line }) => [code, file, line])).toEqual([
    ['spec/box-used-twice', 'twice.json', 22],
  ]);
});

test('an output that a stage does not have is a type error', () => {
  const fetch = box('fetch', ['fetch'], { outputs: { data: '/workspace/output' } });
  // @ts-expect-error only `data` is an output
  expect(fetch.output('date')).toEqual({ stage: 'fetch', output: 'date' });
});

test.each([2 ** 53, -1e17])('the number %s may differ from the number that the author wrote, and is refused', (id) => {
  const text = `\`id\` is the number ${id}, which has no exact value in JavaScript`;
  const params = { id: { type: 'number' as const } };
  expect(() => defineWorkflow({ name: 'x', params: { id }, steps: [step('a', ['true'])] })).toThrow(text);
  const workflow = defineWorkflow({ name: 'x', params, steps: [step('a', ['true'])] });
  expect(() => workflow.compile({ params: { id } })).toThrow(text);
});

test.each([Number.NaN, Number.POSITIVE_INFINITY])('%s is a mistake, not an absent key', (number) => {
  const late = step('late', ['true'], { timeoutMs: number, sandbox: { memoryMib: number } });
  const { plan, diagnostics } = defineWorkflow({ name: 'x', steps: [late], maxParallel: number }).compile();
  expect(plan).toBeNull();
  expect(diagnostics.map(({ code, message }) => [code, /^`(\w+)`/.exec(message)?.[1]])).toEqual([
    ['spec/wrong-type', 'max_parallel'],
    ['spec/wrong-type', 'timeout_secs'],
    ['spec/wrong-type', 'memory_mb'],
  ]);
});

test('values of typed params may be numbers, booleans and lists, and are checked', () => {
  const params = { rows: { type: 'number', max: 9 }, dry: { type: 'boolean' }, cities: ['Oslo'] } as const;
  const args = [param('rows'), param('dry'), param('cities')];
  const definition = defineWorkflow({ name: 'x', params, steps: [step('a', ['echo', ...args])] });
  const { plan } = definition.compile({ params: { rows: 5, dry: true, cities: ['Rome', { name: 'Bari' }] } });
  expect(plan?.stages[0]?.work).toMatchObject({ args: ['5', 'true', '["Rome",{"name":"Bari"}]'] });
  expect(definition.compile({ params: { rows: 10, dry: 'no' } }).diagnostics.map(({ message }) => message)).toEqual([
    'the value of parameter "rows" is "10"; it must be at most 9',
    'the value of parameter "dry" is "no"; a boolean is needed',
  ]);
});

test('conditions in TypeScript make the plan that they make in YAML', () => {
  const build = step('build', ['make'], { outputs: { package: '/workspace/package' } });
  const release = approval('release', { message: 'Go?', when: 'stages.build.json.ok', dependsOn: [build] });
  const publish = step('publish', ['true'], {
    when: 'params.env == "prod"',
    dependsOn: [release],
    outputs: { note: '/workspace/note' },
  });
  const report = step('report', ['ls'], { inputs: [{ from: publish.output('note'), optional: true }] });
  expectSamePlan(
    defineWorkflow({ name: 'when', params: { env: 'test' }, steps: [build, release, publish, report] }),
    `
kind: workflow
name: when
params: { env: test }
workflow:
  steps:
    - { name: build, run: { program: make }, outputs: [{ name: package, guest: /workspace/package }] }
    - { name: release, depends_on: [build], when: stages.build.json.ok, approval: { message: "Go?" } }
    - name: publish
      depends_on: [release]
      when: params.env == "prod"
      run: { program: "true" }
      outputs: [{ name: note, guest: /workspace/note }]
    - { name: report, run: { program: ls }, inputs: [{ from: publish.note, optional: true }] }
`,
  );
});

test('a schema of outputs becomes JSON Schema, and a value that is not such a schema is refused', () => {
  const made = (outputSchema: unknown): Definition =>
    defineWorkflow({ name: 'x', steps: [step('a', ['true'], { outputSchema: outputSchema as OutputSchema })] });
  for (const schema of [z.object({ ok: z.boolean() }), type({ ok: 'boolean' })]) {
    const { plan, diagnostics } = made(schema).compile();
    expect(diagnostics).toEqual([]);
    expect(plan!.stages[0]!.outputSchema).toMatchObject({ properties: { ok: { type: 'boolean' } }, required: ['ok'] });
  }
  expect(() => made({ type: 'object' })).toThrow('is not a Standard Schema');
  expect(() => made({ '~standard': { vendor: 'own' } })).toThrow(
    'a schema of own that exports no JSON Schema, which the plan needs: use a version of it that implements Standard JSON Schema',
  );
  expect(() => made(z.date())).toThrow('JSON Schema');
  const invalid = { '~standard': { vendor: 'own', jsonSchema: { input: () => ({ type: 'text' }) } } };
  expect(made(invalid).compile().diagnostics).toMatchObject([{ code: 'spec/bad-value' }]);
});
