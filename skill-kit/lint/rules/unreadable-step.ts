import { BY_BUILDER, type Rule } from '../rule.ts';

export const unreadableStep = {
  code: 'unreadable-step',
  severity: 'warning',
  about: '`store.steps.<name>` cannot read the step, because `all`, `ran` and `history` are members of `store.steps`',
  remedy: 'Rename the step.',
  check: BY_BUILDER,
} as const satisfies Rule;
