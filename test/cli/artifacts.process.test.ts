/** Outputs of runs that workers left, as the command line lists and fetches them; no server runs. */
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { DataRef } from '../../domain/plan/plan.ts';
import { toWire } from '../../domain/plan/wire.ts';
import type { NewRunEvent, RunEventBody } from '../../domain/run/event.ts';
import type { StageFailure, StageResult } from '../../domain/run/stage-result.ts';
import { compileText } from '../../domain/language/load.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import { endMarker, writeHeader } from '../../tar/entry.ts';
import { type TarItem, writeTar } from '../../tar/write.ts';
import { Terminal } from './transcript.ts';
import { stageResult } from '../rig/runs/stage-results.ts';

const SPEC = `kind: workflow
name: tables
workflow:
  steps:
    - name: build
      run: { program: make }
      outputs:
        - { name: report, guest: /workspace/report.txt }
        - { name: tables, guest: /workspace/t }
        - { name: log, guest: /workspace/l }
    - { name: check, run: { program: make }, outputs: [{ name: log, guest: /workspace/log }], depends_on: [build] }
    - { name: ship, run: { program: make }, outputs: [{ name: parcel, guest: /workspace/p }], depends_on: [check] }
`;
const FAILURE: StageFailure = { code: 'stage/exit-nonzero', message: 'exit code 3', stderrTail: '' };
const file = (path: string, text: string, mode = 0o644): TarItem => ({
  kind: 'file',
  path,
  mode,
  body: Buffer.from(text),
});
const TABLES: readonly TarItem[] = [
  { kind: 'dir', path: 'deep', mode: 0o755 },
  file('deep/run.sh', '#!/bin/sh\n', 0o6755),
  file('a.csv', 'a;b\n'),
  { kind: 'symlink', path: 'deep/up', target: '../a.csv' },
];

let terminal: Terminal;
let stores: Stores;
let seq: number;
beforeEach(async () => {
  terminal = new Terminal();
  seq = 0;
  stores = await openStores({ stateDir: terminal.stateDir });
});
afterEach(async () => {
  await stores.close();
  terminal.dispose();
});

const put = (items: readonly TarItem[]): Promise<DataRef> => stores.artifacts.put(writeTar(items), 'application/x-tar');
const putText = (text: string): Promise<DataRef> => stores.artifacts.put(piece(Buffer.from(text)), 'text/plain');

