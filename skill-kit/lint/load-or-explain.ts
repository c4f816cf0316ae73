/** Loads a skill's definition as far as possible, with every mistake that its builders and its code report. */
import { isCodedError } from '../../domain/errors/coded-error.ts';
import type { Buildable, SkillDefinition } from '../../domain/step-machine/definition.ts';
import type { SkillDiagnostic } from '../../domain/step-machine/diagnose.ts';
import { collectRefusals, type Refusal } from '../author/refuse.ts';
import { BundleError, type BundleMistake } from '../bundle/bundle.ts';
import { loadSkill } from '../bundle/load-skill.ts';
import type { RuleName } from './rules.ts';

/** The mistakes that one builder rejected. */
export interface Refused {
  /** Null if the skill is unknown. */
  readonly skill: string | null;
  readonly mistakes: readonly RefusedMistake[];
}

export interface RefusedMistake extends Omit<SkillDiagnostic, 'rule'> {
  readonly rule: RuleName;
}

export type Loaded = { readonly refused: readonly Refused[] } &
  /** `isRefused`: its builder, or that of a part of it, would throw. */
  (
    | { readonly kind: 'definition'; readonly definition: Buildable; readonly isRefused: boolean }
    | { readonly kind: 'not-bundled'; readonly mistakes: readonly BundleMistake[] }
    | { readonly kind: 'failure'; readonly message: string }
    /** The skill's own copy of the builders throws what they refuse. */
    | { readonly kind: 'refused' }
  );

/** @throws what is no mistake of the author */
export async function loadOrExplain(entry: string): Promise<Loaded> {
  return await collectRefusals(async (noted) => {
    try {
      const { definition } = await loadSkill(entry);
      return { kind: 'definition', definition, isRefused: noted.length > 0, refused: refusedOf(noted, definition) };
    } catch (error) {
      if (!isCodedError(error) || error.code !== 'skill/unusable') throw error;
      const refused = refusedOf(noted, null);
      if (error instanceof BundleError) return { kind: 'not-bundled', mistakes: error.mistakes, refused };
      const { cause } = error;
      if (!(cause instanceof Error)) return { kind: 'failure', message: error.message, refused };
      const thrown = readRefusal(cause);
      if (thrown === null) return { kind: 'failure', message: cause.message, refused };
      return { kind: 'refused', refused: [...refused, thrown] };
    }
  });
}

/** Without what the definition shows: lint looks at all of it. Sub-skills are built before what they are a part of, so the first to say something knows most of it. */
function refusedOf(noted: readonly Refusal[], definition: Buildable | null): readonly Refused[] {
  const shown = new Set(definition?.kind === 'skill' ? withSubskills(definition) : []);
  const told = new Set<string>();
  return noted
    .filter((refusal) => !('mistakes' in refusal.error) || !shown.has(refusal.definition!))
    .map(({ error }) => readRefusal(error) ?? { skill: null, mistakes: [mistake('definition', error.message)] })
    .map((one) => ({ ...one, mistakes: one.mistakes.filter(({ message }) => told.size < told.add(message).size) }));
}

function withSubskills(skill: SkillDefinition): readonly SkillDefinition[] {
  return [skill, ...Object.values(skill.subskills ?? {}).flatMap((sub) => withSubskills(sub.definition))];
}

/** By names, for the classes are the bundle's own. Null for any other error. */
function readRefusal(error: Error): Refused | null {
  const { name, message } = error;
  const { skill, mistakes, step } = error as { skill?: unknown; mistakes?: unknown; step?: unknown };
  if (name === 'SkillDefinitionError' && typeof skill === 'string' && Array.isArray(mistakes))
    return { skill, mistakes: mistakes as readonly SkillDiagnostic[] };
  if (name !== 'StepDefinitionError' || typeof step !== 'string') return null;
  return { skill: null, mistakes: [{ ...mistake('step-fields', message), step }] };
}

function mistake(rule: RuleName, message: string): RefusedMistake {
  return { rule, severity: 'error', message };
}
