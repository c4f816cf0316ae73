/**
 * Tests wait for an event or a condition, because a time that orders two processes fails on a loaded machine. The list below
 * counts the remaining sleeps of 200 ms or more. Each of them passes on a slower machine, too.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { pathsOf } from './imports.ts';

const ROOT = findPackageRoot();

/** A statement that only sleeps. Polls sleep within the head of their loop, or for less. */
const SLEEP =
  /^\s*await (?:(?:sleep|pause|delay)\((.*)\)|new Promise(?:<void>)?\(\(resolve\) => setTimeout\(resolve, (.*)\)\));$/gm;
const LEAST_MS = 200;

const ABSENCE = 'The test expects that nothing happens in this time.';
const AWAY = 'A process is away for this time. A longer absence has the same result.';
const OVERLAP = 'Another action falls into this time. Without it the test passes, but checks less.';
const CLOCK = 'The product compares times that are at least this far apart.';

const ALLOWED: Readonly<Record<string, readonly [count: number, reason: string]>> = {
  'activities/vm/network-log.test.ts': [1, ABSENCE],
  'activities/vm/mounts.test.ts': [1, OVERLAP],
  'app/deliveries/pump.test.ts': [1, OVERLAP],
  'app/secrets/secret-keys.test.ts': [1, CLOCK],
  'test/cli/run.server.test.ts': [1, ABSENCE],
  'native/keeper-client.process.test.ts': [1, ABSENCE],
  'setup/pieces/agent-clis.process.test.ts': [1, ABSENCE],
  'setup/cache/damage.process.test.ts': [1, OVERLAP],
  'sandbox/checkpoints/killed-saves.process.test.ts': [1, OVERLAP],
  'sandbox/checkpoints/merge-chain.vm.test.ts': [1, OVERLAP],
  'sandbox/pool.vm.test.ts': [1, OVERLAP],
  'sandbox/guest-clock.vm.test.ts': [2, AWAY],
  'test/conformance/sandbox/attachment.ts': [2, AWAY],
  'test/conformance/sandbox/commands.ts': [4, OVERLAP],
  'test/e2e/deployments.vm.test.ts': [1, OVERLAP],
  'test/e2e/disk-full-events.server.test.ts': [1, OVERLAP],
  'test/e2e/disk-full.vm.test.ts': [1, ABSENCE],
  'test/e2e/logins.agents.test.ts': [1, CLOCK],
  'test/e2e/retained-vm.vm.test.ts': [1, ABSENCE],
  'test/e2e/services.agents.test.ts': [1, ABSENCE],
  'test/e2e/stack-death.vm.test.ts': [1, AWAY],
  'test/skills/every-transport.server.test.ts': [1, 'A poll.'],
  'test/runs/approvals.server.test.ts': [1, AWAY],
  'test/runs/conditions.server.test.ts': [1, OVERLAP],
  'workers/embedded/control-server.process.test.ts': [1, ABSENCE],
  'workers/embedded/idle-watch.server.test.ts': [3, ABSENCE],
  'workers/embedded/schedules.server.test.ts': [1, AWAY],
  'workers/embedded/web-pages.server.test.ts': [1, ABSENCE],
  'test/runs/finally.server.test.ts': [1, CLOCK],
  'test/runs/run.server.test.ts': [1, ABSENCE],
  'workers/skills/session-actions.server.test.ts': [2, `${ABSENCE} The other is an action that exceeds its limit.`],
  'workers/skills/session-attacker.server.test.ts': [1, ABSENCE],
  'workers/skills/session-death.server.test.ts': [1, CLOCK],
  'workers/skills/session.server.test.ts': [5, CLOCK],
};

function countSleeps(source: string): number {
  return [...source.matchAll(SLEEP)].filter(([, slept, waited]) => isLong((slept ?? waited)!)).length;
}

/** A name or a calculation counts as long. A simulated program has a signal that ends its sleep. */
function isLong(time: string): boolean {
  if (time.includes('signal')) return false;
  const ms = Number(time.replaceAll('_', ''));
  return Number.isNaN(ms) || ms >= LEAST_MS;
}

test('no test sleeps for a time in which it expects another process to act', () => {
  const counts = pathsOf(ROOT)
    .filter((path) => path.endsWith('.test.ts') || path.startsWith('test/conformance/'))
    .map((path) => [path, countSleeps(readFileSync(join(ROOT, path), 'utf8'))] as const)
    .filter(([, count]) => count > 0);
  const allowed = Object.entries(ALLOWED).map(([path, [count]]) => [path, count]);
  expect(Object.fromEntries(counts)).toEqual(Object.fromEntries(allowed));
});