async function* piece(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

function event(body: RunEventBody): NewRunEvent {
  return { id: `e/${(seq += 1)}`, atMs: 1_767_000_000_000 + seq, body };
}

function ended(
  stage: string,
  outputs: Record<string, DataRef>,
  output: DataRef | null,
  failure: StageFailure | null = null,
): NewRunEvent {
  const result = stageResult(`${stage}/0/1`, { failure, output, outputs });
  return {
    ...event({ type: 'stage-finished', stage, execKey: `${stage}/0/1`, result }),
    id: `stage/${stage}/0/1/finished`,
  };
}

/**
 * `build` has succeeded, `check` has failed, `ship` was skipped; with `open` the run is running and `check` has not
 * ended.
 */
async function leaveRun(runId: string, outputs: Record<string, DataRef>, open = false): Promise<void> {
  const { plan, diagnostics } = compileText(SPEC, 'spec.yaml', { baseDir: '/' });
  expect(diagnostics).toEqual([]);
  const stages = ['build', 'check', 'ship'].map((id) => ({ id, dependsOn: [] }));
  await stores.records.put(runId, 'plan', toWire(plan!));
  await stores.events.append(runId, [
    event({ type: 'run-admitted', name: 'tables', kind: 'pipeline', hostId: 'h', stages, outputStage: 'ship' }),
    ended('build', outputs, await putText('made\n')),
    ...(open
      ? [event({ type: 'stage-started', stage: 'check', execKey: 'check/0/1', attempt: 1 })]
      : [
          ended('check', {}, null, FAILURE),
          event({ type: 'stage-skipped', stage: 'ship', reason: 'stage "check" failed' }),
          event({
            type: 'run-finished',
            outcome: { state: 'failed', failedStage: 'check', failure: FAILURE, output: null },
          }),
        ]),
  ]);
}

async function leaveTables(open = false): Promise<void> {
  await leaveRun('t1', { report: await put([file('report.txt', 'all is well\n')]), tables: await put(TABLES) }, open);
}

/** Changes the bytes of an artifact; null: removes them. */
async function damage({ sha256 }: DataRef, change: (text: string) => string | null): Promise<void> {
  const path = join(terminal.stateDir, 'artifacts', sha256.slice(0, 2), sha256);
  const changed = change(readFileSync(path, 'latin1'));
  await rm(path);
  if (changed !== null) writeFileSync(path, Buffer.from(changed, 'latin1'));
}

const at = (...names: string[]): string => join(terminal.dir, ...names);

const ITEMS_SPEC = `kind: workflow
name: fixes
parts:
  one:
    workflow:
      steps:
        - { name: work, run: { program: make }, outputs: [{ name: report, guest: /workspace/report.txt }] }
workflow:
  steps:
    - { name: fixes, uses: one, for_each: [a, b] }
`;

/** Two items: both stages of the first have ended; the agent of the second failed with partial changes. */
async function leaveItems(runId = 'i1', count = 2): Promise<void> {
  const { plan, diagnostics } = compileText(ITEMS_SPEC, 'spec.yaml', { baseDir: '/' });
  expect(diagnostics).toEqual([]);
  await stores.records.put(runId, 'plan', toWire(plan!));
  const report = await put([file('report.txt', 'all is well\n')]);
  const patch = await stores.artifacts.put(piece(Buffer.from('diff')), 'text/x-patch');
  const printed = await putText('made\n');
  const agent = { provider: 'claude', model: null, sessionId: 's', played: true, transcript: patch } as const;
  const ofItem = (item: number): NewRunEvent => {
    const execKey = `fixes.work/fixes~${item}/1`;
    const { body } = ended(
      'fixes.work',
      item === 1 ? {} : { report },
      item === 1 ? null : printed,
      item === 1 ? FAILURE : null,
    );
    const { result } = body as Extract<RunEventBody, { type: 'stage-finished' }>;
    const more = { execKey, agent, ...(item === 1 ? { partial: { 'partial.patch': patch } } : {}) };
    return {
      ...event({ type: 'stage-finished', stage: 'fixes.work', execKey, result: { ...result, ...more } }),
    };
  };
  const whole = ended('fixes', {}, printed);
  const { result } = whole.body as Extract<RunEventBody, { type: 'stage-finished' }>;
  const execKey = 'fixes/fixes~0/1';
  await stores.events.append(runId, [
    event({
      type: 'run-admitted',
      name: 'fixes',
      kind: 'workflow',
      hostId: 'h',
      stages: [{ id: 'fixes', dependsOn: [] }],
      outputStage: 'fixes',
    }),
    event({ type: 'stage-finished', stage: 'fixes', execKey, result: { ...result, execKey } }),
    ...Array.from({ length: count }, (_, item) => ofItem(item)),
    whole,
    event({ type: 'run-finished', outcome: { state: 'failed', failedStage: 'fixes', failure: FAILURE, output: null } }),
  ]);
}

describe('items of a list', () => {
  test('follow the outputs of the run, with the outputs of each of their stages', async () => {
    await leaveItems();
    const { code, stdout } = await terminal.type('artifacts', 'i1');
    expect(code).toBe(0);
    expect(stdout.replaceAll(/ *[0-9a-f]{64}/g, '').replaceAll(/ {2,}/g, '  ')).toBe(
      [
        'NAME  KIND  SIZE  SHA256',
        'fixes  output  5 B',
        'fixes[0].work  output  5 B',
        'fixes[0].work.report  file  2.0 KiB',
        'fixes[0].work.transcript.jsonl  file  4 B',
        'fixes[1].work.partial.patch  file, partial  4 B',
        'fixes[1].work.transcript.jsonl  file  4 B',
        '',
      ].join('\n'),
    );
    const { artifacts } = JSON.parse((await terminal.type('artifacts', 'i1', '--json')).stdout) as {
      artifacts: { readonly stage: string; readonly name: string; readonly partial: boolean }[];
    };
    expect(artifacts.map(({ stage, name, partial }) => [stage, name, partial])).toContainEqual([
      'fixes[1].work',
      'partial.patch',
      true,
    ]);
  });

  test('are fetched by the item: what it printed, what it left, and its result', async () => {
    await leaveItems();
    const fetch = (name: string) => terminal.type('artifacts', 'i1', 'get', name, '-o', '-');
    expect(await fetch('fixes[0].work')).toMatchObject({ code: 0, stdout: 'made\n' });
    expect(await fetch('fixes[0].work.report')).toMatchObject({ code: 0, stdout: 'all is well\n' });
    expect(await fetch('fixes[1].work.partial.patch')).toMatchObject({ code: 0, stdout: 'diff' });
    expect(await fetch('fixes[0]')).toMatchObject({ code: 0, stdout: 'made\n' });
    expect((await terminal.type('artifacts', 'i1', 'get', 'fixes[1].work.transcript.jsonl')).code).toBe(0);
    expect(readFileSync(at('fixes[1].work.transcript.jsonl'), 'utf8')).toBe('diff');
  });

  test('are named by a mistake: a stage without its item, an item that left none', async () => {
    await leaveItems();
    const bare = await terminal.type('artifacts', 'i1', 'get', 'fixes.work');
    expect([bare.code, bare.stderr]).toEqual([
      2,
      expect.stringMatching(/runs for each item of fixes[^]*Name one: 'fixes\[0\]\.work', 'fixes\[1\]\.work'/),
    ]);
    const none = await terminal.type('artifacts', 'i1', 'get', 'fixes[7].work');
    expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('there is no such item')]);
    const both = await terminal.type('artifacts', 'i1', 'get', 'transcript.jsonl');
    expect([both.code, both.stderr]).toEqual([2, expect.stringContaining('2 stages of run i1 have an output')]);
  });

  test('beyond 500 rows of a table are counted, and --json has all', async () => {
    await leaveItems('i1', 260);
    const { stdout, stderr } = await terminal.type('artifacts', 'i1');
    expect(stdout.split('\n')).toHaveLength(502);
    expect(stderr).toContain('280 more, of items: voidbox artifacts i1 --json');
    const { artifacts } = JSON.parse((await terminal.type('artifacts', 'i1', '--json')).stdout) as {
      artifacts: object[];
    };
    expect(artifacts).toHaveLength(780);
  });
});

