/**
 * Checks the content of the workflow bundle: every cached workflow pays for its size, and some modules break workflows.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { builtinModules } from 'node:module';
import { relative } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { findPackageRoot } from '../setup/package-root.ts';
import { bundleWorkflows } from './bundle.ts';

/** The size of the code without its source map. A commit that raises it says why. */
const RECORDED_BYTES = JSON.parse(readFileSync(new URL('bundle-size.json', import.meta.url), 'utf8')) as {
  readonly codeBytes: number;
};

let code: string;
let sources: readonly string[];

beforeAll(async () => {
  const bundle = await bundleWorkflows(fileURLToPath(new URL('../workflows/index.ts', import.meta.url)));
  const [text = '', map = ''] = bundle.split(/\/\/# sourceMappingURL=data:[^,]*,/);
  code = text;
  ({ sources } = JSON.parse(Buffer.from(map, 'base64').toString('utf8')) as { readonly sources: readonly string[] });
}, 300_000);

test('the bundle has our workflow code, and no library that validates, parses or stores', () => {
  expect(sources.some((source) => source.includes('workflows/run/run.ts'))).toBe(true);
  expect(sources.some((source) => source.includes('domain/pipeline/machine.ts'))).toBe(true);
  const libraries = new Set(sources.flatMap((source) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(source)?.[1] ?? []));
  const unwanted = [...libraries].filter((name) =>
    /^(zod|yaml|pg|pino|commander|protobufjs|re2js|@marcbachmann\/cel-js|@temporalio\/(client|worker|activity|testing))$/.test(
      name,
    ),
  );
  expect(unwanted).toEqual([]);
  expect(
    sources.filter((source) =>
      /domain\/spec\/|\/activities\/(?!contract)|\/store\/|\/sandbox\/|\/workers\//.test(source),
    ),
  ).toEqual([]);
});

test('the bundle imports no module of Node', () => {
  const asked = [...code.matchAll(/\brequire\(["']([^"']+)["']\)/g)].map((match) => match[1] ?? '');
  const ofNode = asked.filter((name) => name.startsWith('node:') || builtinModules.includes(name));
  // The SDK provides these two inside the sandbox.
  expect(
    ofNode.filter(
      (name) => name !== 'node:assert' && name !== 'assert' && name !== 'node:async_hooks' && name !== 'async_hooks',
    ),
  ).toEqual([]);
});

test('the modules of workflows are loaded once for all runs of a thread', () => {
  const [, preloaded] = /^exports\.preloadModules = function preloadModules\(\) \{\n(.*)\n\}$/m.exec(code)!;
  expect(preloaded).toMatch(/^ *__webpack_require__\(.*"\.\/workflows\/index\.ts"\);$/);
});

/** Statements of a module that keep a value which a run could change; readonly sets and patterns are constants. */
const STATE =
  /^(?:export )?(?:(?:let|var) .*|const \w+\b(?!: Readonly(?:Set|Map))[^=]*= (?:new (?!RegExp\().*|\[\];|\{\};))$/gm;

test('no module of workflows has state of its own, because all runs of a thread share it', () => {
  const root = findPackageRoot();
  const own = sources.filter((source) => source.startsWith(root) && !source.includes('node_modules'));
  const paths = own.filter((source) => source.endsWith('.ts'));
  expect(paths.length).toBeGreaterThan(100);
  const found = paths.flatMap((path) =>
    [...readFileSync(path, 'utf8').matchAll(STATE)].map(([line]) => `${relative(root, path)}: ${line}`),
  );
  expect(found.sort()).toEqual([
    // Each value is calculated from the object that is its key.
    'domain/pipeline/item-plan.ts: const plans = new WeakMap<MachineStage, MachinePlan>();',
    'domain/pipeline/plan-index.ts: const cache = new WeakMap<MachinePlan, PlanIndex>();',
    'domain/step-machine/facts.ts: const known = new WeakMap<SkillDefinition, Map<string | null, SkillFacts>>();',
  ]);
  const examples = [
    'let count = 0;',
    'const seen = new Set<string>();',
    'export const log: Log = new Log();',
    'const all: A[] = [];',
  ];
  expect(examples.filter((line) => [...line.matchAll(STATE)].length === 0)).toEqual([]);
});

test('the bundle is at most a tenth larger than its recorded size', () => {
  expect(code.length).toBeLessThan(RECORDED_BYTES.codeBytes * 1.1);
  // A record that is far too large would let growth pass.
  expect(code.length).toBeGreaterThan(RECORDED_BYTES.codeBytes * 0.8);
});
