import { BY_BUILDER, type Rule } from '../rule.ts';

export const envNames = {
  code: 'env-names',
  severity: 'error',
  about:
    '`env` is no list of names of variables, has too many of them, one of them twice, or one that steers the program itself',
  remedy: 'List the variables that the skill reads, each once.',
  check: BY_BUILDER,
} as const satisfies Rule;
