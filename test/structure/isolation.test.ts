/**
 * The test files of a group share processes, and the modules that are loaded in them: a state that one file leaves changes
 * the next. So each of them restores what it changes, or has a process of its own: a pure one as an `.isolated.test.ts`,
 * another one as an entry of `OWN_PROCESS` in vitest.config.ts.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { OWN_PROCESS } from '../../vitest.config.ts';
import { pathsOf } from './imports.ts';

const ROOT = findPackageRoot();

const SHARING = /(?<!\.(?:isolated|agents|clock|kvm))\.test\.ts$/;
const TEST = /\.test\.ts$/;

const REFUSED: readonly (readonly [form: RegExp, reason: string])[] = [
  [/\bvi\.(?:mock|doMock|hoisted|resetModules)\(/g, 'a mock has no effect on a module that another file has loaded'],
  [/\bvi\.stubGlobal\(|\bglobalThis(?:\.\w+|\[[^\]]+\]) = /g, 'a global outlives the file'],
  [
    /\bprocess\.env(?:\.\w+|\[[^\]]+\]) = |\bdelete process\.env\b/g,
    'vi.stubEnv changes variables, and can restore them',
  ],
  [
    /\bprocess\.(?:chdir|umask|setMaxListeners)\(|\bprocess\.(?:exitCode|title|argv) = /g,
    'the process outlives the file',
  ],
  [/\bprocess\.(?:on|once|addListener|prependListener)\(/g, 'a listener outlives the file'],
  [/\b(?:Object|Array|Map|Set|String)\.prototype(?:\.\w+|\[[^\]]+\]) = /g, 'a prototype outlives the file'],
  [/\bRuntime\.install\(/g, 'a process has one runtime of the Temporal SDK'],
  [/\bprocess\.(?:memoryUsage|resourceUsage)\(/g, 'the figures include those of other files'],
];

/** A test restores these, also if it fails. The first connection of a process installs a runtime, unless a stack of tests does it before. */
const RESTORED: readonly (readonly [change: RegExp, restore: RegExp])[] = [
  [/\bvi\.useFakeTimers\(/g, /\b(?:afterEach|onTestFinished)\([^;]*?\bvi\.useRealTimers\(/s],
  [/\bNativeConnection\.connect\(/g, /\b(?:useTestRuns|startTestStack)\(/],
  [/\bvi\.stubEnv\(/g, /\b(?:afterEach|onTestFinished)\([^;]*?\bvi\.unstubAllEnvs\(/s],
];

/** A module is loaded once for all files, so its hooks and tests belong only to the first file that imports it. */
const REGISTRATION = /^(?:(?:before|after)(?:Each|All)|onTestFinished|describe|test|it)(?:\.\w+)*\(/gm;

function refusedIn(path: string, source: string): readonly string[] {
  if (SHARING.test(path)) {
    const refused = REFUSED.flatMap(([form, reason]) =>
      [...source.matchAll(form)].map(([found]) => `${path}: ${found}: ${reason}`),
    );
    const left = RESTORED.filter(([, restore]) => !restore.test(source)).flatMap(([change]) =>
      [...source.matchAll(change)].map(([found]) => `${path}: ${found}: nothing restores it`),
    );
    return [...refused, ...left];
  }
  if (TEST.test(path)) return [];
  return [...source.matchAll(REGISTRATION)].map(
    ([found]) => `${path}: ${found}: only the first file that imports it has it`,
  );
}

const readRefused = (path: string): readonly string[] => refusedIn(path, readFileSync(join(ROOT, path), 'utf8'));

test('no file leaves a state to the next file of its process', () => {
  const sources = pathsOf(ROOT).filter(
    (path) => path.endsWith('.ts') && path !== 'test/structure/isolation.test.ts' && !OWN_PROCESS.includes(path),
  );
  expect(sources.filter((path) => SHARING.test(path)).length).toBeGreaterThan(700);
  expect(sources.flatMap(readRefused)).toEqual([]);
});

test('a file has a process of its own only if it leaves a state', () => {
  expect(OWN_PROCESS.filter((path) => readRefused(path).length === 0)).toEqual([]);
});

test.each([
  ['a.test.ts', "vi.mock('node:fs');"],
  ['a.test.ts', 'const seen = vi.hoisted(() => 1);'],
  ['a.test.ts', "process.env['HOME'] = dir;"],
  ['a.test.ts', 'delete process.env.HOME;'],
  ['a.test.ts', 'process.chdir(dir);'],
  ['a.test.ts', 'process.exitCode = 0;'],
  ['a.test.ts', "process.on('exit', end);"],
  ['a.test.ts', 'Object.prototype.odd = 1;'],
  ['a.test.ts', 'globalThis.fetch = fake;'],
  ['a.test.ts', 'const { heapUsed } = process.memoryUsage();'],
  ['a.test.ts', 'Runtime.install({ logger });'],
  ['a.test.ts', 'vi.useFakeTimers();'],
  ['a.test.ts', 'vi.useFakeTimers();\nvi.useRealTimers();'],
  ['a.test.ts', "afterEach(() => clean());\nvi.stubEnv('HOME', dir);\nvi.unstubAllEnvs();"],
  ['a.process.test.ts', 'process.chdir(dir);'],
  ['a.vm.test.ts', 'process.umask(0o22);'],
  ['test/runs/a.server.test.ts', 'const own = await NativeConnection.connect({ address });'],
  ['test/rig/a.ts', 'afterEach(() => void warnings.splice(0));'],
  ['test/rig/a.ts', 'describe.each([1])(name, run);'],
])('what is left to other files is found: %s %s', (path, source) => {
  expect(refusedIn(path, source)).toHaveLength(1);
});

test.each([
  ['a.isolated.test.ts', "vi.mock('node:fs');"],
  ['a.agents.test.ts', 'process.umask(0o22);'],
  ['a.test.ts', 'beforeEach(() => void vi.useFakeTimers());\nafterEach(() => void vi.useRealTimers());'],
  ['a.test.ts', "vi.stubEnv('HOME', dir);\nonTestFinished(() => void vi.unstubAllEnvs());"],
  ['test/rig/a.ts', 'export function useServer() {\n  afterEach(stop);\n}'],
])('what is restored is allowed: %s %s', (path, source) => {
  expect(refusedIn(path, source)).toEqual([]);
});
