/** Tests that each key of the control flow makes the same plan in a definition and in a spec. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { checkExpressions } from '../domain/language/expression/check.ts';
import { compileText } from '../domain/language/load.ts';
import { createReadSpec } from './read-spec.ts';
import {
  agentStep,
  approval,
  box,
  type Definition,
  definePipeline,
  defineWorkflow,
  expression,
  forEach,
  items,
  param,
  part,
  skillBox,
  skillStep,
  Pipeline,
  step,
  wait,
} from './index.ts';

const a = step('a', ['true']);
const workflow = (steps: Parameters<typeof defineWorkflow>[0]['steps'], more = {}): Definition =>
  defineWorkflow({ name: 'x', steps: [a, ...steps], output: a, ...more });
const spec = (steps: string, more = ''): string =>
  `kind: workflow\nname: x\n${more}workflow:\n  output_step: a\n  steps:\n    - { name: a, run: { program: "true" } }\n${steps}`;

test.each<[string, () => Definition, string]>([
  [
    'retries',
    () =>
      workflow([
        step('b', ['true'], {
          retry: {
            maxAttempts: 5,
            initialMs: 500,
            maxMs: 9_000,
            backoff: 2,
            nonRetryable: ['stage/timeout', 'exit:2'],
          },
        }),
      ]),
    spec(
      '    - { name: b, run: { program: "true" }, retry: { max_attempts: 5, initial_secs: 0.5, max_secs: 9, backoff: 2, non_retryable: [stage/timeout, exit:2] } }\n',
    ),
  ],
  [
    'commands as texts',
    () =>
      workflow(
        [
          step('b', `seq ${param('rows')} | wc -l`),
          step('c', 'wc -l', { stdinFrom: a, cwd: '/tmp' }),
          step('d', `echo ${expression('stages.a.output')}`),
        ],
        { params: { rows: 3 } },
      ),
    spec(
      '    - { name: b, run: "seq ${{ params.rows }} | wc -l" }\n    - { name: c, run: { script: wc -l, stdin_from: a, cwd: /tmp } }\n    - { name: d, run: "echo ${{ stages.a.output }}" }\n',
      'params: { rows: 3 }\n',
    ),
  ],
  [
    'failures that are tolerated',
    () =>
      workflow([
        step('b', ['false'], { continueOnError: true }),
        approval('c', { message: 'Go?', continueOnError: true }),
      ]),
    spec(
      '    - { name: b, run: { program: "false" }, continue_on_error: true }\n    - { name: c, approval: { message: "Go?" }, continue_on_error: true }\n',
    ),
  ],
  [
    'waits',
    () =>
      workflow([
        wait('b', { forMs: 90_000, dependsOn: [a] }),
        wait('c', { until: new Date('2026-12-01T09:00:00+01:00') }),
        wait('d', { until: '2026-12-01T09:00:00+01:00' }),
      ]),
    spec(
      '    - { name: b, depends_on: [a], wait: { for: 90s } }\n    - { name: c, wait: { until: 2026-12-01T08:00:00Z } }\n    - { name: d, wait: { until: 2026-12-01T08:00:00Z } }\n',
    ),
  ],
  [
    'steps after failures',
    () => {
      const b = step('b', ['true'], { onFailure: [a] });
      return workflow([
        b,
        approval('c', { message: 'Go?', onFailure: [a, b] }),
        wait('d', { forMs: 1_000, onFailure: [b] }),
      ]);
    },
    spec(
      '    - { name: b, on_failure: [a], run: { program: "true" } }\n    - { name: c, on_failure: [a, b], approval: { message: "Go?" } }\n    - { name: d, on_failure: [b], wait: { for: 1s } }\n',
    ),
  ],
  [
    'the time of a run, and defaults',
    () =>
      workflow([], {
        timeoutMs: 90_000,
        defaults: { env: { A: 'b' }, timeoutMs: 1_500, maxOutputMib: 2, retry: { maxAttempts: 2 } },
      }),
    spec(
      '',
      'timeout_secs: 90\ndefaults: { env: { A: b }, timeout_secs: 1.5, max_output_mb: 2, retry: { max_attempts: 2 } }\n',
    ),
  ],
  [
    'what runs whatever happens',
    () => {
      const a = step('b', ['true'], { outputs: { logs: '/workspace/logs' } });
      const clean = step('c', ['true'], {
        finally: true,
        inputs: [{ from: a.output('logs'), optional: true }],
      });
      return workflow([a, clean], { graceMs: 90_000 });
    },
    spec(
      '    - { name: b, run: { program: "true" }, outputs: [{ name: logs, guest: /workspace/logs }] }\n    - { name: c, finally: true, inputs: [{ from: b.logs, optional: true }], run: { program: "true" } }\n',
      'grace_secs: 90\n',
    ),
  ],
  [
    'boxes beside the order',
    () => {
      const a = box('a', ['true']);
      const sorry = box('sorry', ['true'], { onFailure: [a] });
      const clean = box('clean', ['true'], { finally: true });
      return definePipeline({ name: 'x', stages: [a, box('b', ['cat'])], aside: [sorry, clean] });
    },
    'kind: pipeline\nname: x\npipeline:\n  boxes:\n    - { name: a, run: { program: "true" } }\n    - { name: b, run: { program: cat } }\n    - { name: sorry, on_failure: [a], run: { program: "true" } }\n    - { name: clean, finally: true, run: { program: "true" } }\n',
  ],
  [
    'values of outputs and items in arguments, variables, messages and prompts',
    () => {
      const tag = expression('stages.b.json.tag');
      return workflow([
        step('b', ['echo', '{"tag":"1.2"}']),
        step('c', ['./publish', `--tag=${tag}`], { env: { NOTE: expression('stages.b.output.trim()') } }),
        step('d', ['echo', `${expression('item_index')} ${expression('item.name')}`], { forEach: [{ name: 'x' }] }),
        approval('e', { message: `Ship ${tag}?` }),
        agentStep('f', `Look at ${tag}.`),
      ]);
    },
    spec(
      '    - { name: b, run: { program: echo, args: [\'{"tag":"1.2"}\'] } }\n' +
        "    - { name: c, run: { program: ./publish, args: ['--tag=${{ stages.b.json.tag }}'] }, env: { NOTE: '${{ stages.b.output.trim() }}' } }\n" +
        "    - { name: d, run: { program: echo, args: ['${{ item_index }} ${{ item.name }}'] }, for_each: [{ name: x }] }\n" +
        "    - { name: e, approval: { message: 'Ship ${{ stages.b.json.tag }}?' } }\n" +
        "    - { name: f, prompt: 'Look at ${{ stages.b.json.tag }}.' }\n",
    ),
  ],
  [
    'the output of a part in an argument',
    () => {
      const p = part('p', defineWorkflow({ name: 'p', steps: [step('s', ['date'])] }));
      return workflow([p, step('b', ['echo', expression('stages.p.output')])]);
    },
    spec(
      "    - { name: p, uses: p }\n    - { name: b, run: { program: echo, args: ['${{ stages.p.output }}'] } }\n",
      'parts:\n  p: { workflow: { steps: [{ name: s, run: { program: date } }] } }\n',
    ),
  ],
  [
    'a wait until what a step says',
    () => workflow([wait('b', { until: 'stages.a.output' }), wait('c', { until: expression('stages.a.json.at') })]),
    spec(
      "    - { name: b, wait: { until: stages.a.output } }\n    - { name: c, wait: { until: '${{ stages.a.json.at }}' } }\n",
    ),
  ],
  [
    'a wait between boxes',
    () => definePipeline({ name: 'x', stages: [box('a', ['true']), wait('b', { forMs: 1_000 }), box('c', ['cat'])] }),
    'kind: pipeline\nname: x\npipeline:\n  boxes:\n    - { name: a, run: { program: "true" } }\n    - { name: b, wait: { for: 1s } }\n    - { name: c, run: { program: cat } }\n',
  ],
])('%s', (_what, define, yaml) => {
  const { plan, diagnostics } = compileText(yaml, 'x.yaml', { baseDir: '/', checkExpression: checkExpressions });
  const defined = define().compile({ baseDir: '/' });
  // The default retry gives the step attempts, which share its VM.
  const warnings = yaml.includes('defaults: {') ? ['spec/attempts-share-vm'] : [];
  expect(diagnostics.map(({ code }) => code)).toEqual(warnings);
  expect(defined.diagnostics.map(({ code }) => code)).toEqual(warnings);
  expect(defined.plan).toEqual(plan);
});

describe('a step machine', () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'voidbox-skills-'));
    writeFileSync(join(folder, 'skill.ts'), 'throw new Error("its code is not run");\n');
  });

  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const params = { place: 'Ulm', list: [1, { a: null }], said: expression('stages.a.output') };
  const skills = ['cli:jq', { name: 'style', content: 'Short.' }] as const;

  test('makes the plan of the YAML, as a step and as a box', () => {
    const machine = `skill: { use: ., params: { place: Ulm, list: [1, { a: null }], said: "\${{ stages.a.output }}" }, agent: { llm: { provider: claude, base_url: "http://x" }, skills: ["cli:jq", { name: style, content: Short. }] } }`;
    const agent = { llm: { provider: 'claude', baseUrl: 'http://x' }, skills } as const;
    const asStep = skillStep('b', { use: '.', params, agent, env: { A: 'b' } });
    const asBox = skillBox('b', { use: '.', params, agent: 'codex' });
    const first = '{ name: a, run: { program: "true" } }';
    for (const [definition, yaml] of [
      [
        defineWorkflow({ name: 'x', steps: [step('a', ['true']), asStep] }),
        `kind: workflow\nname: x\nworkflow:\n  steps:\n    - ${first}\n    - { name: b, ${machine}, env: { A: b } }\n`,
      ],
      [
        definePipeline({ name: 'x', stages: [box('a', ['true']), asBox] }),
        `kind: pipeline\nname: x\npipeline:\n  boxes:\n    - ${first}\n    - { name: b, ${machine.replace(/agent: .*/, 'agent: codex }')} }\n`,
      ],
    ] as const) {
      const { plan, diagnostics } = compileText(yaml, 'x.yaml', {
        baseDir: folder,
        checkExpression: checkExpressions,
      });
      expect(diagnostics).toEqual([]);
      expect(plan?.stages[1]?.work).toMatchObject({ kind: 'skill', source: { kind: 'host', path: folder } });
      expect(definition.compile({ baseDir: folder })).toEqual({ plan, diagnostics });
    }
  });

  test('that does not exist is a diagnostic', () => {
    const { plan, diagnostics } = workflow([skillStep('b', { use: './gone' })]).compile({ baseDir: folder });
    expect(plan).toBeNull();
    expect(diagnostics).toMatchObject([
      { code: 'spec/bad-path', message: expect.stringContaining(`${folder}/gone does not exist`) as string },
    ]);
  });
});

describe('a part', () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'voidbox-parts-'));
    const text = 'kind: workflow\nname: p\nparams: { rows: { type: number }, flags: { type: list } }\n';
    const steps = 'workflow:\n  steps:\n    - { name: s, run: { program: "${{ params.rows }}" } }\n';
    writeFileSync(join(folder, 'part.yaml'), text + steps);
  });

  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test('runs for each item, as its option or by the builder', () => {
    const values = { rows: 3, flags: [] };
    const each = { maxParallel: 2, failFast: true, allowFailures: 1 };
    const yaml = spec(
      '    - { name: b, uses: ./part.yaml, with: { rows: 3, flags: [] }, for_each: stages.a.json.files, max_parallel: 2, fail_fast: true, allow_failures: 1 }\n',
    );
    const { plan, diagnostics } = compileText(yaml, 'x.yaml', {
      baseDir: folder,
      readSpec: createReadSpec([folder]),
      checkExpression: checkExpressions,
    });
    expect(diagnostics).toEqual([]);
    expect(plan?.stages.find(({ id }) => id === 'b.s')).toMatchObject({ of: 'b' });
    for (const b of [
      part('b', './part.yaml', { with: values, forEach: items(a, 'files'), ...each }),
      forEach(items(a, 'files'), part('b', './part.yaml', { with: values }), each),
    ])
      expect(workflow([b]).compile({ baseDir: folder })).toEqual({ plan, diagnostics });
  });

  test('that has a list itself makes the plan of the YAML, also if it is a definition', () => {
    const cities = forEach(
      items(box('list', ['true'])),
      part('cities', './part.yaml', { with: { rows: 1, flags: [] } }),
      {
        maxParallel: 3,
        allowFailures: 1,
      },
    );
    const country = definePipeline({ name: 'country', stages: [box('list', ['true']), cities, box('sum', ['cat'])] });
    const made = definePipeline({
      name: 'x',
      stages: [forEach(['fr', 'jp'], part('countries', country), { maxParallel: 2, failFast: true })],
    });
    const yaml = `kind: pipeline