describe('the list', () => {
  test('marks partial outputs of an interrupted stage, which can be fetched', async () => {
    const built = ended('build', {}, null, { ...FAILURE, code: 'stage/cancelled' });
    if (built.body.type !== 'stage-finished') throw new Error('another event');
    const result: StageResult = {
      ...built.body.result,
      outcome: 'cancelled',
      partial: { tables: await put(TABLES) },
    };
    await stores.events.append('t2-cut', [
      event({ type: 'run-admitted', name: 'tables', kind: 'pipeline', hostId: 'h', stages: [], outputStage: 'ship' }),
      { ...built, body: { ...built.body, result } },
    ]);
    const { stdout } = await terminal.type('artifacts', 't2-cut');
    expect(stdout.replaceAll(/[0-9a-f]{64}/g, 'HASH')).toBe(
      'NAME          KIND             SIZE     SHA256\nbuild.tables  folder, partial  4.0 KiB  HASH\n',
    );
    const listed = JSON.parse((await terminal.type('artifacts', 't2-cut', '--json')).stdout) as object;
    expect(listed).toMatchObject({ artifacts: [{ stage: 'build', name: 'tables', kind: 'folder', partial: true }] });
    const got = await terminal.type('artifacts', 't2-cut', 'get', 'build.tables', '-o', at('cut'));
    expect([got.code, got.stderr]).toEqual([
      0,
      expect.stringContaining('(partial: the stage did not succeed)') as string,
    ]);
    expect(readFileSync(at('cut', 'a.csv'), 'utf8')).toBe('a;b\n');
  });

  test('names what can be fetched, with kind, size and hash', async () => {
    await leaveTables();
    const { code, stdout } = await terminal.type('artifacts', 't1');
    expect(code).toBe(0);
    expect(stdout.replaceAll(/[0-9a-f]{64}/g, 'HASH')).toBe(
      [
        'NAME          KIND    SIZE     SHA256',
        'build         output  5 B      HASH',
        'build.report  file    2.0 KiB  HASH',
        'build.tables  folder  4.0 KiB  HASH',
        '',
      ].join('\n'),
    );
    const { artifacts } = JSON.parse((await terminal.type('artifacts', 't1', '--json')).stdout) as {
      artifacts: object[];
    };
    expect(artifacts.map((one) => Object.keys(one))).toEqual(
      Array.from({ length: 3 }, () => ['stage', 'name', 'kind', 'partial', 'sizeBytes', 'sha256', 'mediaType']),
    );
    expect(artifacts[0]).toMatchObject({
      stage: 'build',
      name: null,
      kind: 'file',
      sizeBytes: 5,
      mediaType: 'text/plain',
    });
    expect(artifacts[2]).toMatchObject({
      stage: 'build',
      name: 'tables',
      kind: 'folder',
      mediaType: 'application/x-tar',
    });
  });

  test('a run without outputs has a message instead of a list', async () => {
    await stores.events.append('bare', [
      event({ type: 'run-admitted', name: 'n', kind: 'workflow', hostId: 'h', stages: [], outputStage: null }),
      event({ type: 'run-finished', outcome: { state: 'cancelled', failedStage: null, failure: null, output: null } }),
    ]);
    expect(await terminal.type('artifacts', 'bare')).toEqual({
      code: 0,
      stdout: '',
      stderr: 'run bare (cancelled) has no outputs\n',
    });
  });
});

