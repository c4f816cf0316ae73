import type { Rule } from '../rule.ts';

export const orphanReferences = {
  code: 'orphan-references',
  severity: 'warning',
  about: 'no prompt, constant or other reference mentions a file below `references/`',
  remedy: 'Load it, mention it, or remove it.',
  check: {
    source({ orphanReferences, whole }, tell) {
      for (const file of orphanReferences()) tell(whole, `Nothing mentions references/${file}.`);
    },
  },
} as const satisfies Rule;
