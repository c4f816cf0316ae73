/** `checkSkill`: what can be said of a definition without its source. */
import type { SkillDefinition } from '../../domain/step-machine/definition.ts';
import { definitionFindings } from './definition-findings.ts';
import type { LintDiagnostic } from './diagnostic.ts';

/**
 * Looks at the definition alone, sub-skills included. What functions say and what lies in files takes the source:
 * `voidbox skill lint` looks at it.
 * @param _rootDir  the skill's folder; nothing is read from it
 */
export function checkSkill(definition: SkillDefinition, _rootDir?: string): LintDiagnostic[] {
  return definitionFindings(definition).map(({ rule, severity, message, step, remedy }) => ({
    rule,
    severity,
    message,
    ...(step === undefined ? {} : { step }),
    ...(remedy === undefined ? {} : { remedy }),
  }));
}
