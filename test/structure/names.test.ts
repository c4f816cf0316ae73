/** Names of files and exports are words that a reader of Temporal and TypeScript knows without this project. */
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { pathsOf } from './imports.ts';

const ROOT = findPackageRoot();

/** Parts of a name that are refused at any place in it. */
const PARTS = /(?:^|-)(?:mend|mends|mended|anew|whoever|kept)(?:-|$)/;
/** Whole names, as files write them. */
const NAMES = new Set([
  'carry-out',
  'carrying-out',
  'hear',
  'admitted',
  'hosts',
  'hosted',
  'of-this-host',
  'cli-result',
]);

/** A published alias of `SessionResult`. */
const ALIASES = new Set(['skill-kit/exports.ts: CliResult']);

function refusedNames(path: string, source: string): readonly string[] {
  const declared = /^export (?:async )?(?:function\*?|const|class|interface|type) (\w+)/gm;
  const renamed = /\bas (\w+)(?=,|\s*\})/g;
  const file = basename(path).replace(/\..*$/, '');
  const names = [
    file,
    ...[declared, renamed].flatMap((pattern) => [...source.matchAll(pattern)].map(([, name]) => name!)),
  ];
  return [...new Set(names)]
    .filter((name) => isRefused(name.replace(/(?<=[a-z0-9])(?=[A-Z])/g, '-').toLowerCase()))
    .map((name) => `${path}: ${name}`);
}

function isRefused(name: string): boolean {
  return NAMES.has(name) || PARTS.test(name);
}

test('names of files and of what they export', () => {
  const sources = pathsOf(ROOT).filter((path) => path.endsWith('.ts') && !path.startsWith('test/'));
  expect(sources.length).toBeGreaterThan(400);
  const found = sources.flatMap((path) => refusedNames(path, readFileSync(join(ROOT, path), 'utf8')));
  expect(found.filter((name) => !ALIASES.has(name))).toEqual([]);
  expect(found).toEqual([...ALIASES]);
});

test.each([
  ['cli/mend-runs.ts', '', 'cli/mend-runs.ts: mend-runs'],
  ['workers/of-this-host.ts', '', 'workers/of-this-host.ts: of-this-host'],
  ['workers/kept-child.test.ts', '', 'workers/kept-child.test.ts: kept-child'],
  ['a.ts', 'export async function carryOut() {}', 'a.ts: carryOut'],
  ['a.ts', 'export const hear = 1;', 'a.ts: hear'],
  ['a.ts', 'export type MendedRun = 1;', 'a.ts: MendedRun'],
  ['a.ts', 'export { b as hosted } from "./b.ts";', 'a.ts: hosted'],
])('a name is found: %s %s', (path, source, found) => {
  expect(refusedNames(path, source)).toEqual([found]);
});

test('a name of which a refused one is only a part of a word is not', () => {
  expect(refusedNames('prompt/agent-hosts.ts', 'export type AdmittedRun = 1; export const amended = heard;')).toEqual(
    [],
  );
});
