/**
 * Random specs. Every text results in a plan or in diagnostics. A plan reads back from both of its printed forms. The
 * run of every plan ends, whatever the results of its stages, also with its mocks, and so does each item of its lists.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { itemPlanOf, listsOf } from '../../domain/pipeline/item-plan.ts';
import {
  machineFromWire,
  type MachinePlan,
  machinePlanOf,
  type MachinePlanWire,
  machineToWire,
} from '../../domain/pipeline/machine-plan.ts';
import { withMocks } from '../../domain/plan-rules/mocks.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { toWire } from '../../domain/plan/wire.ts';
import { checkExpressions } from '../../domain/language/expression/check.ts';
import { type CompiledText, compileText } from '../../domain/language/load.ts';
import { checkPlan } from '../../domain/language/check-plan.ts';
import { loadCheckSchema } from '../../domain/language/schema/schema-engine.ts';
import { type Ending, transitionBound, World } from '../machine/world.ts';
import { randomOf } from '../machine/random.ts';

type Random = (below: number) => number;

/** Each test takes ten seconds of a CPU, and a loaded machine gives it a tenth of one. */
const LIMIT_MS = 300_000;

const GOLDEN = join(import.meta.dirname, '../spec');
const judge = await loadCheckSchema();
const judged = new Map<string, ReturnType<typeof judge>>();
/** Caches results, because most rounds have a schema of an earlier round and its check takes the longest. */
const checkSchema: typeof judge = (schema) => {
  const key = JSON.stringify(schema);
  if (!judged.has(key)) judged.set(key, judge(schema));
  return judged.get(key)!;
};
const compile = (text: string): CompiledText =>
  compileText(text, 'x.yaml', { baseDir: '/home/ada', checkExpression: checkExpressions, checkSchema });
const oneOf = <T>(values: readonly T[], random: Random): T => values[random(values.length)]!;
const overJson = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

/**
 * Checks three forms: the plan that `compile()` returns, the text of `inspect --json`, and the part that the workflow
 * holds.
 */
function expectReadsBack(plan: Plan, what: string): void {
  expect(checkPlan(overJson(plan)), what).toEqual({ plan });
  expect(checkPlan(overJson(toWire(plan))), what).toEqual({ plan });
  const machine = machinePlanOf(plan);
  expect(machineFromWire(overJson<MachinePlanWire>(machineToWire(machine))), what).toEqual(machine);
}

