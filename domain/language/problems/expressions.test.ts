// oxlint-disable typescript/no-explicit-any -- plans that break their type are the subject
import { describe, expect, test } from 'vitest';
import type { Plan } from '../../plan/plan.ts';
import { toWire } from '../../plan/wire.ts';
import { compiled, opened, problemsAfter, TWO_STEPS } from '../../../test/rig/runs/plan-with-every-link.ts';
import { checkPlan } from '../check-plan.ts';

/** A plan whose type allows any change. */
function fresh(): any {
  return opened(compiled(TWO_STEPS));
}

function problemsOf(change: (plan: any) => unknown): readonly string[] {
  return problemsAfter(compiled(TWO_STEPS), change);
}

describe('a condition', () => {
  const when = { source: 'stages.a.json.ok && params.n > 1', stages: ['a'], params: { n: 2 } };
  const withWhen = (change: object): readonly string[] =>
    problemsOf((plan) => {
      plan.stages[1].when = { ...when, ...change };
      return plan;
    });

  test('that reads what its plan lists is admitted, also in the wire form', () => {
    expect(withWhen({})).toEqual([]);
    const plan = fresh();
    plan.stages[1].when = when;
    expect(checkPlan(JSON.parse(JSON.stringify(toWire(plan as Plan))))).toEqual({ plan });
  });

  test.each<[object, string]>([
    [{ source: 'stages.a.json.ok &&' }, 'stage b: when: unexpected token: EOF'],
    [{ source: 'true' }, 'stage b: when.stages has a, which is not read'],
    [{ stages: [] }, 'stage b: when.stages lacks a'],
    [{ stages: ['a', 'a'] }, 'stage b: when.stages has a twice'],
    [{ params: {} }, 'stage b: when.params lacks n'],
    [{ params: { n: 2, m: 1 } }, 'stage b: when.params has m, which is not read'],
    [
      { source: 'stages.c.state == ""', stages: ['c'], params: {} },
      'the condition of stage b reads c, but the stage does not depend on it',
    ],
    [{ source: 'x'.repeat(5_000) }, 'stages.1.when.source: Too big: expected string to have <=4096 characters'],
    [{ params: { n: deep(40) } }, 'stages.1.when.params.n: JSON that is not nested too deep'],
  ])('is refused %#', (change, problem) => {
    expect(withWhen(change)).toContain(problem);
  });

  test('a stage that may be passed over cannot give its data to others', () => {
    const problems = problemsOf((plan) => {
      plan.stages[0].when = { source: 'true' };
      return plan;
    });
    expect(problems).toEqual([
      'stage b uses data of a, which may be absent: that stage may fail or be passed, and this one still starts',
    ]);
  });

  function deep(levels: number): unknown {
    return levels === 0 ? 1 : [deep(levels - 1)];
  }
});

describe('texts with outputs', () => {
  const made = {
    sources: ['stages.a.json.tag + params.n'],
    stages: ['a'],
    params: { n: 'x' },
    texts: [{ place: { kind: 'env', name: 'TAG' }, parts: ['v', 0] }],
  };
  const withTexts = (change: object, other: (stage: any) => void = () => undefined): readonly string[] =>
    problemsOf((plan) => {
      plan.stages[1].work.env = [{ name: 'TAG', value: { kind: 'literal', text: 'as written' } }];
      plan.stages[1].texts = { ...made, ...change };
      other(plan.stages[1]);
      return plan;
    });
  const at = (place: object, parts: readonly unknown[] = [0]): object => ({ texts: [{ place, parts }] });

  test('that list what they read are admitted, also in the wire form', () => {
    expect(withTexts({})).toEqual([]);
    const plan = fresh();
    plan.stages[1].work.args = ['as written'];
    plan.stages[1].texts = { ...made, ...at({ kind: 'arg', index: 0 }) };
    expect(checkPlan(JSON.parse(JSON.stringify(toWire(plan as Plan))))).toEqual({ plan });
  });

  test.each<[object, RegExp]>([
    [{ sources: ['stages.a.json.'] }, /^stage b: texts: /],
    [{ sources: ['stages.a.state + params.n'] }, /only `when` can read `.state`/],
    [{ sources: ['stages.c.output + params.n'] }, /texts.stages must list exactly the stages that its texts read/],
    [{ stages: ['a', 'a'] }, /texts have a twice/],
    [{ stages: [] }, /texts.stages must list exactly the stages that its texts read/],
    [{ sources: ['stages.a.json.tag + params.n + item'] }, /stage b: texts: unknown variable: item/],
    [{ params: {} }, /texts.params must list exactly the parameters/],
    [{ params: { n: 1, m: 1 } }, /texts.params must list exactly the parameters/],
    [at({ kind: 'arg', index: 9 }), /its work has no args\[9\]/],
    [at({ kind: 'env', name: 'PATH' }), /its work has no env.PATH/],
    [at({ kind: 'message' }), /stage b: its work has no message/],
    [at({ kind: 'prompt' }), /stage b: its work has no prompt/],
    [at({ kind: 'program' }), /stages.1.texts.texts.0.place/],
    [at({ kind: 'env', name: 'TAG' }, [1]), /env.TAG has an expression that texts.sources lacks/],
    [{ texts: [...made.texts, ...made.texts] }, /two texts have the same place: env.TAG/],
    [{ sources: Array.from({ length: 65 }, (_, n) => `stages.a.output + "${n}"`) }, /stages.1.texts.sources/],
  ])('are refused %#', (change, problem) => {
    expect(withTexts(change).join('\n')).toMatch(problem);
  });

  test('texts of a stage with items read the item, and need no other stage', () => {
    const each = { list: { kind: 'inline', items: ['a'] }, maxParallel: 1, failFast: false, allowFailures: 0 };
    const ofItem = { sources: ['item + string(item_index)'], stages: [], params: {} };
    expect(withTexts(ofItem).join()).toMatch(/unknown variable: item/);
    const withItems = withTexts(ofItem, (stage) => {
      stage.each = each;
      stage.scope = stage.id;
    });
    expect(withItems.join()).not.toMatch(/texts/);
  });

  test('are refused if their stage does not wait for the stage that they read', () => {
    expect(withTexts({}, (stage) => (stage.after = [])).join('\n')).toMatch(
      /stage b uses data of a and does not depend on its success/,
    );
  });
});