test('a sleep is found in both forms and by a name of its time, and a short one, a program or a poll is not', () => {
  const found =
    '  await sleep(2_000);\nawait new Promise((resolve) => setTimeout(resolve, 300));\nawait sleep(LONG_MS);\nawait pause(endMs - 5);\n';
  const other =
    'await sleep(20);\nwhile (!isReady) await sleep(500);\nawait sleep(600_000, undefined, { signal: killed });\n';
  expect(countSleeps(`${found}${other}`)).toBe(4);
});

/** `expect.poll` has the limit of vitest.config.ts; these have a second by default. */
const WAIT = /\bvi\.wait(?:For|Until)\(/g;
const LEAST_WAIT_MS = 20_000;

/** Returns the waits that give up before a loaded machine has done the work. */
function findShortWaits(path: string, source: string): readonly string[] {
  const named = readTimeMs(/^const WAIT = \{(.*)\}/m.exec(source)?.[1]);
  return [...source.matchAll(WAIT)].flatMap(({ index }) => {
    const call = readCall(source, source.indexOf('(', index));
    const limitMs = /,\s*WAIT,?\s*\)$/.test(call) ? named : readTimeMs(call);
    return limitMs < LEAST_WAIT_MS ? [`${path}: ${call.slice(0, 80)} waits ${limitMs} ms`] : [];
  });
}

function readTimeMs(options = ''): number {
  return Number((/\btimeout: ([\d_]+)/.exec(options)?.[1] ?? '1000').replaceAll('_', ''));
}

/** Returns the source from a parenthesis to the one that closes it. */
function readCall(source: string, open: number): string {
  let depth = 0;
  for (let at = open; at < source.length; at += 1) {
    depth += source[at] === '(' ? 1 : source[at] === ')' ? -1 : 0;
    if (depth === 0) return source.slice(open, at + 1);
  }
  return source.slice(open);
}

test('no wait of a test ends within 20 s, because a loaded machine does nothing for seconds', () => {
  const paths = pathsOf(ROOT).filter((path) => path.endsWith('.ts') && path !== 'test/structure/sleeps.test.ts');
  expect(paths.flatMap((path) => findShortWaits(path, readFileSync(join(ROOT, path), 'utf8')))).toEqual([]);
});

test.each([
  'await vi.waitFor(() => expect(seen).toHaveLength(2));',
  'await vi.waitFor(() => expect(seen()).toBe(1), { timeout: 5_000 });',
  'const WAIT = { timeout: 5_000 };\nawait vi.waitFor(() => expect(seen()).toBe(1), WAIT);',
  'await vi.waitUntil(() => seen.length > 0);',
])('a short wait is found: %s', (source) => {
  expect(findShortWaits('a.test.ts', source)).toHaveLength(1);
});

test('a wait of 20 s is long enough', () => {
  const source = 'await vi.waitFor(() => expect(seen()).toBe(1), { timeout: 20_000, interval: 20 });';
  expect(findShortWaits('a.test.ts', source)).toEqual([]);
});

/** The limit of all groups but that of VMs. A loaded machine needs it, so files only raise it. */
const LEAST_LIMIT_MS = 120_000;

function findLowerLimits(path: string, source: string): readonly string[] {
  return [...source.matchAll(/\bvi\.setConfig\(\{ (?:test|hook)Timeout: ([\d_]+)/g)].flatMap(([call, ms]) =>
    Number(ms!.replaceAll('_', '')) < LEAST_LIMIT_MS ? [`${path}: ${call}`] : [],
  );
}

test('no file gives its tests less time than its group does', () => {
  const paths = pathsOf(ROOT).filter((path) => path.endsWith('.test.ts') && path !== 'test/structure/sleeps.test.ts');
  expect(paths.flatMap((path) => findLowerLimits(path, readFileSync(join(ROOT, path), 'utf8')))).toEqual([]);
});

test('a lower limit is found, and a higher one is not', () => {
  expect(findLowerLimits('a.test.ts', 'vi.setConfig({ testTimeout: 60_000 });')).toHaveLength(1);
  expect(findLowerLimits('a.test.ts', 'vi.setConfig({ testTimeout: 180_000 });')).toEqual([]);
});
