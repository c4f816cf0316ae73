// oxlint-disable typescript/no-explicit-any -- plans that break their type are the subject
import type { Plan } from '../../../domain/plan/plan.ts';
import { checkPlan } from '../../../domain/language/check-plan.ts';
import { checkExpressions } from '../../../domain/language/expression/check.ts';
import { compileText } from '../../../domain/language/load.ts';

/** A plan of two steps, in the second of which the first's data comes in every way. */
export const TWO_STEPS = `kind: workflow
name: sales
sandbox: { mounts: [{ host: /data, guest: /data }, { host: /out, guest: /out, mode: rw }] }
workflow:
  steps:
    - { name: a, run: { program: "true" }, env: { TOKEN: "" }, outputs: [{ name: o }] }
    - { name: b, run: { program: cat, stdin_from: a }, inputs: [{ from: o }] }
`;

export function compiled(text: string): Plan {
  const { plan, diagnostics } = compileText(text, 'x.yaml', { baseDir: '/', checkExpression: checkExpressions });
  if (plan === null) throw new Error(JSON.stringify(diagnostics));
  return plan;
}

/** A copy that anything may be written into. */
export function opened(plan: Plan): any {
  return JSON.parse(JSON.stringify(plan)) as unknown;
}

/** Returns the problems of a plan after a change. @param change  gets its stages by name as well */
export function problemsAfter(
  plan: Plan,
  change: (plan: any, stages: Record<string, any>) => unknown,
): readonly string[] {
  const copy = opened(plan);
  change(copy, Object.fromEntries(copy.stages.map((stage: any) => [stage.id, stage])));
  const checked = checkPlan(copy);
  return 'problems' in checked ? checked.problems : [];
}
