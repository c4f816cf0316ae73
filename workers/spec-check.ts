/** The checks of admission: the spec compiler and the plan's schema, with readable lines as a result. */
import type { CheckPlan, CompileSpec } from '../activities/deps.ts';
import type { Diagnostic } from '../domain/errors/diagnostic.ts';
import { checkExpressions } from '../domain/language/expression/check.ts';
import { compileText } from '../domain/language/load.ts';
import { checkPlan as checkPlanShape } from '../domain/language/check-plan.ts';

/** A client sends a text that has no file name. */
const FILE = 'spec.yaml';

export const compileSpec: CompileSpec = (text, { baseDir, params }) => {
  const { plan, diagnostics } = compileText(text, FILE, { baseDir, params, checkExpression: checkExpressions });
  return plan === null ? { problems: diagnostics.filter(({ severity }) => severity === 'error').map(line) } : { plan };
};

export const checkPlan: CheckPlan = (value) => checkPlanShape(value);

function line({ file, line: row, column, code, message, remedy }: Diagnostic): string {
  return `${file}:${row}:${column}: ${message} (${code}); ${remedy}`;
}
