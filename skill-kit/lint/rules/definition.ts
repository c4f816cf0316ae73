import { BY_LOADER, type Rule } from '../rule.ts';

export const definition = {
  code: 'definition',
  severity: 'error',
  about: 'the code of the skill fails when it is loaded',
  remedy: 'Mend what the message names; the other rules need the built definition.',
  check: BY_LOADER,
} as const satisfies Rule;
