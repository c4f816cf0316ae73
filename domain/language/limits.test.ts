import { expect, test } from 'vitest';
import { PLAN_LIMITS } from '../plan/plan.ts';
import { countPlanBytes, toWire } from '../plan/wire.ts';
import { checkExpressions } from './expression/check.ts';
import { compileText } from './load.ts';
import { checkPlan } from './check-plan.ts';

const codes = (text: string, params: Record<string, string> = {}): string[] =>
  compileText(text, 'x.yaml', { baseDir: '/', params }).diagnostics.map(
    ({ code, line, column }) => `${code} ${line}:${column}`,
  );

const workflow = (steps: string): string =>
  `kind: workflow\nname: big\nworkflow:\n  output_step: s0\n  steps:\n${steps}`;
const step = (index: number, rest = ''): string => `    - { name: s${index}, run: { program: "true"${rest} } }\n`;
const steps = (count: number): string => Array.from({ length: count }, (_, index) => step(index)).join('');

test('a text of more than 1 MiB is not read', () => {
  expect(codes(`# ${'é'.repeat(600_000)}\n`)).toEqual(['spec/too-large 1:1']);
});

test.each([
  ['quotes', '"'.repeat(1_000_000)],
  ['keys', 'a:\n'.repeat(300_000)],
  ['empty lines', '\n'.repeat(1_000_000)],
])('a text of nothing but %s is not read', (_what, text) => {
  expect(codes(text)).toEqual(['spec/too-large 1:1']);
});

test.each([33, 150, 250, 5_000])('JSON that is nested %i deep is too large, and not broken', (depth) => {
  const list = `${'['.repeat(depth)}${']'.repeat(depth)}`;
  const { diagnostics } = compileText(`{"kind":"workflow","name":"deep","workflow":{"steps":${list}}}`, 'x.json', {
    baseDir: '/',
  });
  expect([...new Set(diagnostics.map(({ code }) => code))]).toEqual(['spec/too-large']);
});

test('a JSON spec may begin with a byte order mark', () => {
  const json = '{"kind":"workflow","name":"bom","workflow":{"steps":[{"name":"a","run":{"program":"true"}}]}}';
  expect(compileText(`\ufeff${json}`, 'x.json', { baseDir: '/' }).diagnostics).toEqual([]);
});

const box = (index: number): string => `    - { name: box-${index}, run: { program: "true" } }\n`;
const boxes = Array.from({ length: 2_000 }, (_, index) => box(index)).join('');
const pipeline = `kind: pipeline\nname: big\nsandbox: { memory_mb: 1024 }\npipeline:\n  boxes:\n${boxes}`;
const SIDE_BY_SIDE = `  stages:\n    - { type: fan_out, boxes: [${Array.from({ length: 2_000 }, (_, index) => `box-${index}`).join(', ')}] }\n`;

test.each([
  ['2,000 steps', workflow(steps(2_000))],
  ['2,000 boxes, one after the other', pipeline],
  ['2,000 boxes side by side, merged', pipeline + SIDE_BY_SIDE],
])('%s are a plan that a run can execute', (_what, text) => {
  const { plan, diagnostics } = compileText(text, 'x.yaml', { baseDir: null });
  expect(diagnostics).toEqual([]);
  // Leave room for the content of real steps.
  expect(countPlanBytes(plan!)).toBeLessThan(0.65 * PLAN_LIMITS.planBytes);
  expect(checkPlan(JSON.parse(JSON.stringify(toWire(plan!))))).toEqual({ plan });
  // A plan from a client with every default is admitted too.
  expect(checkPlan(JSON.parse(JSON.stringify(plan)))).toEqual({ plan });
});

test('more steps than a run can have are refused at the first one too many', () => {
  expect(codes(workflow(steps(2_001)))).toContain('spec/too-large 2006:7');
});

test('long arguments count only for the plan, because a workflow does not hold them', () => {
  expect(codes(workflow(step(0, `, args: ["${'x'.repeat(900_000)}"]`)))).toEqual([]);
});

test('more edges than a workflow can hold are refused, even if the plan is not too large', () => {
  const names = ['s0', ...Array.from({ length: 180 }, (_, index) => `step-with-a-long-name-for-its-size-${index}`)];
  const text = names
    .map(
      (name, index) =>
        `    - { name: ${name}, run: { program: "true" }, depends_on: [${names.slice(0, index).join(', ')}] }\n`,
    )
    .join('');
  expect(codes(workflow(text))).toEqual(['spec/too-large 3:1']);
});

test('a stage has at most 64 expressions in its texts; the same one counts once', () => {
  const most = PLAN_LIMITS.textSources;
  const withExpressions = (count: number): string => {
    const list = Array.from({ length: count }, (_, index) => `'\${{ stages.s1.output + "${index}" }}'`);
    const again = `'\${{ stages.s1.output + "0" }}'`;
    return workflow(`${step(0, `, args: [${[...list, again].join(', ')}]`)}${step(1)}`);
  };
  const compiled = (count: number): ReturnType<typeof compileText> =>
    compileText(withExpressions(count), 'x.yaml', { baseDir: '/', checkExpression: checkExpressions });
  expect(compiled(most).diagnostics).toEqual([]);
  expect(checkPlan(JSON.parse(JSON.stringify(compiled(most).plan)))).toEqual({ plan: compiled(most).plan });
  expect(compiled(most + 1).diagnostics).toMatchObject([
    { code: 'spec/too-large', line: 6, message: 'step "s0" has 65 expressions; at most 64 are allowed' },
  ]);
});

