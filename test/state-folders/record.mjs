#!/usr/bin/env node
/**
 * Records a small state folder with the built command line of this checkout: `npm run build`, then
 * `node test/state-folders/record.mjs FORMAT`. A format is recorded once, by the build that introduces it, so that later
 * builds are tested with files that they did not write.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const [format] = process.argv.slice(2);
if (!/^[1-9]\d*$/.test(format ?? '')) throw new Error('usage: record.mjs FORMAT');
const here = dirname(fileURLToPath(import.meta.url));
const into = join(here, `format-${format}`);
mkdirSync(into);

/** Without the stack's own files, which name ports and the server's database. */
const KEPT = ['artifacts', 'host-id', 'runs', 'state-format'];
const ASK = '{ message: "Go on?", fields: [{ name: count, type: number }] }';
const HEAD = 'api_version: v1\nkind: workflow\nsandbox: { mode: mock, isolation: none }\n';
const MANY = `${HEAD}name: many
params: { rows: { type: number, default: 2 } }
workflow:
  output_step: report
  steps:
    - { name: load, run: { program: echo, args: ["rows \${{ params.rows }}"] } }
    - { name: each, for_each: [a, b], run: { program: echo, args: [item] } }
    - { name: ask, depends_on: [load], approval: ${ASK} }
    - { name: report, depends_on: [ask, each], run: { program: cat, stdin_from: ask } }
    - { name: cleanup, finally: true, run: { program: echo, args: [cleaned] } }
`;
const FAIL = `${HEAD}name: fail
workflow:
  steps:
    - { name: load, run: { program: echo, args: [loaded] } }
    - { name: check, depends_on: [load], run: { program: "false" }, retry: { max_attempts: 2 } }
    - { name: report, depends_on: [check], run: { program: echo } }
`;

/** The commands whose output later builds must still give. */
const READERS = [
  'runs --json',
  'status many --json',
  'status fail-again --json',
  'status cancelled --json',
  'artifacts many --json',
  'logs fail --json',
  'diff fail fail-again --json',
  'result many',
];

const dir = mkdtempSync(join(tmpdir(), 'voidbox-record-'));
const stateDir = join(dir, 'state');
const bin = join(here, '../../bin/voidbox.js');
// eslint-disable-next-line node/no-process-env -- Programs find node, git and the cache by the environment.
const env = { ...process.env, HOME: dir, VOIDBOX_STATE_DIR: stateDir };
const type = (line) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [bin, ...line.split(' ')], { cwd: dir, env });
  return { code: status, stdout: stdout.toString(), stderr: stderr.toString() };
};
const waitForQuestion = (runId) => {
  for (let tries = 0; tries < 60; tries += 1) if (type('runs --waiting --json').stdout.includes(`"${runId}"`)) return;
  throw new Error(`run ${runId} asks no question`);
};

try {
  writeFileSync(join(dir, 'many.yaml'), MANY);
  writeFileSync(join(dir, 'fail.yaml'), FAIL);
  type('run -d many.yaml --run-id many --param rows=3');
  type('run fail.yaml --run-id fail');
  waitForQuestion('many');
  type('approve many ask --by ada -c fine -f count=3');
  type('logs -f many');
  type('retry fail --run-id fail-again');
  type('run -d many.yaml --run-id cancelled');
  waitForQuestion('cancelled');
  type('cancel cancelled');
  type('logs -f cancelled');
  type('down');
  // The folder of the specs is a path of this machine, and nothing reads it here.
  for (const runId of ['many', 'fail', 'fail-again', 'cancelled']) {
    const file = join(stateDir, 'runs', runId, 'records/source.json');
    writeFileSync(file, readFileSync(file, 'utf8').replaceAll(dir, '/home/ada'));
  }
  const expected = Object.fromEntries(
    READERS.map((line) => {
      const { code, stdout } = type(line);
      return [line, { code, stdout }];
    }),
  );
  for (const name of KEPT) cpSync(join(stateDir, name), join(into, name), { recursive: true });
  writeFileSync(join(here, `format-${format}.expected.json`), `${JSON.stringify(expected, null, 2)}\n`);
} finally {
  rmSync(dir, { recursive: true, force: true });
}
