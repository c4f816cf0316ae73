import { BY_BUILDER, type Rule } from '../rule.ts';

export const parallelJoin = {
  code: 'parallel-join',
  severity: 'error',
  about: 'a parallel branch can end the skill instead of reaching the join',
  remedy: 'Lead the branch to the join.',
  check: BY_BUILDER,
} as const satisfies Rule;