const TEXTS = readdirSync(GOLDEN, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  // These specs cost so much that limits bound them; many rounds with them would take too long.
  .filter(({ name }) => !name.startsWith('alias-'))
  .map(({ name }) => join(GOLDEN, name, existsSync(join(GOLDEN, name, 'spec.json')) ? 'spec.json' : 'spec.yaml'))
  .map((file) => readFileSync(file, 'utf8'))
  .filter((text) => text.length < 8_000);
const VALUES = [
  '',
  '~',
  'true',
  '-1',
  '0',
  '1e99',
  '""',
  '[]',
  '{}',
  '[[]]',
  '{ a: 1 }',
  '*a',
  '&a x',
  '${{',
  '${{ x.y }}',
  '| x',
  '"\\0"',
];
const MARKS = [
  '{',
  '}',
  '[',
  ']',
  ':',
  '- ',
  '&a ',
  '*a',
  '"',
  '\n',
  '  ',
  '#',
  '!!x ',
  '|',
  ',',
  '\t',
  '\u0000',
  '\ud800',
  '\u202e',
];

/** Between one and three damages: characters, values, lines, and lines of other specs. */
function damaged(text: string, random: Random): string {
  let broken = text;
  for (let left = 1 + random(3); left > 0; left -= 1) {
    const lines = broken.split('\n');
    const at = random(lines.length);
    switch (random(6)) {
      case 0: {
        const place = random(broken.length + 1);
        broken = broken.slice(0, place) + oneOf(MARKS, random) + broken.slice(place + random(3));
        continue;
      }
      case 1:
        lines[at] = lines[at]!.replace(/:.*/, `: ${oneOf(VALUES, random)}`);
        break;
      case 2:
        // The value of one key within braces.
        lines[at] = lines[at]!.replace(/(\w+): [^,{}[\]]+/, `$1: ${oneOf(VALUES, random)}`);
        break;
      case 3:
        lines.splice(at, 1 + random(2));
        break;
      case 4:
        lines.splice(at, 0, lines[random(lines.length)]!);
        break;
      default:
        lines.splice(at, 0, oneOf(oneOf(TEXTS, random).split('\n'), random));
    }
    broken = lines.join('\n');
  }
  return broken;
}

test('no text makes the compiler throw, and what it accepts reads back and ends', { timeout: LIMIT_MS }, () => {
  expect(TEXTS.length).toBeGreaterThan(100);
  let accepted = 0;
  for (const [index, text] of TEXTS.entries())
    for (let round = 0; round < 25; round += 1) {
      const broken = damaged(text, randomOf(index * 1_000 + round));
      const { plan, diagnostics } = compile(broken);
      const isRefused = diagnostics.some(({ severity }) => severity === 'error');
      expect({ broken, isRefused }).toEqual({ broken, isRefused: plan === null });
      for (const { line, column, message, remedy } of diagnostics)
        expect({ broken, isPlaced: line >= 1 && column >= 1 && message !== '' && remedy !== '' }).toEqual({
          broken,
          isPlaced: true,
        });
      if (plan === null) continue;
      accepted += 1;
      expectReadsBack(plan, broken);
      // Only each fourth plan, because running a plan takes longer than reading it back.
      if (accepted % 4 === 0) expectAllEnd(plan, randomOf(accepted), broken);
    }
  // Without this, the test could pass although no plan was read back.
  expect(accepted).toBeGreaterThan(100);
});

/** Returns a valid spec with many of the keys that change the behaviour of a run. */
function randomSpec(random: Random): object {
  const isWorkflow = random(2) === 0;
  const sometimes = (share: number, more: () => object): object => (random(share) === 0 ? more() : {});
  const count = 1 + random(7);
  const names = Array.from({ length: count }, (_, index) => `s${index}`);
  const last = names.filter((_, index) => index > 0 && random(6) === 0);
  const failing = isWorkflow ? [] : names.filter((name, index) => index > 0 && !last.includes(name) && random(8) === 0);
  const inOrder = names.filter((name) => !last.includes(name) && !failing.includes(name));
  const works = new Map<string, string>();
  const stages = names.map((name, index) => {
    const before = names.slice(0, index).filter((earlier) => !last.includes(earlier) && !failing.includes(earlier));
    const isLast = last.includes(name);
    const commands = isLast ? [] : before.filter((earlier) => ['run', 'uses', 'skill'].includes(works.get(earlier)!));
    const work = isLast
      ? 'run'
      : oneOf(['run', 'run', 'run', 'run', 'uses', 'uses', 'approval', 'wait', 'skill'], random);
    works.set(name, work);
    const depends = before.filter(() => random(3) === 0);
    const edges = isLast
      ? { finally: true }
      : failing.includes(name) || (isWorkflow && before.length > 0 && random(6) === 0)
        ? { on_failure: [oneOf(before, random)] }
        : isWorkflow && depends.length > 0
          ? { depends_on: depends }
          : {};
    const common = {
      name,
      ...edges,
      ...sometimes(4, () => ({
        when: oneOf(
          ['params.p == "x"', 'size(params.list) > 0', ...commands.map((one) => `stages.${one}.json.ok`)],
          random,
        ),
      })),
      ...sometimes(4, () => ({ continue_on_error: true })),
    };
    if (work === 'approval')
      return {
        ...common,
        approval: {
          message: 'Go ${{ params.p }}?',
          ...sometimes(2, () => ({ timeout: '2h', on_timeout: oneOf(['approve', 'reject', 'fail'], random) })),
        },
      };
    if (work === 'wait')
      return {
        name,
        ...edges,
        wait: oneOf<object>(
          [
            { for: '90s' },
            { until: '2026-12-01T09:00:00Z' },
            ...(commands.length === 0 ? [] : [{ until: `stages.${oneOf(commands, random)}.json.at` }]),
          ],
          random,
        ),
      };
    if (work === 'skill')
      return {
        ...common,
        skill: {
          use: './skills/release',
          ...sometimes(2, () => ({
            params: {
              p: 'for ${{ params.p }}',
              list: '${{ params.list }}',
              deep: { n: [1, null, '${{ params.p }}'] },
              ...(commands.length === 0 ? {} : { said: `\${{ stages.${oneOf(commands, random)}.output }}` }),
            },
          })),
          ...sometimes(2, () => ({
            agent: oneOf<unknown>(['codex', { llm: { provider: 'claude' }, skills: ['cli:jq'] }], random),
          })),
        },
        ...sometimes(3, () => ({ mock: oneOf<object>([{}, { output: [1] }, { exit_code: 3 }], random) })),
        ...sometimes(4, () => ({ env: { A: '${{ params.p }}' }, sandbox: { memory_mb: 2048 } })),
      };
    const each = isLast
      ? {}
      : sometimes(4, () => ({
          for_each: oneOf<unknown>(
            [[1, 'a', null], 'params.list', ...commands.map((one) => `stages.${one}.json.list`)],
            random,
          ),
          ...sometimes(2, () => ({ max_parallel: 2, fail_fast: true, allow_failures: 1 })),
        }));
    if (work === 'uses')
      return {
        ...common,
        ...each,
        ...('for_each' in each
          ? { uses: oneOf(['p', 'lists'], random) }
          : { uses: oneOf(['p', 'lists', 'last'], random), with: { of: '${{ params.p }}' } }),
        ...sometimes(3, () => ({ mock: oneOf<object>([{}, { output: [1] }, { exit_code: 3 }], random) })),
        ...sometimes(4, () => ({ output_schema: { type: 'array' } })),
      };
    return {
      ...common,
      ...each,
      run: {
        program: oneOf(['true', 'cat', '${{ params.p }}'], random),
        args: ['a', '${{ params.p }}'],
        ...(commands.length === 0 ? {} : sometimes(4, () => ({ stdin_from: oneOf(commands, random) }))),
      },
      ...sometimes(3, () => ({
        retry: oneOf<object>(
          [
            { max_attempts: 3 },
            { max_attempts: 2, backoff_secs: 0.5 },
            { max_attempts: 9, initial_secs: 1, max_secs: 60, backoff: 2, non_retryable: ['exit:2'] },
          ],
          random,
        ),
      })),
      ...sometimes(4, () => ({ timeout_secs: 1 + random(100) })),
      ...sometimes(5, () => ({ env: { A: 'b', HOME_OF: '' }, secrets: ['TOKEN'] })),
      ...('for_each' in each || isLast ? {} : sometimes(3, () => ({ outputs: [{ name: `o${index}` }] }))),
      ...sometimes(6, () => ({ output_file: '/workspace/report.json' })),
      ...sometimes(4, () => ({ output_schema: { type: 'object', required: ['ok'] } })),
      ...sometimes(4, () => ({ mock: oneOf<object>([{}, { output: { ok: true } }, { exit_code: 3 }], random) })),
      ...sometimes(4, () => ({ sandbox: { memory_mb: 128 + random(2) * 128 } })),
    };
  });
  const ran = inOrder.filter((name) => works.get(name) !== 'wait');
  const body = isWorkflow
    ? { steps: stages, ...(ran.length === 0 ? {} : { output_step: ran.at(-1) }) }
    : { boxes: stages, ...sometimes(2, () => ({ stages: ordered(inOrder, random) })) };
  return {
    kind: isWorkflow ? 'workflow' : 'pipeline',
    name: 'random',
    params: { p: 'x', list: [1, { a: 2 }] },
    ...([...works.values()].includes('uses') ? { parts: randomParts(random) } : {}),
    ...sometimes(2, () => ({ max_parallel: 1 + random(4) })),
    ...sometimes(4, () => ({ timeout_secs: 60 })),
    ...sometimes(4, () => ({ defaults: { timeout_secs: 30, retry: { max_attempts: 2 }, env: { D: 'd' } } })),
    ...(last.length === 0 ? {} : sometimes(2, () => ({ grace_secs: 30 }))),
    [isWorkflow ? 'workflow' : 'pipeline']: body,
  };
}

/**
 * Returns three parts: one with a condition and a stage for failures, one with a loop and a list of its own, and one
 * with `finally` stages.
 */
function randomParts(random: Random): object {
  const run = { program: 'true' };
  const sometimes = (more: object): object => (random(3) === 0 ? more : {});
  const steps = [
    { name: 'a', run, ...sometimes({ mock: { output: 'x' } }), ...sometimes({ continue_on_error: true }) },
    { name: 'b', run, ...sometimes({ depends_on: ['a'] }), ...sometimes({ when: 'params.of == "x"' }) },
    { name: 'c', run, on_failure: ['b'], ...sometimes({ retry: { max_attempts: 2 } }) },
    { name: 'd', uses: oneOf(['e', 'f'], random), depends_on: ['b'], ...sometimes({ mock: { exit_code: 1 } }) },
  ];
  const params = { of: '' };
  const boxes = [
    { name: 'make', run, ...sometimes({ when: 'params.of != "x"' }) },
    { name: 'judge', run },
    { name: 'list', uses: 'e', for_each: [1, 2], ...sometimes({ continue_on_error: true, allow_failures: 1 }) },
  ];
  const many = { name: 'many', run, for_each: random(2) === 0 ? [1, 2] : 'stages.make.json.list' };
  const isListed = random(2) === 0 && !('when' in boxes[0]!);
  const visited = isListed ? ['make', 'many', 'judge'] : ['make', 'judge'];
  const loop = { type: 'loop', name: 'again', boxes: visited, until: 'stages.judge.json.ok' };
  const limit = { max_visits: 1 + random(3), on_limit: oneOf(['fail', 'pass'], random) };
  return {
    p: { params, workflow: { output_step: 'd', steps } },
    lists: {
      params,
      pipeline: {
        boxes: isListed ? [...boxes, many] : boxes,
        stages: [
          { ...loop, ...limit },
          { type: 'box', name: 'list' },
        ],
      },
    },
    last: {
      params,
      workflow: {
        steps: [
          { name: 'a', run },
          { name: 'z', run, finally: true },
        ],
      },
    },
    e: { pipeline: { boxes: [{ name: 'e', run }] } },
    f: {
      workflow: {
        output_step: 'g',
        steps: [
          { name: 'g', run },
          { name: 'h', run, ...sometimes({ depends_on: ['g'] }) },
        ],
      },
    },
  };
}

/** Returns boxes in sequence, some in parallel, some in loops. */
function ordered(names: readonly string[], random: Random): readonly object[] {
  const rows: object[] = [];
  for (let at = 0; at < names.length;) {
    const boxes = names.slice(at, at + 1 + random(3));
    const name = `loop-${rows.length}`;
    if (random(5) === 0)
      rows.push({ type: 'loop', name, boxes, until: 'params.p == "x"', max_visits: 1 + random(3), on_limit: 'pass' });
    else
      rows.push(boxes.length === 1 && random(2) === 0 ? { type: 'box', name: boxes[0] } : { type: 'fan_out', boxes });
    at += boxes.length;
  }
  return rows;
}

const ENDINGS: readonly Ending[] = ['ok', 'ok', 'ok', 'pass', 'not', 'fail', 'lost', 'broken'];
const ACQUIRED: readonly Ending[] = ['ok', 'ok', 'ok', 'acquire-lost', 'acquire-broken'];

/** Checks the run with every mock, too. @returns the outcomes of the runs and items, each with its kind */
function expectAllEnd(plan: Plan, random: Random, what: string): readonly string[] {
  const mocked = plan.stages.some(({ mock }) => mock !== undefined) ? withMocks(plan, 'all') : { problems: [] };
  if ('plan' in mocked) expectReadsBack(mocked.plan, `mocked: ${what}`);
  return [plan, ...('plan' in mocked ? [mocked.plan] : [])].flatMap((each, at) => {
    const machine = machinePlanOf(each);
    const items = listsOf(machine).map(({ stage }) => itemPlanOf(stage));
    return [
      `${at === 0 ? 'run' : 'mocked run'} ${expectEnds(machine, random, what)}`,
      ...items.map((item) => `item ${expectEnds(item, random, `an item of ${item.name}: ${what}`)}`),
    ];
  });
}

function expectEnds(plan: MachinePlan, random: Random, what: string): string {
  const world = new World(plan, {});
  const bound = transitionBound(world.plan);
  while (world.outcome === null && world.transitions < bound && world.pending.length > 0) {
    if (random(30) === 0) {
      world.send({ type: oneOf(['cancel-requested', 'cancel-finally'] as const, random) });
      continue;
    }
    const index = random(world.pending.length);
    world.answerAt(index, oneOf(world.pending[index]!.type === 'acquire-vm' ? ACQUIRED : ENDINGS, random));
  }
  expect(world.complaints, `${what}\n${world.log.join('; ')}`).toEqual([]);
  expect(world.outcome, `never ends: ${what}\n${world.log.join('; ')}`).not.toBeNull();
  return world.outcome!.state;
}

test('specs in YAML and JSON make the same plan, which reads back, and whose run ends', { timeout: LIMIT_MS }, () => {
  const seen = new Map<string, number>();
  const count = (what: string): unknown => seen.set(what, (seen.get(what) ?? 0) + 1);
  for (let seed = 1; seed <= 1_000; seed += 1) {
    const random = randomOf(seed);
    const spec = randomSpec(random);
    const what = `seed ${seed}: ${JSON.stringify(spec)}`;
    const { plan, diagnostics } = compile(JSON.stringify(spec));
    const asYaml = compile(stringify(spec));
    expect(asYaml.plan, what).toEqual(plan);
    expect(asYaml.diagnostics.map(({ message }) => message).sort(), what).toEqual(
      diagnostics.map(({ message }) => message).sort(),
    );
    if (plan === null) continue;
    count('accepted');
    expectReadsBack(plan, what);
    for (const text of [
      '"when"',
      '"for_each"',
      '"finally"',
      '"on_failure"',
      '"continue_on_error"',
      '"mock"',
      '"output_schema"',
      '"approval"',
      '"wait"',
      '"fan_out"',
      '"stdin_from"',
      '"uses"',
      '"loop"',
      '"skill"',
      '"until":"stages',
    ])
      if (JSON.stringify(spec).includes(text)) count(text);
    for (const end of expectAllEnd(plan, random, what)) count(end);
  }
  // Without this, the specs could miss the cases that the test is for.
  const ends = ['succeeded', 'failed', 'cancelled'];
  expect(Object.fromEntries(seen)).toMatchObject(
    Object.fromEntries(
      ['run', 'mocked run', 'item'].flatMap((each) => ends.map((end) => [`${each} ${end}`, expect.any(Number)])),
    ),
  );
  expect(seen.get('accepted')).toBeGreaterThan(300);
  expect([...seen].filter(([, times]) => times < 10)).toEqual([]);
  expect(seen.size).toBe(1 + 15 + 3 * ends.length);
});
