import type { Rule } from '../rule.ts';

export const syntax = {
  code: 'syntax',
  severity: 'error',
  about: 'a file is not valid TypeScript or JavaScript',
  remedy: 'Correct what the parser names. Rules that look at the definition wait for that.',
  check: {
    source({ sources }, tell) {
      for (const { message, ...place } of sources.failures) tell(place, message);
    },
  },
} as const satisfies Rule;
