/**
 * The environment variables that the code of a skill sees: those that every program needs, and those that the skill
 * declares.
 */
import type { SkillDefinition } from './definition.ts';
import { quote } from '../units/quote.ts';

export type Variables = Readonly<Record<string, string | undefined>>;

export const MOST_VARIABLES = 64;
/** Bytes of all values for one session. */
export const MOST_VARIABLE_BYTES = 128 * 1024;

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
/** Variables that programs need to run, and that are not secret. The embedded stack passes on only these. */
const BASE = /^(PATH|HOME|USER|LOGNAME|LANG|LC_[A-Z]+|TZ|TMPDIR|NODE_EXTRA_CA_CERTS)$/;
/** These control Node, the program loader or Voidbox before any code of a skill runs. */
const STEERING = /^(NODE_(?!EXTRA_CA_CERTS$).*|LD_.*|DYLD_.*|VOIDBOX_.*)$/;

/** Whether the code sees the variable without declaring it. */
export function isBaseVariable(name: string): boolean {
  return BASE.test(name);
}

/** Returns the problems of a skill's `env`, each as a sentence. */
export function findEnvProblems(env: unknown): readonly string[] {
  if (env === undefined) return [];
  if (!Array.isArray(env)) return ["is not a list of names; write env: ['GITHUB_TOKEN']"];
  const names: readonly unknown[] = env;
  const problems = names.flatMap((name) => {
    const shown = quote(name);
    if (typeof name !== 'string' || !NAME.test(name))
      return [`has ${shown}, which is not the name of a variable: A-Z, a-z, 0-9, "_", at most 128`];
    return STEERING.test(name)
      ? [`has ${shown}, which would change how the program itself runs, and is never passed on`]
      : [];
  });
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) problems.push(`has ${quote(twice)} twice`);
  if (names.length > MOST_VARIABLES) problems.push(`has ${names.length} names; at most ${MOST_VARIABLES} are allowed`);
  return problems;
}

/** All variables that the skill and its sub-skills declare, sorted. They run in one process. */
export function listDeclaredVariables({
  env = [],
  subskills = {},
}: Pick<SkillDefinition, 'env' | 'subskills'>): readonly string[] {
  const inside = Object.values(subskills).flatMap(({ definition }) => listDeclaredVariables(definition));
  return [...new Set([...env, ...inside])].toSorted();
}

/** The variables among `names` that have a value. An empty value counts. */
export function valuesOf(names: readonly string[], variables: Variables): Readonly<Record<string, string>> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = Object.hasOwn(variables, name) ? variables[name] : undefined;
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

export function missingOf(names: readonly string[], values: Variables): readonly string[] {
  return names.filter((name) => !Object.hasOwn(values, name) || values[name] === undefined);
}

/** @param names  at least one */
export function describeMissing(skill: string, names: readonly string[]): string {
  const what =
    names.length === 1 ? `the variable ${names[0]}, which is` : `the variables ${names.join(', ')}, which are`;
  return `skill "${skill}" needs ${what} not set`;
}
