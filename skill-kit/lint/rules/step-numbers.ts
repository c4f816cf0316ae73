import { BY_BUILDER, type Rule } from '../rule.ts';

export const stepNumbers = {
  code: 'step-numbers',
  severity: 'error',
  about: 'a limit or a time is out of range or not a number',
  remedy: 'Give a whole number from 1, or milliseconds from 0.',
  check: BY_BUILDER,
} as const satisfies Rule;
