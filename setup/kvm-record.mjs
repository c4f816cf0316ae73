/**
 * The record of the last passing run of `npm run test:kvm`, in docs/reference/vmm.md: date, hash of the sources, result.
 * `npm test` warns if the sources have changed since then, and `npm run check:release` fails. It is plain JavaScript,
 * because bootstrap.mjs uses it.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The page with the record. */
export const RECORD_PAGE = 'docs/reference/vmm.md';
/** A file in `SHARED_FOLDER` of test-report.mjs. Each file of tests on KVM appends a line of JSON to it, a `KvmRun`. */
export const KVM_RUN_FILE = 'kvm-runs.jsonl';
/** The variable with a regular expression: only rows on KVM whose names match it run. Such a run writes no record. */
export const KVM_ROWS = 'VOIDBOX_TEST_ROWS';
/**
 * The sources whose change makes the record old: the native VMM, its jail, the server of its folders, and the keeper's
 * code for VMMs. The guest's agent is not one of them, because each `npm test` runs it, also on `voidbox-vmm`.
 */
export const KVM_SOURCES = [
  'Cargo.lock',
  'Cargo.toml',
  'native/folders',
  'native/jail',
  'native/keeper/Cargo.toml',
  'native/keeper/src/vmm',
  'native/vmm',
];
/** Folders in a crate that are no part of its programs. */
const NOT_SOURCES = new Set(['benches', 'examples', 'fuzz', 'target', 'tests']);

const BEGIN = '<!-- the last run of npm run test:kvm -->';
const END = '<!-- end of the last run -->';

/** @typedef {{ readonly place: string, readonly passed: number, readonly retries: number }} KvmRun what ran, where, and how often a lab started again */
/** @typedef {KvmRun & { readonly date: string, readonly hash: string, readonly tookMs: number }} KvmRecord */

/** @param {string} root @param {string} path @returns {string[]} the files at the path, in a fixed order */
function listFiles(root, path) {
  const absolute = join(root, path);
  if (!existsSync(absolute)) return [];
  if (!statSync(absolute).isDirectory()) return [path];
  return readdirSync(absolute)
    .filter((name) => !name.startsWith('.') && !NOT_SOURCES.has(name))
    .sort()
    .flatMap((name) => listFiles(root, `${path}/${name}`));
}

/**
 * Returns the SHA-256 of the sources as 64 hexadecimal digits. Names and contents count, times and modes do not.
 * @param {string} root of the checkout
 */
export function hashKvmSources(root) {
  const hash = createHash('sha256');
  for (const path of KVM_SOURCES.flatMap((source) => listFiles(root, source))) {
    const content = readFileSync(join(root, path));
    hash.update(`${path}\n${content.length}\n`).update(content);
  }
  return hash.digest('hex');
}

/**
 * Writes the record of a run in which every test passed.
 * @param {string} root @param {KvmRecord} record @throws Error if the page has no place for it
 */
export function writeKvmRecord(root, { date, hash, place, passed, retries, tookMs }) {
  const path = join(root, RECORD_PAGE);
  const text = readFileSync(path, 'utf8');
  const begin = text.indexOf(BEGIN);
  const end = text.indexOf(END);
  if (begin === -1 || end < begin) throw new Error(`${RECORD_PAGE} has no lines "${BEGIN}" and "${END}"`);
  const again = retries === 0 ? 'without a retry' : `with ${retries} ${retries === 1 ? 'retry' : 'retries'}`;
  const minutes = (tookMs / 60_000).toFixed(1);
  const lines = [
    BEGIN,
    '',
    '| date | SHA-256 of the sources | KVM | result |',
    '|---|---|---|---|',
    `| ${date} | \`${hash}\` | ${place} | all ${passed} rows passed in ${minutes} minutes, ${again} |`,
    '',
    '',
  ];
  writeFileSync(path, text.slice(0, begin) + lines.join('\n') + text.slice(end));
}

/** Returns the sum of what files of tests appended to `KVM_RUN_FILE`. @param {string} lines @returns {KvmRun} */
export function sumKvmRuns(lines) {
  const runs = lines
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => /** @type {KvmRun} */ (JSON.parse(line)));
  return {
    place: [...new Set(runs.map(({ place }) => place))].join(', '),
    passed: runs.reduce((sum, { passed }) => sum + passed, 0),
    retries: runs.reduce((sum, { retries }) => sum + retries, 0),
  };
}

/** @param {string} root @returns {{ readonly date: string, readonly hash: string } | null} */
export function readKvmRecord(root) {
  const path = join(root, RECORD_PAGE);
  if (!existsSync(path)) return null;
  const text = readFileSync(path, 'utf8');
  const begin = text.indexOf(BEGIN);
  if (begin === -1) return null;
  const row = /^\| (\d{4}-\d{2}-\d{2}) \| `([0-9a-f]{64})` \|/m.exec(text.slice(begin, text.indexOf(END, begin)));
  return row === null ? null : { date: row[1] ?? '', hash: row[2] ?? '' };
}

/**
 * Returns why the record does not vouch for the sources; null if it does.
 * @param {string} root
 */
export function describeOldRecord(root) {
  const record = readKvmRecord(root);
  const remedy = 'Run `npm run test:kvm`, and commit the record that it writes.';
  if (record === null) return `${RECORD_PAGE} has no record of a run of \`npm run test:kvm\`. ${remedy}`;
  if (record.hash === hashKvmSources(root)) return null;
  return `${KVM_SOURCES.join(', ')}: these sources have changed since the last passing run of \`npm run test:kvm\` on ${record.date} (${RECORD_PAGE}). ${remedy}`;
}
