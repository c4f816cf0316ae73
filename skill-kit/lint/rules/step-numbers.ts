import { BY_BUILDER, type Rule } from '../rule.ts';

export const stepNumbers = {
  code: 'step-numbers',
  severity: 'error',
  about: 'a limit or a time that is no number of that kind',
  remedy: 'Write a whole number from 1, or milliseconds from 0.',
  check: BY_BUILDER,
} as const satisfies Rule;
