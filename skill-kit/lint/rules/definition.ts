import { BY_LOADER, type Rule } from '../rule.ts';

export const definition = {
  code: 'definition',
  severity: 'error',
  about: 'the code of the skill fails when it is loaded',
  remedy: 'Correct what the message names. Rules that look at the definition wait for that.',
  check: BY_LOADER,
} as const satisfies Rule;
