import { BY_BUILDER, type Rule } from '../rule.ts';

export const reservedName = {
  code: 'reserved-name',
  severity: 'error',
  about: 'a step or a sub-store has a name that means something else',
  remedy: 'Give it another name.',
  check: BY_BUILDER,
} as const satisfies Rule;
