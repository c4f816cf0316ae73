/**
 * `cargo test` builds a program more for the tests in each `main.rs`, and starts `rustdoc` for the examples in the comments of
 * each library. Some manifests turn them off, so these tests find a test that would not run.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { pathsOf } from './imports.ts';

const ROOT = findPackageRoot();
const PATHS = pathsOf(ROOT).filter((path) => /^(?:native|guest)\//.test(path));
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

/** The lines that begin an example which `rustdoc` would run. */
function examplesIn(source: string): readonly number[] {
  let isOpen = false;
  return source.split('\n').flatMap((line, index) => {
    const fence = /^\s*\/\/[/!]\s*```(.*)$/.exec(line);
    if (fence === null) return [];
    isOpen = !isOpen;
    return isOpen && !/^(?:text|ignore)\b/.test(fence[1]!) ? [index + 1] : [];
  });
}

test('an example in a comment is found by the line that begins it', () => {
  expect(examplesIn('/// ```text\n/// a\n/// ```\n\n    //! ```\n//! b\n//! ```\n// ```\n/// ```rust\n')).toEqual([
    5, 9,
  ]);
});

const MANIFESTS = PATHS.filter((path) => /^[^/]+\/[^/]+\/Cargo.toml$/.test(path));
const manifestsWith = (pattern: RegExp): readonly string[] => MANIFESTS.filter((path) => pattern.test(read(path)));

test('a library whose manifest has `doctest = false` has no example in a comment', () => {
  const crates = manifestsWith(/^doctest = false$/m).map((path) => `${dirname(path)}/`);
  expect(crates.length).toBeGreaterThan(2);
  const sources = PATHS.filter((path) => path.endsWith('.rs') && crates.some((crate) => path.startsWith(crate)));
  expect(sources.length).toBeGreaterThan(100);
  expect(sources.flatMap((path) => examplesIn(read(path)).map((line) => `${path}:${line}`))).toEqual([]);
});

test('a program whose manifest has `test = false` contains no test and no module', () => {
  const programs = manifestsWith(/\[\[bin\]\][^[]*\ntest = false$/m);
  expect(programs.length).toBeGreaterThan(2);
  const mains = programs.map((path) => `${dirname(path)}/src/main.rs`);
  expect(mains.filter((path) => /#\[(?:tokio::)?test\]|^\s*(?:pub )?mod /m.test(read(path)))).toEqual([]);
});
