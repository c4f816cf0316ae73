/** Finds mistakes in a built definition, with facts from its source if that is available. Pure. */
import type { SkillDefinition } from '../../domain/step-machine/definition.ts';
import { diagnoseAlone } from '../../domain/step-machine/diagnose.ts';
import { edgesOf } from '../../domain/step-machine/facts.ts';
import { type LintDiagnostic, createDiagnostic } from './diagnostic.ts';
import type { SkillDetails, Tell } from './rule.ts';
import { type ListedRule, ruleOf, RULES } from './rules.ts';
import type { SkillInsight } from './skill-insight.ts';
import type { SkillSubject } from './subjects.ts';

export interface Finding extends LintDiagnostic, Pick<SkillDetails, 'ask' | 'target'> {
  readonly skill: SkillDefinition;
  /** Names of the sub-skills that lead to it. */
  readonly path: readonly string[];
}

const NO_INSIGHT: SkillInsight = { targetsOf: () => null, asksOf: () => null };

/** Sub-skills included. A sub-skill that is registered twice is looked at in both places. */
export function definitionFindings(
  definition: SkillDefinition,
  insightOf: (skill: SkillDefinition) => SkillInsight = () => NO_INSIGHT,
  path: readonly string[] = [],
): readonly Finding[] {
  const insight = insightOf(definition);
  const found: Finding[] = [];
  const prefix = path.map((name) => `[subskill:${name}] `).join('');
  const createReporter =
    (rule: ListedRule): Tell =>
    (message, { severity, ...more } = {}) =>
      void found.push({ ...createDiagnostic(rule, prefix + message, severity), skill: definition, path, ...more });
  for (const { rule, message, step, severity } of diagnoseAlone(definition))
    createReporter(ruleOf(rule))(message, { severity, ...(step === undefined ? {} : { step }) });
  const subject: SkillSubject = {
    definition,
    insight,
    edges: edgesOf(definition, (step) => insight.targetsOf(step)?.names ?? []),
    isSubskill: path.length > 0,
  };
  for (const rule of RULES) rule.check.skill?.(subject, createReporter(rule));
  for (const [step, { config }] of Object.entries(definition.steps))
    for (const rule of RULES) rule.check.step?.({ ...subject, step, config }, createReporter(rule));
  for (const [name, sub] of Object.entries(definition.subskills ?? {}))
    found.push(...definitionFindings(sub.definition, insightOf, [...path, name]));
  return found;
}
