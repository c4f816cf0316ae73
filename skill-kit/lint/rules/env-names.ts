import { BY_BUILDER, type Rule } from '../rule.ts';

export const envNames = {
  code: 'env-names',
  severity: 'error',
  about:
    '`env` is not a list of variable names, is too long, has a name twice, or has a name that controls Node, the loader or Voidbox',
  remedy: 'List the variables that the skill reads, each once.',
  check: BY_BUILDER,
} as const satisfies Rule;
