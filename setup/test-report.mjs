/**
 * Prints the end of `npm test`: the time of its groups and slowest files, a warning above the budget, and the name of
 * each failure. As a vitest reporter, it records files and failures. It is plain JavaScript, because bootstrap.mjs
 * reads the record.
 */
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';

/** The variable that names the file which the reporter appends to. */
export const REPORT_FILE = 'VOIDBOX_TEST_REPORT_FILE';
/** The variable that names a folder which all groups of one `npm test` have, for what is too costly to make in each group. */
export const SHARED_FOLDER = 'VOIDBOX_TEST_SHARED_FOLDER';
/** The time limit of all groups on two cores, because CI waits for them before each change lands. */
export const BUDGET_MS = 30 * 60_000;
const SLOWEST_FILES = 10;
/** At the end of a group, its last files leave CPUs idle. With so many unfinished files, the next group may begin. */
export const LAST_FILES = 3;
const LOOK_MS = 200;
/** The names of more failures are above, in the output of their groups. */
export const MOST_FAILURES = 50;

/** @typedef {{ readonly name: string, readonly durationMs: number }} Took */
/** @typedef {{ readonly files: readonly Took[], readonly failures: readonly string[] }} Report */

/** @param {number} ms */
function seconds(ms) {
  return `${(ms / 1000).toFixed(1).padStart(7)} s`;
}

/** @param {readonly Took[]} groups some of which ran side by side @param {number} totalMs @param {readonly Took[]} files @param {number} [budgetMs] @returns {string[]} */
export function describeTimes(groups, totalMs, files, budgetMs = BUDGET_MS) {
  const slowest = [...files].sort((a, b) => b.durationMs - a.durationMs).slice(0, SLOWEST_FILES);
  const line = (/** @type {Took} */ { name, durationMs }) => `  ${seconds(durationMs)}  ${name}`;
  return [
    'time by group:',
    ...groups.map(line),
    line({ name: 'total', durationMs: totalMs }),
    ...(slowest.length === 0 ? [] : [`the ${slowest.length} slowest of ${files.length} files:`, ...slowest.map(line)]),
    ...(totalMs > budgetMs
      ? [
          `warning: the tests took ${(totalMs / 60_000).toFixed(1)} minutes; the budget is ${(budgetMs / 60_000).toFixed(1)}. Shorten the slowest files, or raise BUDGET_MS in setup/test-report.mjs and say why.`,
        ]
      : []),
  ];
}

/**
 * Returns the lines that name the failures; empty if everything passed.
 * @param {readonly { readonly group: string, readonly failures: readonly string[] }[]} failed each failed group
 */
export function describeFailures(failed) {
  const names = failed.flatMap(({ group, failures }) =>
    failures.length === 0 ? [`${group}: see its output above`] : failures.map((name) => `${group}: ${name}`),
  );
  const more = names.length - MOST_FAILURES;
  return [
    ...names.slice(0, MOST_FAILURES).map((name) => `  failed  ${name}`),
    ...(more > 0 ? [`  and ${more} more, named in the output above`] : []),
  ];
}

/**
 * Returns the names of failed tests and programs in the output of `cargo test`, each once.
 * @param {string} output
 */
