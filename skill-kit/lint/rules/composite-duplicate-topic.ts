import type { Rule } from '../rule.ts';
import { findRepeated } from '../repeated-names.ts';

export const compositeDuplicateTopic = {
  code: 'composite-duplicate-topic',
  severity: 'error',
  about: 'a topic is registered twice under one name',
  remedy: 'Rename or remove one of them.',
  check: {
    source({ sources, builders }, tell) {
      for (const { name, nameNode } of builders.flatMap(({ topics }) => findRepeated(topics)))
        tell(sources.placeOf(nameNode), `Topic "${name}" is registered twice.`);
    },
  },
} as const satisfies Rule;
