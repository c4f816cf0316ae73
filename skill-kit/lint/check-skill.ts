/** `checkSkill`: what can be said of a definition without its source. */
import type { SkillDefinition } from '../../domain/step-machine/definition.ts';
import { definitionFindings } from './definition-findings.ts';
import type { LintDiagnostic } from './diagnostic.ts';

/**
 * Checks only the definition, sub-skills included. Functions and files can only be checked with the source, which
 * `voidbox skill lint` reads.
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
