import { describe, expect, test } from 'vitest';
import { skillOf, TERMINAL } from '../../test/rig/skills/erased-skill.ts';
import {
  listDeclaredVariables,
  findEnvProblems,
  isBaseVariable,
  describeMissing,
  missingOf,
  MOST_VARIABLES,
  valuesOf,
} from './skill-variables.ts';

const END = { end: { prompt: 'p', next: TERMINAL } };

describe('the variables that a skill declares', () => {
  test('are a list of names, up to its limit', () => {
    expect(findEnvProblems(undefined)).toEqual([]);
    expect(findEnvProblems(Array.from({ length: MOST_VARIABLES }, (_, index) => `V${index}`))).toEqual([]);
    expect(findEnvProblems(['_', 'a1', `X${'y'.repeat(127)}`, 'NODE_EXTRA_CA_CERTS', 'PATH'])).toEqual([]);
  });

  test.each([
    ['GITHUB_TOKEN', 'is not a list of names'],
    [{ GITHUB_TOKEN: 'x' }, 'is not a list of names'],
    [[''], 'has "", which is not the name of a variable'],
    [['1X'], 'has "1X", which is not'],
    [['A=B'], 'has "A=B", which is not'],
    [[5], 'has 5, which is not'],
    [[`X${'y'.repeat(128)}`], 'which is not the name'],
    [['NODE_OPTIONS'], 'would change how the program itself runs'],
    [['LD_PRELOAD'], 'would change how the program itself runs'],
    [['VOIDBOX_STATE_DIR'], 'would change how the program itself runs'],
    [['A', 'B', 'A'], 'has "A" twice'],
    [
      Array.from({ length: MOST_VARIABLES + 1 }, (_, index) => `V${index}`),
      `has ${MOST_VARIABLES + 1} names; at most ${MOST_VARIABLES} are allowed`,
    ],
  ])('%j is refused', (env, problem) => {
    expect(findEnvProblems(env).join('\n')).toContain(problem);
  });

  test('include the variables of its sub-skills', () => {
    const inner = skillOf(END, { env: ['B', 'C'] });
    expect(
      listDeclaredVariables(skillOf(END, { env: ['C', 'A'], subskills: { inner: { definition: inner } } })),
    ).toEqual(['A', 'B', 'C']);
    expect(listDeclaredVariables(skillOf(END))).toEqual([]);
  });
});

test('`valuesOf` returns variables that are set, also to an empty text; the others are missing', () => {
  const values = valuesOf(['A', 'B', 'C', '__proto__', 'toString'], { A: '1', B: '', C: undefined, D: '4' });
  expect(values).toEqual({ A: '1', B: '' });
  expect(missingOf(['A', 'B', 'C', 'toString'], values)).toEqual(['C', 'toString']);
  expect(describeMissing('s', ['C'])).toBe('skill "s" needs the variable C, which is not set');
  expect(describeMissing('s', ['C', 'D'])).toBe('skill "s" needs the variables C, D, which are not set');
});

test('variables that every program needs are not secret and control nothing', () => {
  for (const name of ['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'USER'])
    expect(isBaseVariable(name), name).toBe(true);
  for (const name of ['GITHUB_TOKEN', 'NODE_OPTIONS', 'LD_PRELOAD', 'PATHS', 'XDG_STATE_HOME', 'VOIDBOX_BIN', 'lc_all'])
    expect(isBaseVariable(name), name).toBe(false);
});
