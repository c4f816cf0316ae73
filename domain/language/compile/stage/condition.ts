/** Compiles conditions of stages: reports their mistakes, and finds the stages and parameter values that they read. */
import type { ConditionPlan, ConditionValue } from '../../../plan/plan.ts';
import type { CheckExpressions } from '../../expression/check.ts';
import type { ParamValues } from '../../grammar/param-values.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { Spec, StageSpec } from '../../read/spec.ts';
import type { Located, Position } from '../../text/tree.ts';
import { quote } from '../../../units/quote.ts';
import { createMapping } from '../../../units/mapping.ts';

/** A valid condition. */
export interface Condition extends ConditionPlan {
  /** The first place of each stage name. */
  readonly reads: readonly Located<string>[];
}

/**
 * Returns the condition of each stage, by index into `spec.stages`. Null: the stage has no condition, or a mistake in
 * it was reported.
 * @param check  null if no stage has a condition, because the language is then not loaded
 */
export function compileConditions(
  spec: Spec,
  params: ParamValues,
  check: CheckExpressions['condition'] | null,
  problems: Problems,
): readonly (Condition | null)[] {
  return spec.stages.map(({ name, when }) => {
    if (when === null) return null;
    if (check === null) throw new Error('a spec with conditions is compiled without their language');
    const noun = spec.kind === 'workflow' ? 'step' : 'box';
    return compileCondition(when, `\`when\` of ${noun} ${quote(name.value)}`, params, check, problems);
  });
}

/** @param when  the condition, in a spec under the key that `what` names */
export function compileCondition(
  when: NonNullable<StageSpec['when']>,
  what: string,
  params: ParamValues,
  check: CheckExpressions['condition'],
  problems: Problems,
): Condition | null {
  const source = when.value;
  const begin = source.indexOf('${{');
  const end = begin === -1 ? -1 : source.indexOf('}}', begin + 3);
  if (end !== -1) {
    const isWhole = source.slice(begin, end + 2) === source.trim();
    const inner = isWhole ? source.slice(begin + 3, end).trim() : 'params.name == "value"';
    problems.error(
      'spec/bad-placeholder',
      when.at,
      `${what} has a placeholder: ${quote(source)}`,
      `the whole value is an expression: write \`when: ${inner}\``,
    );
    problems.gap('edges');
    return null;
  }
  // The reader has already reported an empty condition.
  if (source === '') return null;
  const checked = check(source, params);
  if ('problems' in checked) {
    for (const { message, remedy, start } of checked.problems) {
      const { at, words } = placeIn(when, start);
      const help = remedy ?? 'see "Conditions" in docs/reference/spec.md';
      problems.error('spec/bad-expression', at, `${what}: ${message}${words}`, help);
    }
    problems.gap('edges');
    return null;
  }
  const reads = new Map<string, Located<string>>();
  for (const { stage, start } of checked.stages)
    if (!reads.has(stage)) reads.set(stage, { value: stage, at: placeIn(when, start).at });
  const values: Record<string, ConditionValue> = createMapping();
  for (const { name, start } of checked.params) {
    const value = params.get(name);
    if (value === undefined)
      problems.error(
        'spec/unknown-param',
        placeIn(when, start).at,
        `${what} reads the parameter ${quote(name)}, which is not declared${problems.suggest(name, params.keys())}`,
        `declare it: \`params: {${name}: …}\``,
      );
    else values[name] = value?.value ?? '';
  }
  return { source, stages: [...reads.keys()], params: values, reads: [...reads.values()] };
}

/**
 * Finds the place of a character in a text. If the text is folded, escaped or on several lines, only its start is
 * known.
 */
export function placeIn(
  { at, textAt }: Located<string>,
  offset: number,
): { readonly at: Position; readonly words: string } {
  if (textAt !== undefined) return { at: { line: textAt.line, column: textAt.column + offset }, words: '' };
  return { at, words: offset === 0 ? '' : ` (at character ${offset + 1} of the condition)` };
}