test('placeholders do not multiply a large value', () => {
  const text = `params: { x: a }\n${workflow(step(0, `, args: ["${'${{params.x}}'.repeat(1_000)}"]`))}`;
  expect(codes(text, { x: 'y'.repeat(100_000) }).some((code) => code.startsWith('spec/too-large'))).toBe(true);
});

test('more named outputs than carried state has room for are refused', () => {
  const outputs = Array.from({ length: 2_001 }, (_, index) => `{ name: o${index} }`).join(', ');
  expect(
    codes(
      `kind: workflow\nname: big\nworkflow:\n  steps:\n    - { name: a, run: { program: "true" }, outputs: [${outputs}] }\n`,
    ),
  ).toEqual(['spec/too-large 3:1']);
});

test('a variable list that every stage would copy is bounded', () => {
  const env = Array.from({ length: 257 }, (_, index) => `V${index}: x`).join(', ');
  expect(codes(`sandbox: { env: { ${env} } }\n${workflow(steps(1))}`)).toEqual([
    expect.stringMatching(/^spec\/too-large 1:/),
  ]);
});

test('at most 200 diagnostics are reported, errors first', () => {
  const wrong = Array.from(
    { length: 500 },
    (_, index) => `    - { name: s${index}, run: { program: "true" }, typo: 1, depends_on: [x${index}] }\n`,
  ).join('');
  const { diagnostics } = compileText(workflow(wrong), 'x.yaml', { baseDir: null });
  expect(diagnostics.filter(({ severity }) => severity === 'error')).toHaveLength(200);
});

test('no number of warnings hides an error', () => {
  const typos = Array.from({ length: 3_000 }, (_, index) => `typo${index}: 1\n`).join('');
  expect(compileText(`${typos}${workflow(step(0, ', cwd: nowhere'))}`, 'x.yaml', { baseDir: null }).plan).toBeNull();
});

test.each([
  ['brackets', '['.repeat(5_000)],
  ['closed brackets', '['.repeat(5_000) + ']'.repeat(5_000)],
  ['dashes', '- '.repeat(5_000)],
  ['mappings', '{a: '.repeat(5_000)],
  ['question marks', '? '.repeat(5_000)],
  ['a missing key', ': x\n'],
  ['a list as a key', '? [a]\n: b\nkind: workflow\n'],
  ['an alias as a key', 'a: &a x\n*a : b\n'],
  ['tags', 'kind: !!js/function "x"\nname: !foo [a]\n'],
  ['a merge key', 'a: &a { x: 1 }\nb: { <<: *a }\n'],
  ['the key __proto__', '__proto__: { kind: workflow }\nconstructor: 1\n'],
  ['a byte order mark', '\ufeffkind: workflow\n'],
  ['null bytes', 'kind: "\\0"\nname: "\\0"\n'],
  ['lone surrogates', 'kind: "\\ud800"\n'],
  ['carriage returns', 'kind: workflow\r\nname: a\r\nworkflow:\r\n  steps: []\r\n'],
])('a hostile text of %s ends in diagnostics', (_what, text) => {
  const { plan, diagnostics } = compileText(text, 'x.yaml', { baseDir: null });
  expect(plan).toBeNull();
  expect(diagnostics.length).toBeGreaterThan(0);
  for (const { line, column } of diagnostics) expect(line >= 1 && column >= 1).toBe(true);
});

test('random damage to a spec never throws', () => {
  const text = `api_version: v1\nkind: pipeline\nname: a\nparams: { x: 1 }\nsandbox: { env: { A: "" }, mounts: [{ host: ., guest: /data }] }\npipeline:\n  boxes:\n    - { name: a, run: { program: "\${{ params.x }}" }, outputs: [{ name: o }] }\n    - { name: b, run: { program: cat, stdin_from: a }, inputs: [{ from: o }] }\n  stages:\n    - { type: fan_out, boxes: [a] }\n    - { type: box, name: b }\n`;
  expect(codes(text)).toEqual([]);
  let seed = 11;
  const random = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below;
  const marks = ['{', '}', '[', ']', ':', '-', '&a ', '*a', '"', '\n', ' ', '#', '!', '|', '0', '~', ','];
  for (let round = 0; round < 250; round += 1) {
    let broken = text;
    for (let cuts = 1 + random(3); cuts > 0; cuts -= 1) {
      const at = random(broken.length);
      broken = broken.slice(0, at) + marks[random(marks.length)]! + broken.slice(at + random(3));
    }
    const { plan, diagnostics } = compileText(broken, 'x.yaml', { baseDir: '/' });
    expect({ broken, refused: plan === null }).toEqual({
      broken,
      refused: diagnostics.some(({ severity }) => severity === 'error'),
    });
  }
});
