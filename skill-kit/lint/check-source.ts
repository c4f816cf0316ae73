/** `checkSkill` for a skill that is still source. */
import type { Buildable } from '../../domain/step-machine/definition.ts';
import { findEntry } from '../bundle/find-entry.ts';
import { checkSkill } from './check-skill.ts';
import { type LintDiagnostic, createDiagnostic } from './diagnostic.ts';
import type { LintOptions } from './lint-skill.ts';
import { loadOrExplain } from './load-or-explain.ts';
import { ruleOf } from './rules.ts';
import type { Place } from './sources.ts';

export interface CheckedSource {
  /** Null if the skill cannot be built; the diagnostics give the reason. */
  readonly definition: Buildable | null;
  readonly diagnostics: readonly LintDiagnostic[];
}

/** @throws CodedError `skill/not-found` */
export async function checkSource(path: string, { cwd = process.cwd() }: LintOptions = {}): Promise<CheckedSource> {
  const entry = findEntry(path, cwd);
  const loaded = await loadOrExplain(entry);
  const refused = loaded.refused.flatMap(({ mistakes }) =>
    mistakes.map((one) => ({ ...one, remedy: ruleOf(one.rule).remedy })),
  );
  switch (loaded.kind) {
    case 'definition': {
      const { definition } = loaded;
      const diagnostics = [...refused, ...(definition.kind === 'skill' ? checkSkill(definition) : [])];
      // Where a builder refuses something, nothing is built but for lint.
      return { definition: loaded.isRefused ? null : definition, diagnostics };
    }
    case 'refused':
      return { definition: null, diagnostics: refused };
    case 'not-bundled':
      return {
        definition: null,
        diagnostics: [
          ...refused,
          ...loaded.mistakes.map(({ message, place }) => createFailureDiagnostic(message, place)),
        ],
      };
    case 'failure':
      return { definition: null, diagnostics: [...refused, createFailureDiagnostic(loaded.message, null)] };
  }
}

function createFailureDiagnostic(message: string, place: Place | null): LintDiagnostic {
  return { ...createDiagnostic(ruleOf('definition'), message), ...place };
}
