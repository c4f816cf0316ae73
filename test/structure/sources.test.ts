/**
 * The compiler writes below `dist/`. A compiled file next to its source is an old copy, which people and imports may
 * use instead of the source.
 */
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { pathsOf } from './imports.ts';

/** Compiled files whose source is among the paths, or which name one by a map. */
function compiledFiles(paths: readonly string[]): readonly string[] {
  const known = new Set(paths);
  return paths.filter((path) => {
    if (path.endsWith('.map')) return true;
    const source = path.replace(/\.(?:d\.ts|js)$/, '.ts');
    return source !== path && known.has(source);
  });
}

test('no compiled file lies among the sources', () => {
  expect(compiledFiles(pathsOf(findPackageRoot()))).toEqual([]);
});

test('a compiled file is found', () => {
  const paths = ['a/b.ts', 'a/b.js', 'a/b.d.ts', 'c/b.js.map', 'bin/c.js', 'a/c.ts', 'a/d.d.ts'];
  expect(compiledFiles(paths)).toEqual(['a/b.js', 'a/b.d.ts', 'c/b.js.map']);
});
