/** `checkSkill` for a skill that is still source. */
import type { Buildable } from '../../domain/step-machine/definition.ts';
import { findEntry } from '../bundle/find-entry.ts';
import { checkSkill } from './check-skill.ts';
import { type LintDiagnostic, said } from './diagnostic.ts';
import { type LintOptions, loadOrExplain } from './lint-skill.ts';
import { ruleOf } from './rules.ts';
import type { Place } from './sources.ts';

export interface CheckedSource {
  /** Null when it cannot be built; the diagnostics say why. */
  readonly definition: Buildable | null;
  readonly diagnostics: readonly LintDiagnostic[];
}

/** @throws CodedError `skill/not-found` */
export async function checkSource(path: string, { cwd = process.cwd() }: LintOptions = {}): Promise<CheckedSource> {
  const entry = findEntry(path, cwd);
  const loaded = await loadOrExplain(entry);
  switch (loaded.kind) {
    case 'definition':
      return {
        definition: loaded.definition,
        diagnostics: loaded.definition.kind === 'skill' ? checkSkill(loaded.definition) : [],
      };
    case 'mistakes':
      return {
        definition: null,
        diagnostics: loaded.mistakes.map((one) => ({ ...one, remedy: ruleOf(one.rule).remedy })),
      };
    case 'not-bundled':
      return { definition: null, diagnostics: loaded.mistakes.map(({ message, place }) => failed(message, place)) };
    case 'failure':
      return { definition: null, diagnostics: [failed(loaded.message, null)] };
  }
}

function failed(message: string, place: Place | null): LintDiagnostic {
  return { ...said(ruleOf('definition'), message), ...place };
}
