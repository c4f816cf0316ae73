import type { Rule } from '../rule.ts';
import { findRepeated } from '../repeated-names.ts';

export const duplicateStep = {
  code: 'duplicate-step',
  severity: 'warning',
  about: 'a step is declared twice; the second replaces the first',
  remedy: 'Rename or remove one of them.',
  check: {
    source({ sources, builders }, tell) {
      for (const { name, nameNode } of builders.flatMap(({ steps }) => findRepeated(steps)))
        tell(sources.placeOf(nameNode), `Step "${name}" is declared twice; this one replaces the one before.`, {
          step: name,
        });
    },
  },
} as const satisfies Rule;
