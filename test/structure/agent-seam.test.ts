/** Every kind of agent uses `activities/agent/shared/`, so its files need no command line and no VM. */
import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { importGraph, type ImportGraph, pathsOf } from './imports.ts';

const ROOT = findPackageRoot();
const SHARED = 'activities/agent/shared';
/** The command line of an agent: how it is called, started, followed and saved. */
const COMMAND_LINE = /^(?:activities\/(?:agent\/[^/]+\.ts|ports\/sandbox\.ts|vm\/)|sandbox\/|native\/)/;
/** How a provider's command line is called and read; these two describe what any agent says. */
const PROVIDERS = /^agents\/(?!(?:stream|fields)\.ts$)/;

function findNeeds(graph: ImportGraph): readonly string[] {
  return [...graph].flatMap(([path, targets]) =>
    posix.dirname(path) !== SHARED || path.endsWith('.test.ts')
      ? []
      : targets
          .filter((target) => COMMAND_LINE.test(target) || PROVIDERS.test(target))
          .map((target) => `${path} imports ${target}`),
  );
}

test('the shared parts of agents import no command line and no VM', () => {
  const paths = pathsOf(ROOT).filter((path) => /^(?:activities|agents|domain|sandbox|native)\/.*\.ts$/.test(path));
  const graph = importGraph(new Map(paths.map((path) => [path, readFileSync(join(ROOT, path), 'utf8')])));
  // Proves that the graph has the imports that the rule is about.
  expect(graph.get(`${SHARED}/ledger.ts`)).toContain('domain/agent/limits.ts');
  expect(findNeeds(graph)).toEqual([]);
});

test.each([
  ['activities/agent/turn.ts'],
  ['activities/ports/sandbox.ts'],
  ['activities/vm/pool.ts'],
  ['agents/registry.ts'],
])('an import of %s is found', (target) => {
  expect(findNeeds(new Map([[`${SHARED}/meter.ts`, [target, 'agents/stream.ts', `${SHARED}/ledger.ts`]]]))).toEqual([
    `${SHARED}/meter.ts imports ${target}`,
  ]);
});