export function parseCargoFailures(output) {
  const names = new Set();
  let isList = false;
  for (const line of stripVTControlCharacters(output).split('\n')) {
    const compile = /^error: could not compile `([^`]+)`/.exec(line);
    if (compile !== null) names.add(`${compile[1]} does not compile`);
    const ended = /^ {2}process didn't exit successfully: `([^` ]+)[^`]*` \((signal: .*)\)$/.exec(line);
    if (ended !== null) names.add(`${ended[1]} (${ended[2]})`);
    if (line === 'failures:') isList = true;
    else if (isList && /^ {4}\S+$/.test(line)) names.add(line.trim());
    else if (line !== '') isList = false;
  }
  return [...names];
}

/**
 * Reads the record of the reporter; empty if no group of vitest ended.
 * @param {string} path @returns {Report}
 */
export function readReport(path) {
  let text;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === 'ENOENT') return { files: [], failures: [] };
    throw error;
  }
  const lines = text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
  return {
    files: lines.filter(({ durationMs }) => durationMs !== undefined),
    failures: lines.flatMap(({ failure }) => (failure === undefined ? [] : [failure])),
  };
}

/** @typedef {{ code: number, failures?: readonly string[] }} Ended */

/**
 * Runs steps one after another, and continues after a failed one, but not after an interrupted one. The groups of a
 * step run in parallel.
 * @param {readonly (readonly string[])[]} steps
 * @param {(group: string, reportFile: string) => Promise<Ended>} run
 * @param {boolean} [overlaps] a step begins when each group of the previous one has ended, or runs its last files
 * @returns the lines about time, and each failed group
 */
export async function runAll(steps, run, overlaps = false) {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-test-report-'));
  const startedAtMs = performance.now();
  let isInterrupted = false;
  const start = async (/** @type {string} */ group) => {
    const beganAtMs = performance.now();
    const { code, failures = [] } = await run(group, join(folder, group));
    isInterrupted ||= code === INTERRUPTED;
    return { group, code, failures, durationMs: performance.now() - beganAtMs };
  };
  try {
    const running = [];
    for (const step of steps) {
      const begun = step.map((group) => ({ group, ended: start(group) }));
      running.push(...begun.map(({ ended }) => ended));
      // A later step may be awaited when it fails.
      for (const { ended } of begun) ended.catch(() => undefined);
      const wait = (/** @type {{ group: string, ended: Promise<unknown> }} */ { group, ended }) =>
        overlaps ? awaitLastFiles(join(folder, group), ended) : ended;
      await Promise.all(begun.map(wait));
      if (isInterrupted) break;
    }
    const ended = await Promise.all(running);
    const results = ended.map((result) => ({ ...result, report: readReport(join(folder, result.group)) }));
    const files = results.flatMap(({ report }) => report.files);
    const took = results.map(({ group, code, durationMs }) => ({
      name: code === 0 ? group : `${group} (failed)`,
      durationMs,
    }));
    const failed = results
      .filter(({ code }) => code !== 0)
      .map(({ group, failures, report }) => ({ group, failures: [...failures, ...report.failures] }));
    return { times: describeTimes(took, performance.now() - startedAtMs, files), failed, isInterrupted };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Waits until the group has ended, or its reporter has marked that only its last files run. @param {string} reportFile @param {Promise<unknown>} ended */
async function awaitLastFiles(reportFile, ended) {
  let hasEnded = false;
  const end = ended.finally(() => (hasEnded = true));
  end.catch(() => undefined);
  while (!hasEnded && !existsSync(markOf(reportFile))) await Promise.race([end, sleep(LOOK_MS)]);
}

/** @param {string} reportFile */
const markOf = (reportFile) => `${reportFile}.last-files`;

/** The exit code of a program that Ctrl-C ended. */
const INTERRUPTED = 130;

/** @typedef {{ collectDuration: number, setupDuration: number, duration: number }} Spent */
/**
 * @typedef {object} Module a test file, as vitest reports it
 * @property {string} moduleId
 * @property {() => Spent} diagnostic
 * @property {() => readonly unknown[]} errors of the file itself, such as a failed import
 * @property {{ allTests(state: 'failed'): Iterable<{ fullName: string }>, allSuites(): Iterable<{ fullName: string, errors(): readonly unknown[] }> }} children
 */

/** The time of a file includes its imports, which are most of it in many pure tests. */
export default class TestReport {
  #unfinished = 0;

  /** @param {readonly unknown[]} files */
  onTestRunStart(files) {
    this.#unfinished = files.length;
  }

  onTestModuleEnd() {
    this.#unfinished -= 1;
    const path = process.env[REPORT_FILE];
    if (path !== undefined && this.#unfinished === LAST_FILES) writeFileSync(markOf(path), '');
  }

  /** @param {readonly Module[]} modules @param {readonly unknown[]} unhandledErrors */
  onTestRunEnd(modules, unhandledErrors = []) {
    const path = process.env[REPORT_FILE];
    if (path === undefined) throw new Error(`${REPORT_FILE} names no file`);
    const put = (/** @type {object} */ line) => appendFileSync(path, `${JSON.stringify(line)}\n`);
    for (const module of modules) {
      const name = relative(process.cwd(), module.moduleId);
      const { collectDuration, setupDuration, duration } = module.diagnostic();
      put({ name, durationMs: collectDuration + setupDuration + duration });
      if (module.errors().length > 0) put({ failure: `${name} (the file itself)` });
      for (const suite of module.children.allSuites())
        if (suite.errors().length > 0) put({ failure: `${name} > ${suite.fullName} (its hooks)` });
      for (const test of module.children.allTests('failed')) put({ failure: `${name} > ${test.fullName}` });
    }
    if (unhandledErrors.length > 0) put({ failure: `unhandled errors (${unhandledErrors.length})` });
  }
}
