import { BY_BUILDER, type Rule } from '../rule.ts';

export const stepFields = {
  code: 'step-fields',
  severity: 'error or warning',
  about: 'fields of a step contradict each other, or one is missing',
  remedy: 'See the table of fields in docs/reference/skill-kit.md.',
  check: BY_BUILDER,
} as const satisfies Rule;
