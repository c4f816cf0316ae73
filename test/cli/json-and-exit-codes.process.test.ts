/** The statements of docs/reference/cli.md about exit codes and `--json`, tested with commands that need no server. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { leaveFinishedRuns } from './finished-runs.ts';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));
const DOCS = readFileSync(new URL('../../docs/reference/cli.md', import.meta.url), 'utf8');
const SPEC =
  'kind: workflow\nname: s\nworkflow:\n  steps:\n    - { name: a, run: { program: env }, secrets: [VOIDBOX_TEST_UNSET] }\n';
const skill = (next: string): string =>
  `import { skill } from 'voidbox/skill-kit';\nexport default skill({ name: 's', entry: 'a' }).step('a', { prompt: 'a', next: ${next} }).build();\n`;

let dir: string;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-exit-'));
  writeFileSync(join(dir, 'spec.yaml'), SPEC);
  writeFileSync(join(dir, 'invalid.yaml'), SPEC.replace('program', 'progam'));
  writeFileSync(join(dir, 'loop.ts'), skill("'a'"));
  writeFileSync(join(dir, 'broken.ts'), skill("'gone'"));
  await leaveFinishedRuns(join(dir, 'state'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

interface Typed {
  readonly code: number;
  readonly stdout: string;
}

/** With the variables of a first argument that is no word. */
function type(...line: readonly (string | Readonly<Record<string, string>>)[]): Promise<Typed> {
  const args = line.filter((word) => typeof word === 'string');
  const variables = line.filter((word) => typeof word !== 'string');
  const env: NodeJS.ProcessEnv = { ...process.env, VOIDBOX_STATE_DIR: join(dir, 'state') };
  Object.assign(env, ...variables);
  for (const name of ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE']) delete env[name];
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [BIN, ...args], { cwd: dir, env, timeout: 60_000 }, (_error, stdout) =>
      resolve({ code: child.exitCode ?? -1, stdout }),
    );
  });
}

test.each([
  [0, '--help'],
  [0, 'validate spec.yaml'],
  [0, 'status sales-bad'],
  [0, 'logs sales-bad'],
  [0, 'result sales-good'],
  [0, 'skill lint loop.ts'],
  [1, 'result sales-bad'],
  [1, 'skill lint loop.ts --max-warnings 0'],
  [1, 'skill lint broken.ts'],
  [1, 'skill check broken.ts'],
  [2, ''],
  [2, 'rnu'],
  [2, 'session'],
  [2, 'validate'],
  [2, 'validate gone.yaml'],
  [2, 'validate invalid.yaml'],
  [2, 'run invalid.yaml'],
  [2, 'result gone'],
  [2, 'status gone'],
  [2, 'logs gone'],
  [2, 'set-aside sales-good'],
  [2, 'prune --older-than soon'],
  [2, 'skill lint gone.ts'],
  [2, 'skill graph broken.ts'],
  [2, 'skill build broken.ts -o out/s'],
  [2, 'skill run loop.ts bogus'],
  [2, 'session list --waiting --state done'],
  [3, 'run spec.yaml'],
  [3, 'session list'],
  [3, 'worker'],
])('exit code %i: voidbox %s', async (code, line) => {
  expect((await type(...line.split(' ').filter((word) => word !== ''))).code).toBe(code);
});

test('doctor ends with 3 where the state folder cannot be written, and shows the other folders all the same', async () => {
  const text = await type({ VOIDBOX_STATE_DIR: join(dir, 'spec.yaml', 'state') }, 'doctor');
  expect(text.code).toBe(3);
  expect(text.stdout).toContain(
    `  ✗ state  the state folder ${join(dir, 'spec.yaml', 'state')} cannot be written: ${join(dir, 'spec.yaml')} is not a folder\n    fix: `,
  );
  expect(text.stdout).toMatch(/\n\nruns cannot start\n$/);
  const json = JSON.parse((await type({ VOIDBOX_STATE_DIR: '/proc/voidbox' }, 'doctor', '--json')).stdout) as object;
  expect(json).toMatchObject({
    isReady: false,
    state: { path: '/proc/voidbox', remedy: expect.stringContaining('export VOIDBOX_STATE_DIR=') as string },
    cache: { path: expect.any(String) as string },
    rust: { minimumVersion: '1.85' },
  });
});

test('the table of docs/reference/cli.md lists every field of `prune --json`, and no other', async () => {
  const { stdout } = await type('prune', '--dry-run', '--json', '--older-than', '1h');
  const said = JSON.parse(stdout) as { readonly removed: readonly object[] };
  const section = /\n## Pruning\n([^]*?)\n## /.exec(DOCS)![1]!;
  const rows = section.split('\n').filter((line) => line.startsWith('| `'));
  const named = rows.flatMap((row) => [...row.split('|')[1]!.matchAll(/`(\w+)`/g)].map(([, name]) => name));
  expect(named).toEqual(Object.keys(said));
  expect(Object.keys(said.removed[0]!)).toEqual(['runId', 'sizeBytes']);
});

/** All fields of a value whose names say that they are times. */
function timesIn(value: unknown, name = ''): readonly (readonly [name: string, value: unknown])[] {
  if (typeof value === 'object' && value !== null)
    return Object.entries(value).flatMap(([key, inner]) => timesIn(inner, key));
  return /[Aa]t(?:Ms)?$/.test(name) ? [[name, value]] : [];
}

test('times are ISO 8601 where a name ends with At, and numbers where it ends with AtMs', async () => {
  const times: (readonly [name: string, value: unknown])[] = [];
  for (const line of ['runs', 'status sales-good', 'result sales-good', 'logs sales-good']) {
    const { stdout } = await type(...line.split(' '), '--json');
    for (const json of stdout.trim().split('\n')) times.push(...timesIn(JSON.parse(json)));
  }
  const ofKind = (isNumber: boolean): readonly unknown[] =>
    times.filter(([name]) => name.endsWith('Ms') === isNumber).map(([, value]) => value);
  const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string;
  expect(ofKind(false)).toEqual(ofKind(false).map(() => time));
  expect(ofKind(true)).toEqual(ofKind(true).map(() => expect.any(Number) as number));
  const names = [...new Set(times.map(([name]) => name))].toSorted();
  expect(names).toEqual(['atMs', 'finishedAt', 'startedAt']);
  const documented = DOCS.split('\n').filter((line) => line.startsWith('| `At'));
  expect(names.filter((name) => !documented.join('\n').includes(`\`${name}\``))).toEqual([]);
});
