import { BY_BUILDER, type Rule } from '../rule.ts';

export const entryStep = {
  code: 'entry-step',
  severity: 'error',
  about: '`entry` does not name a step',
  remedy: 'Set `entry` to the name of a step.',
  check: BY_BUILDER,
} as const satisfies Rule;
