/** A guard against imports of a folder that has moved guards nothing, and says nothing of it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { pathsOf } from './imports.ts';

interface Pattern {
  readonly regex?: string;
  readonly group?: readonly string[];
  readonly message: string;
}

interface Override {
  readonly files: readonly string[];
  readonly rules: Readonly<Record<string, unknown>>;
}

/** Every place that a configuration of the linter names, and where: in globs, in patterns of imports, in messages. */
function namedPlaces({ overrides }: { readonly overrides: readonly Override[] }): readonly string[] {
  return overrides.flatMap(({ files, rules }) => {
    const [, options] = [rules['no-restricted-imports']].flat() as [
      unknown,
      { readonly patterns?: readonly Pattern[] }?,
    ];
    const guards = options?.patterns ?? [];
    return [
      ...files.map(literalStart),
      ...guards.flatMap(({ regex, group, message }) => [
        ...(regex === undefined || /^\^(?!\|)/.test(regex) ? [] : placesIn(regex)),
        ...(group ?? []).map((glob) => literalStart(glob.replace(/^!?\*\*\//, ''))),
        ...(message.match(/(?<![\w@/])[a-z][\w-]*\/[\w./-]*/g) ?? []).map((place) => place.replace(/\.$/, '')),
      ]),
    ];
  });
}

/** Returns the places `a/` and `b/` for `(^|/)(a|b)/`; for a place that continues with a pattern, its folder. */
function placesIn(regex: string): readonly string[] {
  const group = /\((?:\?:)?([^()]*)\)/.exec(regex.replace('(^|/)', ''));
  if (group === null) return [literalStart(regex.replace('(^|/)', '').replace(/\$$/, '').replaceAll('\\.', '.'))];
  const { 0: whole, 1: choices, index, input } = group;
  return choices!
    .split('|')
    .flatMap((choice) => placesIn(input.slice(0, index) + choice + input.slice(index + whole.length)));
}

function literalStart(pattern: string): string {
  const literal = /^[\w./-]*/.exec(pattern)![0];
  return literal === pattern ? literal : literal.slice(0, literal.lastIndexOf('/') + 1);
}

function missingFrom(paths: readonly string[], config: { readonly overrides: readonly Override[] }): readonly string[] {
  const isThere = (place: string): boolean =>
    paths.some((path) => (place === '' || place.endsWith('/') ? path.startsWith(place) : path === place));
  return [...new Set(namedPlaces(config))].filter((place) => !isThere(place));
}

test('every place that a guard of the linter names exists', () => {
  const config = JSON.parse(readFileSync(join(findPackageRoot(), '.oxlintrc.json'), 'utf8'));
  // Proves that the check reads the places.
  expect(namedPlaces(config)).toEqual(
    expect.arrayContaining(['domain/language/', 'skill-kit/', 'activities/failure.ts']),
  );
  expect(missingFrom(pathsOf(findPackageRoot()), config)).toEqual([]);
});

test.each([
  ['a glob', { files: ['gone/**/*.ts'], rules: {} }, ['gone/']],
  ['a file', { files: ['here/gone.ts'], rules: {} }, ['here/gone.ts']],
  ['a choice of folders', guarding({ regex: '(^|/)(here|gone|lost)/' }), ['gone/', 'lost/']],
  ['a choice of files', guarding({ regex: 'here/(a|gone)\\.ts$' }), ['here/gone.ts']],
  ['a pattern of files', guarding({ regex: '(gone|here)/[^/]*\\.ts$' }), ['gone/']],
  ['a glob of imports', guarding({ group: ['**/gone/**', '!**/here/gone.ts'] }), ['gone/', 'here/gone.ts']],
  ['what it says', guarding({ message: 'Not I/O of node:fs: see here/, here/a.ts and gone/b.ts.' }), ['gone/b.ts']],
  ['nothing, for packages', guarding({ regex: '^@scope/(a|b)(/|$)' }), []],
])('a place that is gone is found in %s', (_where, override, missing) => {
  expect(missingFrom(['here/a.ts'], { overrides: [override] })).toEqual(missing);
});

function guarding(pattern: Partial<Pattern>): Override {
  const whole = { message: '', ...pattern };
  return { files: ['here/**/*.ts'], rules: { 'no-restricted-imports': ['error', { patterns: [whole] }] } };
}
