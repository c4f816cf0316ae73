/** The name of a function begins with a verb. Functions that do not follow this rule yet are counted. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { packageRoot } from '../../setup/package-root.ts';
import { pathsOf } from './imports.ts';
import { beginsWithVerb, functionsIn } from './verbs.ts';

const ROOT = packageRoot();

/** The number of functions without a verb. It may only fall: lower it together with the number of such functions. */
const BOUND = 2090;

test('the number of functions whose name does not begin with a verb only falls', () => {
  const sources = pathsOf(ROOT).filter(
    (path) => path.endsWith('.ts') && !/\.test\.ts$|^(?:test|examples)\//.test(path),
  );
  expect(sources.length).toBeGreaterThan(400);
  const found = sources.flatMap((path) =>
    functionsIn(path, readFileSync(join(ROOT, path), 'utf8'))
      .filter((name) => !beginsWithVerb(name))
      .map((name) => `${path}: ${name}`),
  );
  expect(found.length, `${found.join('\n')}\nFunctions without a verb`).toBe(BOUND);
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
