/** Mappings made of texts of users have no prototype: `domain/units/mapping.ts` makes them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { pathsOf } from './imports.ts';

const ROOT = findPackageRoot();

/** Tests, and programs that only a developer starts. */
const NOT_PRODUCT = /^(?:test|bench|examples)\/|\.test\.ts$/;

const REFUSED = [
  // An object literal that keys are assigned to loses `__proto__` and finds `constructor`.
  /\bRecord<string,[^=;\n]*> = \{\};/g,
  // Its copy of a mapping leaves out `__proto__`.
  /\bz\.json\(\)(?!`)/g,
  // Reads the prototype for a stage with the name `constructor`.
  /\bupstream\)?\[\w[\w.]*\](?! \??\??=[^=])/g,
  /\boutputs\)?\??\.?\[(?:name|output)\](?! =[^=])/g,
];

function findRefused(path: string, source: string): readonly string[] {
  return REFUSED.flatMap((pattern) => [...source.matchAll(pattern)].map(([found]) => `${path}: ${found}`));
}

test('no source makes or reads a mapping of names through a prototype', () => {
  const sources = pathsOf(ROOT).filter((path) => path.endsWith('.ts') && !NOT_PRODUCT.test(path));
  expect(sources.length).toBeGreaterThan(400);
  expect(sources.flatMap((path) => findRefused(path, readFileSync(join(ROOT, path), 'utf8')))).toEqual([]);
});

test.each([
  'const values: Record<string, string> = {};',
  'z.array(z.json())',
  'upstream[stage]?.output',
  'request.upstream[list.stage].outputs',
  'first?.outputs[name] ?? null',
])('a mapping with a prototype is found: %s', (source) => {
  expect(findRefused('a.ts', source)).toHaveLength(1);
});

test.each([
  'upstream[source] = result;',
  'upstream[part] ??= {}',
  'outputs[name] = ref.value;',
  'Not `z.json()`, which',
])('a mapping that keys are assigned to is allowed: %s', (source) => {
  expect(findRefused('a.ts', source)).toEqual([]);
});
