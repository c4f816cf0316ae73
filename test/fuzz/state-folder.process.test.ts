/** Files of runs are damaged in every way; each command answers with a message, and every other run continues. */
import { cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { openStores } from '../../store/open-stores.ts';
import { hostId } from '../../workers/host/host-id.ts';
import { announceResumed } from '../../workers/host/janitor.ts';
import { createOpenRuns } from '../../workers/host/open-runs.ts';
import { listRegularFilesBelow } from '../../setup/cache/files-below.ts';
import { leaveFinishedRuns } from '../cli/finished-runs.ts';
import { RECORD_DEFAULTS } from '../rig/runs/admissions.ts';
import { stageResult } from '../rig/runs/stage-results.ts';
import { typeCommand, type Typed } from '../rig/runs/typed-command.ts';
import { DAMAGES, readBytes, seededRandom, type Random } from './damage.ts';

const ROUNDS = 200;
const SEED = 20_261_122;
const SERVER = 'embedded';
const HOST = 'this-host';
/** These runs stay whole in every round. */
const GOOD = ['sales-good', 'sales-bad', 'open-good'];
const VICTIM = 'victim';
/** Its folder is named by a hash. */
const LONG = `long/${'x'.repeat(900)}`;
const OPEN_VICTIM = 'open-victim';

let pristine: string;
let dir: string;
let expected: ReadonlyMap<string, unknown>;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-fuzz-'));
  pristine = join(dir, 'pristine');
  await leaveFinishedRuns(pristine);
  writeFileSync(join(pristine, 'host-id'), `${HOST}\n`);
  for (const runId of ['sales-good', 'sales-bad']) await leaveRecords(pristine, runId);
  await leaveRun(pristine, 'open-good', false);
  for (const runId of [VICTIM, LONG]) await leaveRun(pristine, runId, true);
  await leaveRun(pristine, OPEN_VICTIM, false);
  const whole = await type(pristine, 'runs', '--json');
  expected = new Map((JSON.parse(whole.stdout) as { runs: { runId: string }[] }).runs.map((run) => [run.runId, run]));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function type(stateDir: string, ...argv: readonly string[]): Promise<Typed> {
  return typeCommand(argv, dir, { PATH: process.env['PATH'] ?? '', HOME: dir, VOIDBOX_STATE_DIR: stateDir });
}

/** @throws when it is a crash and not an answer */
async function answer(stateDir: string, codes: readonly number[], ...argv: readonly string[]): Promise<Typed> {
  const typed = await type(stateDir, ...argv);
  expect(typed.stderr).not.toMatch(/bug in voidbox|\n\s+at /);
  expect(codes, `${argv.join(' ').slice(0, 80)} ended with ${typed.code}: ${typed.stderr}`).toContain(typed.code);
  // The output must not contain control sequences for a terminal.
  const printed = argv.includes('--json') ? '' : typed.stdout + typed.stderr;
  expect(printed.includes('\u001b')).toBe(false);
  return typed;
}

async function checkAll(stateDir: string, withDoctor: boolean): Promise<void> {
  const runs = JSON.parse((await answer(stateDir, [0], 'runs', '--json')).stdout) as { runs: { runId: string }[] };
  for (const runId of GOOD) expect(runs.runs.find((run) => run.runId === runId)).toEqual(expected.get(runId));
  await answer(stateDir, [0], 'runs');
  await answer(stateDir, [0], 'runs', '--state', 'damaged', '--json');
  for (const runId of [VICTIM, LONG, OPEN_VICTIM]) {
    // Exit code 2: its folder no longer names a run.
    await answer(stateDir, [0, 2], 'status', runId);
    await answer(stateDir, [0, 2], 'status', runId, '--json');
    await answer(stateDir, [0, 2, 3], 'logs', runId);
    await answer(stateDir, [0, 1, 2, 3], 'result', runId);
  }
  expect((await answer(stateDir, [0], 'result', 'sales-good')).stdout).toBe('the result\n');
  await answer(stateDir, [0], 'logs', 'sales-bad');
  const pruned = JSON.parse(
    (await answer(stateDir, [0], 'prune', '--dry-run', '--keep-last', '0', '--json')).stdout,
  ) as { runs: string[] };
  expect(pruned.runs).toEqual(expect.arrayContaining(['sales-bad', 'sales-good']));
  await answer(stateDir, [0], 'set-aside', '--all', '--dry-run');
  if (withDoctor) await answer(stateDir, [0, 3], 'doctor');
  await checkWorkerStart(stateDir);
}

/** Does the work of a worker before it accepts tasks, and of the janitor in each round. */
async function checkWorkerStart(stateDir: string): Promise<void> {
  const id = hostId(stateDir);
  expect(id, 'the runs say which it was').toBe(HOST);
  const { events, index, records, close } = await openStores({ stateDir });
  try {
    const open = await createOpenRuns({
      events,
      index,
      records,
      serverId: SERVER,
      hostId: id,
      log: () => undefined,
    }).list();
    expect(open).toContain('open-good');
    await announceResumed(events, { runIds: open, by: 'a-worker', log: () => undefined });
    expect(await events.find('open-good', 'run/resumed/a-worker')).not.toBeNull();
  } finally {
    await close();
  }
}

test('nothing is damaged to begin with', async () => {
  expect([...expected.keys()].toSorted()).toEqual([...GOOD, VICTIM, LONG, OPEN_VICTIM].toSorted());
  const copy = join(dir, 'whole');
  cpSync(pristine, copy, { recursive: true });
  await checkAll(copy, true);
  expect((await type(copy, 'set-aside', '--all', '--dry-run')).stdout).toBe('No run is damaged.\n');
});

test(`${ROUNDS} damages, and then everything that is damaged is set aside`, { timeout: 300_000 }, async () => {
  const random = seededRandom(SEED);
  const seen = { damaged: 0, unnoticed: 0 };
  for (let round = 0; round < ROUNDS; round++) {
    const copy = join(dir, `round-${round}`);
    cpSync(pristine, copy, { recursive: true });
    const what = hurt(copy, random);
    try {
      await checkAll(copy, round % 40 === 0);
      const { runs } = JSON.parse((await answer(copy, [0], 'set-aside', '--all', '--json')).stdout) as {
        runs: { runId: string }[];
      };
      if (runs.length > 0) seen.damaged++;
      else seen.unnoticed++;
      expect((await answer(copy, [0], 'set-aside', '--all', '--dry-run')).stdout).toBe('No run is damaged.\n');
      const left = JSON.parse((await answer(copy, [0], 'runs', '--json')).stdout) as {
        runs: { runId: string; state: string }[];
      };
      for (const { runId, state } of left.runs)
        expect([runId.slice(0, 40), state]).not.toEqual([runId.slice(0, 40), 'damaged']);
    } catch (error) {
      throw new Error(`round ${round}, seed ${SEED}: ${what}`, { cause: error });
    }
    rmSync(copy, { recursive: true, force: true });
  }
  // Both happen, so neither check passes for lack of cases.
  expect(seen.damaged).toBeGreaterThan(ROUNDS / 4);
  expect(seen.unnoticed).toBeGreaterThan(0);
});

/** @returns what was done, in words */
function hurt(stateDir: string, random: Random): string {
  const files = victimFiles(stateDir);
  const kinds = Object.keys(DAMAGES);
  for (;;) {
    const path = files[random(files.length)] as string;
    const kind = kinds[random(kinds.length)] as string;
    const other = readBytes(files[random(files.length)] as string);
    if (DAMAGES[kind]?.(path, readBytes(path), random, other) === true) return `${kind} of ${relative(stateDir, path)}`;
  }
}

/** Files of the runs that may suffer. The log of each counts several times, because it contains most of the data. */
function victimFiles(stateDir: string): readonly string[] {
  const folders = readdirSync(join(stateDir, 'runs')).filter((name) => !GOOD.includes(name));
  const files = folders
    .map((name) => join(stateDir, 'runs', name))
    .flatMap((folder) => listRegularFilesBelow(folder).map((path) => join(folder, path)));
  return [join(stateDir, 'host-id'), ...files].flatMap((path) =>
    path.endsWith('events.jsonl') ? [path, path, path, path] : [path],
  );
}

const PLAN = {
  version: 1,
  kind: 'workflow',
  name: 'fuzzed',
  stages: [
    { id: 'a', work: { kind: 'command', program: 'ls', args: ['-l'] }, retry: { maxAttempts: 2, backoffMs: 10 } },
  ],
  scopes: [
    {
      id: 'a',
      sandbox: { mode: 'mock', isolation: 'none', mounts: [{ hostPath: '/x', guestPath: '/y', mode: 'ro' }] },
    },
  ],
  output: { kind: 'stage', stage: 'a' },
  maxParallel: 4,
  hostVariables: ['TOKEN'],
};

async function leaveRecords(stateDir: string, runId: string): Promise<void> {
  const { records, marks } = await openStores({ stateDir });
  await marks.put(runId, 'client', { baseDir: '/somewhere' });
  await records.put(runId, 'plan', PLAN);
  await records.put(runId, 'admission', {
    ...RECORD_DEFAULTS,
    plan: PLAN,
    hostQueue: 'voidbox',
    hostId: HOST,
    serverId: SERVER,
  });
  await marks.put(runId, 'prepared-a/0/1', { generation: 0 });
}

async function leaveRun(stateDir: string, runId: string, isFinished: boolean): Promise<void> {
  await leaveRecords(stateDir, runId);
  const { events, records, hostVariables, close } = await openStores({ stateDir });
  await hostVariables.put(runId, { TOKEN: 'secret' });
  const atMs = Date.now() - 3_600_000;
  const vm = { vmKey: 'v/a/0', scope: 'a', generation: 0 };
  const output = { sha256: 'ab'.repeat(32), sizeBytes: 3, mediaType: 'text/plain' };
  const result = stageResult('a/0/1', {
    durationMs: 5,
    output,
    command: { exitCode: 0, stdoutBytes: 9_000, stderrBytes: 0 },
  });
  const write = async (...bodies: NewRunEvent['body'][]): Promise<void> => {
    for (const body of bodies) await events.append(runId, [{ id: `${body.type}/${Math.random()}`, atMs, body }]);
  };
  await events.append(runId, [
    {
      id: 'run/admitted',
      atMs,
      body: {
        type: 'run-admitted',
        name: 'fuzzed',
        kind: 'workflow',
        hostId: 'h',
        stages: [{ id: 'a', dependsOn: [] }],
        outputStage: 'a',
      },
    },
  ]);
  await write(
    { type: 'vm-starting', ...vm },
    {
      type: 'vm-ready',
      ...vm,
      backend: 'mock',
      vmm: 'mock',
      isolation: 'none',
      accelerator: 'mock',
      kernel: 'k',
      jail: 'j',
      bootMs: 3,
    },
    { type: 'stage-started', stage: 'a', execKey: 'a/0/1', attempt: 1 },
    { type: 'output', stage: 'a', execKey: 'a/0/1', stream: 'stdout', from: 0, to: 2, encoding: 'utf8', data: 'hi' },
    {
      type: 'output',
      stage: 'a',
      execKey: 'a/0/1',
      stream: 'stdout',
      from: 2,
      to: 9_002,
      encoding: 'utf8',
      data: 'large\n'.repeat(1_500),
    },
    { type: 'notice', level: 'warning', message: 'mind this' },
  );
  if (isFinished) {
    await records.put(runId, 'manifest', { version: 1, refs: [output] });
    await write({ type: 'stage-finished', stage: 'a', execKey: 'a/0/1', result }, { type: 'vm-stopped', ...vm });
    await events.append(runId, [
      {
        id: 'run/finished',
        atMs,
        body: { type: 'run-finished', outcome: { state: 'succeeded', failedStage: null, failure: null, output } },
      },
    ]);
  }
  await close();
}
