import type { Rule } from '../rule.ts';
import { findRepeated } from '../repeated-names.ts';

export const compositeDuplicateSubskill = {
  code: 'composite-duplicate-subskill',
  severity: 'error',
  about: 'a sub-skill is registered twice under one name',
  remedy: 'Rename or remove one of them.',
  check: {
    source({ sources, builders }, tell) {
      for (const { name, nameNode } of builders.flatMap(({ subskills }) => findRepeated(subskills)))
        tell(sources.placeOf(nameNode), `Sub-skill "${name}" is registered twice.`);
    },
  },
} as const satisfies Rule;
