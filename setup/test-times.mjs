/**
 * Where the time of `npm test` goes: what its groups and its slowest files took, and a warning above the budget.
 * As a vitest reporter, writes down what each file took; plain JavaScript, because bootstrap.mjs reads it.
 */
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';

/** The variable that names the file which the reporter appends to. */
export const TIMES_FILE = 'VOIDBOX_TEST_TIMES_FILE';
/** What all groups may take on two cores: CI waits for them before each change lands. */
export const BUDGET_MS = 35 * 60_000;
const SLOWEST_FILES = 10;

/** @typedef {{ readonly name: string, readonly durationMs: number }} Took */

/** @param {number} ms */
function seconds(ms) {
  return `${(ms / 1000).toFixed(1).padStart(7)} s`;
}

/** @param {readonly Took[]} groups @param {readonly Took[]} files @param {number} [budgetMs] @returns {string[]} */
export function describeTimes(groups, files, budgetMs = BUDGET_MS) {
  const totalMs = groups.reduce((sum, { durationMs }) => sum + durationMs, 0);
  const slowest = [...files].sort((a, b) => b.durationMs - a.durationMs).slice(0, SLOWEST_FILES);
  const line = (/** @type {Took} */ { name, durationMs }) => `  ${seconds(durationMs)}  ${name}`;
  return [
    'time by group:',
    ...groups.map(line),
    line({ name: 'total', durationMs: totalMs }),
    ...(slowest.length === 0 ? [] : [`the ${slowest.length} slowest of ${files.length} files:`, ...slowest.map(line)]),
    ...(totalMs > budgetMs
      ? [
          `warning: the tests took ${(totalMs / 60_000).toFixed(1)} minutes; the budget is ${(budgetMs / 60_000).toFixed(1)}. Shorten the slowest files, or raise BUDGET_MS in setup/test-times.mjs and say why.`,
        ]
      : []),
  ];
}

/**
 * What the reporter wrote, nothing where no group of vitest came to its end.
 * @param {string} path @returns {Took[]}
 */
export function readTimes(path) {
  let text;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === 'ENOENT') return [];
    throw error;
  }
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
}

/**
 * Runs groups one after another, as long as they say to go on, and gives the lines that say what they took.
 * @param {readonly string[]} groups
 * @param {(group: string, index: number, timesFile: string) => Promise<{ passed: boolean, goOn: boolean }>} run
 */
export async function timed(groups, run) {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-test-times-'));
  const timesFile = join(folder, 'files');
  const took = [];
  try {
    for (const [index, group] of groups.entries()) {
      const beganAtMs = performance.now();
      const { passed, goOn } = await run(group, index, timesFile);
      took.push({ name: passed ? group : `${group} (failed)`, durationMs: performance.now() - beganAtMs });
      if (!goOn) break;
    }
    return describeTimes(took, readTimes(timesFile));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** @typedef {{ collectDuration: number, setupDuration: number, duration: number }} Spent */

/** A file's time is that of its imports too, which is most of it in many pure tests. */
export default class TestTimes {
  /** @param {readonly { moduleId: string, diagnostic(): Spent }[]} modules */
  onTestRunEnd(modules) {
    const path = process.env[TIMES_FILE];
    if (path === undefined) throw new Error(`${TIMES_FILE} names no file`);
    for (const module of modules) {
      const { collectDuration, setupDuration, duration } = module.diagnostic();
      const took = {
        name: relative(process.cwd(), module.moduleId),
        durationMs: collectDuration + setupDuration + duration,
      };
      appendFileSync(path, `${JSON.stringify(took)}\n`);
    }
  }
}
