import { BY_BUILDER, type Rule } from '../rule.ts';

export const entryStep = {
  code: 'entry-step',
  severity: 'error',
  about: '`entry` names no step',
  remedy: 'Name one of the steps.',
  check: BY_BUILDER,
} as const satisfies Rule;