describe('an output', () => {
  test('that is a folder comes whole into a new one of its name', async () => {
    await leaveTables();
    expect(await terminal.type('artifacts', 't1', 'get', 'tables')).toEqual({
      code: 0,
      stdout: '',
      stderr: 'build.tables: 4 entries, 14 B, to /DIR/tables\n',
    });
    expect(readdirSync(at('tables')).toSorted()).toEqual(['a.csv', 'deep']);
    expect(readFileSync(at('tables', 'deep', 'up'), 'utf8')).toBe('a;b\n');
    expect(readlinkSync(at('tables', 'deep', 'up'))).toBe('../a.csv');
    expect((lstatSync(at('tables', 'deep', 'run.sh')).mode & 0o7700).toString(8)).toBe('700');
  });

  test('that holds a repository of git comes with a warning', async () => {
    const bare = ['HEAD', 'objects/a', 'refs/a'].map((name) => file(`b/${name}`, ''));
    await leaveRun('t1', { tables: await put([file('in/.GIT/config', '[core]'), ...bare, file('c', '')]) });
    expect((await terminal.type('artifacts', 't1', 'get', 'tables')).stderr).toBe(
      'build.tables: 5 entries, 6 B, to /DIR/tables\nwarning: it contains a git repository (in/.GIT, b): git can run programs that its files name, also for `git status`\n',
    );
  });

  test('that is a file comes under its own name, and no file is written over', async () => {
    await leaveTables();
    const typed = ['artifacts', 't1', 'get', 'build.report', '--json'];
    expect(JSON.parse((await terminal.type(...typed)).stdout)).toEqual({
      stage: 'build',
      name: 'report',
      kind: 'file',
      partial: false,
      folder: '/DIR',
      entries: 1,
      bytes: 12,
      gitData: [],
    });
    writeFileSync(at('report.txt'), 'mine');
    const again = await terminal.type('artifacts', 't1', 'get', 'report');
    expect([again.code, again.stderr]).toEqual([
      2,
      'error: `/DIR` has report.txt already\n  Choose another folder with -o, or replace existing files with --force\n',
    ]);
    expect(readFileSync(at('report.txt'), 'utf8')).toBe('mine');
    expect((await terminal.type('artifacts', 't1', 'get', 'report', '--force')).code).toBe(0);
    expect(readFileSync(at('report.txt'), 'utf8')).toBe('all is well\n');
    expect(readdirSync(terminal.dir).toSorted()).toEqual(['report.txt', 'state']);
  });

  test('is refused as a whole if one of its names is taken; with --force only that name is replaced', async () => {
    await leaveTables();
    mkdirSync(at('out', 'deep'), { recursive: true });
    writeFileSync(at('out', 'mine'), '');
    writeFileSync(at('out', 'deep', 'old'), '');
    const refused = await terminal.type('artifacts', 't1', 'get', 'tables', '-o', 'out');
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('`/DIR/out` has deep already')]);
    expect(readdirSync(at('out')).toSorted()).toEqual(['deep', 'mine']);
    expect((await terminal.type('artifacts', 't1', 'get', 'tables', '-o', 'out', '--force')).code).toBe(0);
    expect(readdirSync(at('out')).toSorted()).toEqual(['a.csv', 'deep', 'mine']);
    expect(readdirSync(at('out', 'deep')).toSorted()).toEqual(['run.sh', 'up']);
  });

  test('is printed with -o -, a file or what a stage put out, and a folder is not', async () => {
    await leaveTables();
    expect(await terminal.type('artifacts', 't1', 'get', 'report', '-o', '-')).toMatchObject({
      code: 0,
      stdout: 'all is well\n',
    });
    expect(await terminal.type('artifacts', 't1', 'get', 'build', '-o', '-')).toMatchObject({
      code: 0,
      stdout: 'made\n',
    });
    const folder = await terminal.type('artifacts', 't1', 'get', 'tables', '-o', '-');
    expect([folder.code, folder.stderr]).toEqual([2, expect.stringContaining('`build.tables` is a folder')]);
    expect((await terminal.type('artifacts', 't1', 'get', 'build', '-o', 'own')).code).toBe(0);
    expect(readFileSync(at('own', 'build'), 'utf8')).toBe('made\n');
  });

  test('is refused if its folder is a file, and a damaged artifact leaves nothing behind', async () => {
    await leaveTables();
    writeFileSync(at('taken'), '');
    const taken = await terminal.type('artifacts', 't1', 'get', 'report', '-o', 'taken');
    expect([taken.code, taken.stderr]).toEqual([2, expect.stringContaining('cannot write to `/DIR/taken`')]);
    await damage(await put([file('report.txt', 'all is well\n')]), (text) => text.replace('well', 'hell'));
    const damaged = await terminal.type('artifacts', 't1', 'get', 'report', '-o', 'fresh');
    expect([damaged.code, damaged.stderr]).toEqual([3, expect.stringContaining('hash to')]);
    expect(existsSync(at('fresh'))).toBe(false);
  });
});

