import type { Rule } from '../rule.ts';
import { twice } from '../twice.ts';

export const compositeDuplicateSubskill = {
  code: 'composite-duplicate-subskill',
  severity: 'error',
  about: 'a sub-skill is registered twice under one name',
  remedy: 'Give one of them another name.',
  check: {
    source({ sources, builders }, tell) {
      for (const { name, nameNode } of builders.flatMap(({ subskills }) => twice(subskills)))
        tell(sources.placeOf(nameNode), `Sub-skill "${name}" is registered twice.`);
    },
  },
} as const satisfies Rule;