name: x
parts:
  country:
    pipeline:
      boxes:
        - { name: list, run: { program: "true" } }
        - { name: cities, uses: ./part.yaml, with: { rows: 1, flags: [] }, for_each: stages.list.json, max_parallel: 3, allow_failures: 1 }
        - { name: sum, run: { program: cat } }
pipeline:
  boxes:
    - { name: countries, uses: country, for_each: [fr, jp], max_parallel: 2, fail_fast: true }
`;
    const { plan, diagnostics } = compileText(yaml, 'x.yaml', {
      baseDir: folder,
      readSpec: createReadSpec([folder]),
      checkExpression: checkExpressions,
    });
    expect(diagnostics).toEqual([]);
    expect(plan?.stages.map(({ id, of, each }) => [id, of, each?.maxParallel])).toEqual([
      ['countries.list', 'countries', undefined],
      ['countries.cities.s', 'countries.cities', undefined],
      ['countries.cities', 'countries', 3],
      ['countries.sum', 'countries', undefined],
      ['countries', undefined, 2],
    ]);
    expect(made.compile({ baseDir: folder })).toEqual({ plan, diagnostics });
  });

  test('makes the plan of a spec, and is read from the folder of the definition', () => {
    const values = { rows: 3, flags: ['x'] };
    const b = part('b', './part.yaml', { with: values, dependsOn: [a], when: 'stages.a.exit_code == 0' });
    const yaml = spec(
      '    - { name: b, uses: ./part.yaml, with: { rows: 3, flags: [x] }, depends_on: [a], when: stages.a.exit_code == 0 }\n    - { name: c, on_failure: [b], run: { program: "true" } }\n',
    );
    const { plan, diagnostics } = compileText(yaml, 'x.yaml', {
      baseDir: folder,
      readSpec: createReadSpec([folder]),
      checkExpression: checkExpressions,
    });
    expect(diagnostics).toEqual([]);
    expect(plan?.stages.map(({ id }) => id)).toEqual(['a', 'b.s', 'b', 'c']);
    const made = workflow([b, step('c', ['true'], { onFailure: [b] })]);
    expect(made.compile({ baseDir: folder })).toEqual({ plan, diagnostics });
  });

  test('may be a part of another file', () => {
    const own =
      'kind: workflow\nname: l\nparts:\n  lint: { workflow: { steps: [{ name: s, run: { program: lint } }] } }\n';
    writeFileSync(join(folder, 'lib.yaml'), `${own}workflow:\n  steps:\n    - { name: out, uses: lint }\n`);
    const yaml = spec('    - { name: b, uses: ./lib.yaml#lint }\n');
    const { plan, diagnostics } = compileText(yaml, 'x.yaml', { baseDir: folder, readSpec: createReadSpec([folder]) });
    expect(diagnostics).toEqual([]);
    expect(plan?.stages.map(({ id }) => id)).toEqual(['a', 'b.s', 'b']);
    expect(workflow([part('b', './lib.yaml#lint')]).compile({ baseDir: folder })).toEqual({ plan, diagnostics });
  });

  test('may have a schema for its result', () => {
    const made = workflow([
      part('b', './part.yaml', { with: { rows: 3, flags: [] }, outputSchema: z.object({ ok: z.boolean() }) }),
    ]);
    const stages = made.compile({ baseDir: folder }).plan?.stages ?? [];
    expect(stages.find(({ id }) => id === 'b')?.outputSchema).toMatchObject({ required: ['ok'] });
    expect(stages.find(({ id }) => id === 'b.s')?.outputSchema).toBeUndefined();
  });

  test('may have a mock for all of its stages', () => {
    const mock = { output: { ok: true }, exitCode: 1 };
    const values = { with: { rows: 3, flags: [] } };
    const made = workflow([part('b', './part.yaml', { ...values, mock }), part('c', './part.yaml', values)]);
    const stages = made.compile({ baseDir: folder }).plan?.stages ?? [];
    expect(stages.flatMap(({ id, mock: said }) => (said === undefined ? [] : [[id, said]]))).toEqual([
      ['b', { output: '{"ok":true}', exitCode: 1 }],
    ]);
  });

  test('may be another definition, which may use others', () => {
    const inner = defineWorkflow({ name: 'sum', params: { rows: 1 }, steps: [step('s', ['wc', param('rows')])] });
    // This one has the same name as the first.
    const other = Pipeline.named('sum')
      .pipe(part('deep', inner, { with: { rows: 2 } }))
      .pipe(box('t', ['tr']));
    const yaml = spec(
      '    - { name: b, uses: sum, with: { rows: 3 } }\n    - { name: c, uses: sum-2, depends_on: [b] }\n',
      'parts:\n  sum: { params: { rows: 1 }, workflow: { steps: [{ name: s, run: { program: wc, args: ["${{ params.rows }}"] } }] } }\n' +
        '  sum-2: { pipeline: { boxes: [{ name: deep, uses: sum, with: { rows: 2 } }, { name: t, run: { program: tr } }] } }\n',
    );
    // A text has no files next to it, and this text needs no files.
    const { plan, diagnostics } = compileText(yaml, 'x.yaml', { baseDir: null });
    expect(diagnostics).toEqual([]);
    expect(plan?.stages.map(({ id }) => id)).toEqual(['a', 'b.s', 'b', 'c.deep.s', 'c.deep', 'c.t', 'c']);
    const b = part('b', inner, { with: { rows: 3 } });
    expect(workflow([b, part('c', other, { dependsOn: [b] })]).compile()).toEqual({ plan, diagnostics });
  });

  test.each<[string, string, RegExp]>([
    ['that is not there', './none.yaml', /there is no such file/],
    ['that is a folder', './folder.yaml', /it is a folder/],
    ['that is not text', './binary.yaml', /it is not UTF-8 text/],
    ['that is too long', './long.yaml', /at most 1048576 are read/],
  ])('with a file %s is a mistake', (_what, uses, message) => {
    mkdirSync(join(folder, 'folder.yaml'));
    writeFileSync(join(folder, 'binary.yaml'), Buffer.from([0x61, 0xff, 0xfe]));
    writeFileSync(join(folder, 'long.yaml'), 'x'.repeat(2 ** 20 + 1));
    const { diagnostics } = workflow([part('b', uses)]).compile({ baseDir: folder });
    expect(diagnostics).toMatchObject([{ code: 'spec/bad-part', message: expect.stringMatching(message) }]);
  });
});
