import type { Rule } from '../rule.ts';
import { twice } from '../twice.ts';

export const compositeDuplicateTopic = {
  code: 'composite-duplicate-topic',
  severity: 'error',
  about: 'a topic is registered twice under one name',
  remedy: 'Give one of them another name.',
  check: {
    source({ sources, builders }, tell) {
      for (const { name, nameNode } of builders.flatMap(({ topics }) => twice(topics)))
        tell(sources.placeOf(nameNode), `Topic "${name}" is registered twice.`);
    },
  },
} as const satisfies Rule;
