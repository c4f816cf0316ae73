/** The name of a function begins with a verb. Functions that do not follow this rule yet are counted. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { pathsOf } from './imports.ts';
import { beginsWithVerb, exportedFunctionsIn, functionsIn } from './verbs.ts';

const ROOT = findPackageRoot();

/** The number of functions without a verb. It may only fall: lower it together with the number of such functions. */
const BOUND = 1950;
/** The number of exported functions among them, which other files read. It may only fall, too. */
const EXPORTED_BOUND = 610;

function listWithoutVerb(functionsOf: (path: string, source: string) => readonly string[]): readonly string[] {
  const sources = pathsOf(ROOT).filter(
    (path) => path.endsWith('.ts') && !/\.test\.ts$|^(?:test|examples)\//.test(path),
  );
  expect(sources.length).toBeGreaterThan(400);
  return sources.flatMap((path) =>
    functionsOf(path, readFileSync(join(ROOT, path), 'utf8'))
      .filter((name) => !beginsWithVerb(name))
      .map((name) => `${path}: ${name}`),
  );
}

test('the number of functions whose name does not begin with a verb only falls', () => {
  const found = listWithoutVerb(functionsIn);
  expect(found.length, `${found.join('\n')}\nFunctions without a verb`).toBe(BOUND);
});

test('the number of exported functions whose name does not begin with a verb only falls', () => {
  const found = listWithoutVerb(exportedFunctionsIn);
  expect(found.length, `${found.join('\n')}\nExported functions without a verb`).toBe(EXPORTED_BOUND);
});

test.each(['createStore', 'isOpen', 'toText', 'main', 'plan', 'recordLoss', 'endIfHanging', 'warnOfLoss'])(
  'a name begins with a verb: %s',
  (name) => {
    expect(beginsWithVerb(name)).toBe(true);
  },
);

test.each(['refused', 'textOf', 'planOf', 'openOf', 'recordPath', 'whyNot', 'sessionRows', 'createdAt', 'endOfItem'])(
  'a name does not begin with a verb: %s',
  (name) => {
    expect(beginsWithVerb(name)).toBe(false);
  },
);

test('declarations, constants and methods are functions; getters, values and anonymous functions are not', () => {
  const source = [
    'export async function a(): Promise<void> { const b = (): void => {}; b(); }',
    'const c = function () {}, d = 1, e = [].map((x) => x);',
    'class F { constructor() {} get g() { return 1; } async *h() {} #i() {} [j]() {} }',
    'export const k = { l() {}, m: () => {}, get n() { return 1; } };',
  ].join('\n');
  expect(functionsIn('x.ts', source)).toEqual(['a', 'b', 'c', 'h', 'l']);
});

test('an exported function is declared with `export`, also as a constant', () => {
  const source = [
    'export async function a() { function b() {} }',
    'export const c = () => {}, d = 1;',
    'function e() {}',
    'export class F { g() {} }',
    'export { e };',
  ].join('\n');
  expect(exportedFunctionsIn('x.ts', source)).toEqual(['a', 'c']);
});
