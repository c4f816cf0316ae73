/** Texts of a part that is used with `for_each` read its item. */
import { expect, test } from 'vitest';
import type { Plan } from '../plan/plan.ts';
import { checkPlan } from './check-plan.ts';
import { checkExpressions } from './expression/check.ts';
import { compileText } from './load.ts';

/** @param inner  the text of `./inner.yaml` */
function compiled(part: string, use: string, inner = ''): ReturnType<typeof compileText> {
  const indented = part.replaceAll(/^/gm, '    ');
  return compileText(
    `kind: workflow
name: x
llm: { provider: claude, model: m }
parts:
  part:
${indented}
workflow:
  output_step: each
  steps:
    - { name: each, uses: part${use} }
`,
    'x.yaml',
    { baseDir: '/x', checkExpression: checkExpressions, readSpec: () => ({ text: inner }) },
  );
}

function planOf(...spec: Parameters<typeof compiled>): Plan {
  const { plan, diagnostics } = compiled(...spec);
  expect(diagnostics.filter(({ severity }) => severity === 'error')).toEqual([]);
  expect(checkPlan(JSON.parse(JSON.stringify(plan)))).toEqual({ plan });
  return plan!;
}

const steps = (...each: readonly string[]): string =>
  `llm: { provider: claude, model: m }\nworkflow:\n  output_step: a\n  steps:\n${each.map((step) => `    - { ${step} }\n`).join('')}`;

test.each([
  ['a prompt', 'name: a, prompt: "Review ${{ item.path }}"', 'prompt'],
  ['an argument', 'name: a, run: { program: echo, args: ["${{ item.path }}"] }', 'arg'],
  ['a script', 'name: a, run: "echo ${{ item.path }}"', 'env'],
  ['a variable', 'name: a, run: { program: env }, env: { P: "${{ item_index }}" }', 'env'],
])('%s of a stage of the part can read the item', (_what, step, kind) => {
  const { texts } = planOf(steps(step), ', for_each: [{ path: p }]').stages.find(({ id }) => id === 'each.a')!;
  expect(texts).toMatchObject({ sources: [expect.stringMatching(/^item/)], stages: [], texts: [{ place: { kind } }] });
});

test('a message and the time of a wait can read the item', () => {
  const part = steps(
    'name: a, run: "true", depends_on: [w, q]',
    'name: w, wait: { until: "${{ item.at }}" }',
    'name: q, approval: { message: "Merge ${{ item.path }}?" }',
  );
  const { stages } = planOf(part, ', for_each: [{ path: p, at: "2026-01-01T00:00:00Z" }]');
  const kinds = stages.flatMap(({ texts }) => texts?.texts.map(({ place }) => place.kind) ?? []);
  expect(kinds.toSorted()).toEqual(['message', 'until']);
});

test('an agent that is the whole part can read the item in its prompt', () => {
  const part = 'llm: { provider: claude, model: m }\nagent: { prompt: "Review ${{ item }}" }\n';
  const { stages } = planOf(part, ', for_each: [p]');
  expect(stages.flatMap(({ texts }) => texts?.sources ?? [])).toEqual(['item']);
});

test('a part within the part can read the item too', () => {
  const inner = `kind: workflow\nname: inner\n${steps('name: a, prompt: "Review ${{ item }}"')}`;
  const { stages } = planOf(steps('name: a, uses: ./inner.yaml'), ', for_each: [p]', inner);
  expect(stages.find(({ id }) => id === 'each.a.a')?.texts?.sources).toEqual(['item']);
});

test.each([
  ['is not used with `for_each`', steps('name: a, prompt: "Review ${{ item }}"'), ''],
  ['is decided by a condition', steps('name: a, run: "true", when: "item == 1"'), ', for_each: [p]'],
])('the item is an error in a part that %s', (_what, part, use) => {
  const found = compiled(part, use).diagnostics.filter(({ code }) => code === 'spec/bad-expression');
  expect(found).toHaveLength(1);
  expect(found[0]!.message).toContain('unknown variable: item');
  expect(found[0]!.remedy).toBe(
    'read it in the texts of a stage with `for_each`, or of a part that is used with `for_each`; a condition cannot read items',
  );
});
