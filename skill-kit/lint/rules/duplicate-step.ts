import type { Rule } from '../rule.ts';
import { twice } from '../twice.ts';

export const duplicateStep = {
  code: 'duplicate-step',
  severity: 'warning',
  about: 'a step is declared twice; the later one replaces the earlier',
  remedy: 'Give one of them another name, or remove it.',
  check: {
    source({ sources, builders }, tell) {
      for (const { name, nameNode } of builders.flatMap(({ steps }) => twice(steps)))
        tell(sources.placeOf(nameNode), `Step "${name}" is declared twice; this one replaces the one before.`, {
          step: name,
        });
    },
  },
} as const satisfies Rule;
