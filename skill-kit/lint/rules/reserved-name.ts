import { BY_BUILDER, type Rule } from '../rule.ts';

export const reservedName = {
  code: 'reserved-name',
  severity: 'error',
  about: 'a step or a sub-store has a reserved name',
  remedy: 'Rename it.',
  check: BY_BUILDER,
} as const satisfies Rule;
