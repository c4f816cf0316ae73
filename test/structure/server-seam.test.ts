/**
 * The HTTP API decides nothing about runs: its routes call use-cases of `app/`. Its packages are loaded by its own
 * process only.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { importGraph, type ImportGraph, pathsOf } from './imports.ts';

const ROOT = findPackageRoot();
const ROUTES = /^server\/(?:routes|void-box)\//;
/** Use-cases, pure values, and the parts of the API itself. A route may name types of a port. */
const SEEN_BY_ROUTES = /^(?:server|app|domain)\/|^activities\/ports\//;
const PACKAGES = /from '(?:hono|@hono\/[\w-]+)(?:\/[\w-]+)*'|import\('(?:hono|@hono\/)/;

const paths = pathsOf(ROOT).filter((path) => /\.(?:ts|mjs|cjs)$/.test(path) && !path.startsWith('test/spec/'));
const sources = new Map(paths.map((path) => [path, readFileSync(join(ROOT, path), 'utf8')]));

function findLogic(graph: ImportGraph): readonly string[] {
  return [...graph].flatMap(([path, targets]) =>
    ROUTES.test(path) && !path.endsWith('.test.ts')
      ? targets.filter((target) => !SEEN_BY_ROUTES.test(target)).map((target) => `${path} imports ${target}`)
      : [],
  );
}

/** The stores and the server of the runs, which a route could reach through the machine without an import. */
const REACHES = /\.(?:stores|stackLink)\s*(?:\?\.)?\(|\{[^{}]*\b(?:stores|stackLink)\b[^{}]*\}\s*=\s*machine\b/;

function findReaches(texts: ReadonlyMap<string, string>): readonly string[] {
  return [...texts].flatMap(([path, text]) =>
    ROUTES.test(path) && !path.endsWith('.test.ts') && REACHES.test(text) ? [path] : [],
  );
}

test('routes of the API reach no store and no server through the machine', () => {
  expect(findReaches(sources)).toEqual([]);
});

test.each(['(await machine.stores()).index', 'machine.stackLink?.()', 'const { stores } = machine;'])(
  'a route that contains %s is found',
  (text) => {
    expect(findReaches(new Map([['server/routes/x.ts', text]]))).toEqual(['server/routes/x.ts']);
  },
);

test('routes of the API call use-cases, and neither stores nor the server of the runs', () => {
  const graph = importGraph(sources);
  expect(findLogic(graph)).toEqual([]);
  // Proves that the check reads the routes.
  expect(graph.get('server/routes/start.ts')).toContain('app/start/start-keyed.ts');
});

test.each(['client/runs/runs.ts', 'store/open-stores.ts', 'store/file/layout.ts', 'workflows/messages.ts'])(
  'a route that imports %s is found',
  (target) => {
    expect(findLogic(new Map([['server/routes/x.ts', [target]]]))).toEqual([`server/routes/x.ts imports ${target}`]);
  },
);

test('no file outside of server/ loads the packages of the API', () => {
  const found = [...sources].filter(
    ([path, text]) => !path.startsWith('server/') && !path.endsWith('.test.ts') && PACKAGES.test(text),
  );
  expect(found.map(([path]) => path)).toEqual([]);
  expect(PACKAGES.test(sources.get('server/api.ts')!)).toBe(true);
  expect(PACKAGES.test("const { Hono } = await import('hono');")).toBe(true);
});
