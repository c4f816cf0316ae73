/**
 * State folders that earlier builds wrote, read by this build. `record.mjs` records the folder of a format once, so a
 * change of this build's own files cannot change what these tests read.
 */
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openStores } from '../../store/open-stores.ts';
import { STATE_FORMAT } from '../../store/state-format.ts';
import { typeCommand, type Typed } from '../rig/runs/typed-command.ts';

const recordedDir = (format: number): string => fileURLToPath(new URL(`format-${format}`, import.meta.url));

type Recorded = Readonly<Record<string, { readonly code: number; readonly stdout: string }>>;

const RECORDED = JSON.parse(
  readFileSync(fileURLToPath(new URL(`format-${STATE_FORMAT}.expected.json`, import.meta.url)), 'utf8'),
) as Recorded;

let dir: string;
let stateDir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-recorded-'));
  stateDir = join(dir, 'state');
  cpSync(recordedDir(STATE_FORMAT), stateDir, { recursive: true });
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const type = (line: string): Promise<Typed> =>
  typeCommand(line.split(' '), dir, { HOME: dir, VOIDBOX_STATE_DIR: stateDir });

const linesOf = (text: string): readonly unknown[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as unknown);

/** Later builds may add fields to JSON; they may neither change nor remove one. */
async function expectRecorded(line: string): Promise<void> {
  const { code, stdout } = RECORDED[line]!;
  const typed = await type(line);
  expect(typed.code, typed.stderr).toBe(code);
  const read = line.includes('--json') ? linesOf : (text: string): readonly unknown[] => [{ text }];
  expect(read(typed.stdout)).toMatchObject(read(stdout) as object[]);
}

const filesOf = (folder: string): ReadonlyMap<string, string> =>
  new Map(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => [path, readFileSync(path, 'latin1')]),
  );

async function findDamaged(): Promise<readonly unknown[]> {
  const { inspector, close } = await openStores({ stateDir });
  try {
    return await inspector.findDamaged();
  } finally {
    await close();
  }
}

test('the format of this build has a recorded folder with runs of each end', () => {
  expect(readFileSync(join(stateDir, 'state-format'), 'utf8')).toBe(`${STATE_FORMAT}\n`);
  const { runs } = JSON.parse(RECORDED['runs --json']!.stdout) as {
    readonly runs: readonly { readonly state: string }[];
  };
  expect(new Set(runs.map(({ state }) => state))).toEqual(new Set(['succeeded', 'failed', 'cancelled']));
});

test.each(Object.keys(RECORDED))('`%s` prints what the build printed that wrote the folder', expectRecorded);

test('this build finds no damage in a recorded folder, and reading it changes no file', async () => {
  const before = filesOf(stateDir);
  expect(await findDamaged()).toEqual([]);
  for (const line of ['runs --json', 'status many --json', 'logs many', 'result many']) await type(line);
  expect(filesOf(stateDir)).toEqual(before);
});

test('this build reads runs to which a newer build of the same format has added records, fields and a folder', async () => {
  const events = join(stateDir, 'runs/many/events.jsonl');
  const lines = readFileSync(events, 'utf8').split('\n');
  writeFileSync(
    events,
    lines.map((line) => line.replace('"type":"stage-started"', '"type":"stage-started","later":{"a":[1]}')).join('\n'),
  );
  writeFileSync(join(stateDir, 'runs/many/records/later.json'), '{"version":1}');
  mkdirSync(join(stateDir, 'later'));
  expect(await findDamaged()).toEqual([]);
  await expectRecorded('runs --json');
  await expectRecorded('status many --json');
  await expectRecorded('result many');
});

test('this build finds the damage of a recorded run, and still reads the other runs', async () => {
  appendFileSync(join(stateDir, 'runs/fail/events.jsonl'), '{"commit":');
  writeFileSync(join(stateDir, 'runs/fail-again/records/plan.json'), '{"half');
  expect(await findDamaged()).toMatchObject([{ runId: 'fail-again' }]);
  await expectRecorded('status many --json');
});

test('`prune` deletes the recorded runs and their artifacts', async () => {
  // Artifacts of the last seconds stay, because a run may be about to name them.
  const anHourAgo = new Date(Date.now() - 3_600_000);
  for (const path of filesOf(join(stateDir, 'artifacts')).keys()) utimesSync(path, anHourAgo, anHourAgo);
  const pruned = await type('prune --older-than 0s --artifacts-now --json');
  expect(pruned.code, pruned.stderr).toBe(0);
  const { runs, artifacts } = JSON.parse(pruned.stdout) as {
    readonly runs: readonly string[];
    readonly artifacts: number;
  };
  expect(runs.toSorted()).toEqual(['cancelled', 'fail', 'fail-again', 'many']);
  expect(artifacts).toBe([...filesOf(join(recordedDir(STATE_FORMAT), 'artifacts'))].length);
  expect(existsSync(join(stateDir, 'runs/many'))).toBe(false);
  expect(filesOf(join(stateDir, 'artifacts')).size).toBe(0);
  expect(JSON.parse((await type('runs --json')).stdout)).toMatchObject({ runs: [] });
});