test('an artifact that is gone or is no tar is listed as damaged, and fetching it fails with that code', async () => {
  await leaveTables();
  await damage(await put(TABLES), (text) => text.replace('deep/', 'dEEp/'));
  await damage(await putText('made\n'), () => null);
  const { code, stdout } = await terminal.type('artifacts', 't1');
  expect([code, stdout.split('\n').map((line) => line.slice(0, 21))]).toEqual([
    0,
    ['NAME          KIND   ', 'build         damaged', 'build.report  file   ', 'build.tables  damaged', ''],
  ]);
  for (const name of ['build', 'tables']) {
    const typed = await terminal.type('artifacts', 't1', 'get', name, '-o', 'out', '--json');
    expect([typed.code, JSON.parse(typed.stderr)]).toMatchObject([3, { error: { code: 'store/damaged' } }]);
    expect((await terminal.type('artifacts', 't1', 'get', name, '-o', '-')).code).toBe(3);
  }
  expect(existsSync(at('out'))).toBe(false);
});

describe('a name', () => {
  test.each<[string, readonly string[], string]>([
    [
      'a name that is almost one',
      ['get', 'tabels'],
      'run t1 has no output `tabels`\n  Did you mean tables?\n  Its outputs: voidbox artifacts t1',
    ],
    [
      'an output that several stages have',
      ['get', 'log'],
      '2 stages of run t1 have an output `log`\n  Name one: build.log, check.log',
    ],
    [
      'an output of a stage that failed',
      ['get', 'check.log'],
      '`check.log` does not exist: stage check failed, and only a stage that succeeds leaves outputs',
    ],
    ['an output of a stage that was skipped', ['get', 'parcel'], '`parcel` does not exist: stage ship was skipped'],
    [
      'an output that its stage did not leave',
      ['get', 'build.log'],
      '`build.log` does not exist: stage build succeeded without this output',
    ],
    ['a name with signs that a terminal acts on', ['get', '\u001b[2Jx'], 'has no output `x`'],
    ['a missing name', ['get'], 'the name of the output is missing'],
    ['a name without the word get', ['tables'], '`tables` is not `get`'],
    ['an option of `get` for the list', ['-o', 'x'], '-o and --force need `get`'],
  ])('%s is an error with the reason', async (_, args, said) => {
    await leaveTables();
    const { code, stdout, stderr } = await terminal.type('artifacts', 't1', ...args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(said);
  });

  test('an output of a running stage is refused with the reason, and outputs of ended stages are fetched', async () => {
    await leaveTables(true);
    const { code, stderr } = await terminal.type('artifacts', 't1', 'get', 'check.log');
    expect([code, stderr]).toEqual([
      2,
      'error: `check.log` is not there yet: stage check has not ended (running)\n  Wait for it: voidbox logs -f t1 --stage check\n',
    ]);
    expect((await terminal.type('artifacts', 't1', 'get', 'tables')).code).toBe(0);
  });
});

describe('an output that a worker would not have stored', () => {
  const header = (path: string): Uint8Array => writeHeader({ path, typeFlag: '0', mode: 0o644, sizeBytes: 0 });
  test.each<[string, readonly TarItem[], string]>([
    ['leads out', [file('../evil', 'x')], 'it leads out of the output'],
    ['is absolute', [file('/evil', 'x')], 'it leads out of the output'],
    [
      'is a link that leads out',
      [{ kind: 'symlink', path: 'out', target: '../../etc' }],
      'a link that leads out of the output',
    ],
    [
      'lies behind a link',
      [{ kind: 'symlink', path: 'in', target: 'deep' }, file('in/evil', 'x')],
      'a folder and also another entry',
    ],
    ['is a pipe', [{ kind: 'fifo', path: 'pipe' }], 'only files, folders and links are allowed'],
    ['has a name that a terminal acts on', [file('a/../\u001b[2Jevil', 'x')], '"a/../evil"'],
  ])('%s: nothing of it is written', async (_, items, why) => {
    await leaveRun('hostile', { tables: await put([file('good', 'x'), ...items]) });
    const { code, stderr } = await terminal.type('artifacts', 'hostile', 'get', 'tables', '-o', 'out');
    expect([code, stderr]).toEqual([expect.any(Number), expect.stringContaining(why)]);
    expect(code).not.toBe(0);
    expect(readdirSync(terminal.dir)).toEqual(['state']);
  });

  test('if a tar has a file twice, the last one is written', async () => {
    await leaveRun('twice', { tables: await put([file('a', 'old'), file('b', ''), file('a', 'new')]) });
    expect((await terminal.type('artifacts', 'twice', 'get', 'tables')).code).toBe(0);
    expect(readFileSync(at('tables', 'a'), 'utf8')).toBe('new');
  });

  test('names that are not UTF-8 come as they are', async () => {
    const latin1 = Buffer.from(header('caf.'));
    latin1[3] = 0xe9;
    // The checksum includes the changed byte.
    latin1.write(`${sumOf(latin1).toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
    const ref = await stores.artifacts.put(piece(Buffer.concat([latin1, endMarker()])), 'application/x-tar');
    await leaveRun('names', { tables: ref });
    expect((await terminal.type('artifacts', 'names', 'get', 'tables')).code).toBe(0);
    expect(readdirSync(at('tables'), { encoding: 'latin1' })).toEqual(['caf\u00e9']);
  });
});

function sumOf(block: Buffer): number {
  const copy = Buffer.from(block);
  copy.fill(0x20, 148, 156);
  return copy.reduce((sum, byte) => sum + byte, 0);
}
