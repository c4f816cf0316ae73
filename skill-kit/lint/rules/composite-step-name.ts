import { BY_BUILDER, type Rule } from '../rule.ts';

export const compositeStepName = {
  code: 'composite-step-name',
  severity: 'error',
  about: "a step's name contains `/`, which separates a sub-skill's name from its step's",
  remedy: 'Remove the `/` from its name.',
  check: BY_BUILDER,
} as const satisfies Rule;
