import type { Rule } from '../rule.ts';

export const syntax = {
  code: 'syntax',
  severity: 'error',
  about: 'a file is no TypeScript or JavaScript',
  remedy: 'Mend what the parser names.',
  check: {
    source({ sources }, tell) {
      for (const { message, ...place } of sources.failures) tell(place, message);
    },
  },
} as const satisfies Rule;
