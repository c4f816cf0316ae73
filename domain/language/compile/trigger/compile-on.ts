/** Compiles `on` and `notify` of a spec, and finds what only a deployment of the spec must not have. */
import type { Trigger } from '../../../delivery/trigger.ts';
import type { Notify } from '../../../notification/notify.ts';
import type { Diagnostic } from '../../../errors/diagnostic.ts';
import type { Plan } from '../../../plan/plan.ts';
import { quote } from '../../../units/quote.ts';
import type { CompileOptions } from '../compile.ts';
import { findPayloadCode } from '../../problems/payload-code.ts';
import { findParamsWithoutValue } from '../../problems/trigger-params.ts';
import type { Spec } from '../../read/spec.ts';
import { Problems, sortByFile } from '../../text/diagnostics.ts';
import { compileNotify } from './compile-notify.ts';
import { compileTriggers } from './triggers.ts';

export interface CompiledOn {
  readonly triggers: readonly Trigger[];
  readonly notify: Notify;
  readonly diagnostics: readonly Diagnostic[];
  /**
   * Mistakes of a deployment, which are no mistakes of a run: a required parameter without a value, a payload in code.
   * As errors; `diagnostics` has the same as warnings.
   */
  readonly deployProblems: readonly Diagnostic[];
}

/** @param plan  null: a mistake in the plan was reported */
export function compileOn(spec: Spec, plan: Plan | null, options: CompileOptions): CompiledOn {
  const problems = new Problems(spec.file, spec.gaps);
  const notify = compileNotify(spec, problems);
  if (spec.on.length === 0) return { triggers: [], notify, diagnostics: problems.list(), deployProblems: [] };
  if (options.checkExpression === undefined) throw new Error('a spec with triggers is compiled without their language');
  const { params = {} } = options;
  const triggers = compileTriggers(spec, { plan, check: options.checkExpression.trigger, problems });
  const deployProblems = findDeployProblems(spec, { ...options, params });
  const warnings = deployProblems.map(({ remedy, ...each }): Diagnostic => ({
    ...each,
    severity: 'warning',
    remedy: `${remedy}; \`voidbox deploy\` refuses this`,
  }));
  return { triggers, notify, diagnostics: [...problems.list(), ...warnings], deployProblems };
}

function findDeployProblems(
  spec: Spec,
  {
    params,
    files = new Map(),
    baseDir,
  }: Pick<CompileOptions, 'files' | 'baseDir'> & Required<Pick<CompileOptions, 'params'>>,
): readonly Diagnostic[] {
  const lacking = findParamsWithoutValue(spec, params).map(({ trigger: { name }, param }): Diagnostic => ({
    code: 'spec/missing-param',
    severity: 'error',
    message: `trigger ${quote(name.value)} gives no value to the parameter ${quote(param)}, which has no default`,
    remedy: `write \`params: { ${param}: … }\` at the trigger, declare a default, or deploy with \`--param ${param}=…\``,
    file: spec.file,
    ...name.at,
  }));
  const code = findPayloadCode(spec, { files, baseDir }).map(({ at, ...use }): Diagnostic => ({
    ...use,
    severity: 'error',
    ...at,
  }));
  return sortByFile([...lacking, ...code]);
}
