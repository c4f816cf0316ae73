import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { EVENT_ID } from '../../../domain/run/event-id.ts';
import { openStores } from '../../../store/open-stores.ts';
import { finishedEvent, noticeEvent } from '../../../test/conformance/store.ts';
import { typeCommand } from '../../../test/rig/runs/typed-command.ts';

let dir: string;

/** `r8` is the latest; records of every third are damaged, its events are not. */
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'voidbox-runs-'));
  const { events, records, close } = await openStores({ stateDir: dir });
  for (let at = 0; at < 9; at++) {
    const runId = `r${at}`;
    await events.append(runId, [{ ...noticeEvent('a'), atMs: 1_000 + at }, finishedEvent()]);
    await records.put(runId, 'manifest', { version: 1, refs: [] });
    if (at % 3 === 0) await writeFile(join(dir, 'runs', runId, 'records/manifest.json'), '{"half');
  }
  await close();
});
afterEach(() => rm(dir, { recursive: true, force: true }));

async function listed(...options: readonly string[]): Promise<readonly (readonly [string, string])[]> {
  const { stdout } = await typeCommand(['runs', '--json', ...options], dir, { HOME: dir, VOIDBOX_STATE_DIR: dir });
  const { runs } = JSON.parse(stdout) as { runs: readonly { runId: string; state: string }[] };
  return runs.map(({ runId, state }) => [runId, state]);
}

test('a run that admission refused has the time of its refusal', async () => {
  const { events, close } = await openStores({ stateDir: dir });
  const atMs = Date.now() - 5 * 60_000;
  const failure = { code: 'admit/invalid', message: 'no', stderrTail: '' } as const;
  const outcome = { state: 'failed', failedStage: null, failure, output: null } as const;
  await events.append('refused', [{ ...finishedEvent(), atMs, body: { type: 'run-finished', outcome } }]);
  await close();
  const { stdout } = await typeCommand(['runs', '--all'], dir, { HOME: dir, VOIDBOX_STATE_DIR: dir });
  expect(stdout).toMatch(/^refused +.*failed.* +0\/0 +5m ago.*admit\/invalid/m);
});

test('a run that waited for its admission is as old as its workflow, and took the time since its admission', async () => {
  const { events, close } = await openStores({ stateDir: dir });
  const nowMs = Date.now();
  const admitted = { type: 'run-admitted', name: 'late', kind: 'workflow', hostId: 'h', stages: [] } as const;
  const admit = (runId: string, startedAtMs: number, atMs: number): Promise<unknown> =>
    events.append(runId, [
      { id: EVENT_ID.runAdmitted, atMs, body: { ...admitted, outputStage: null, startedAtMs } },
      { ...finishedEvent(), atMs: atMs + 2_000 },
    ]);
  // Two hours in the queue: the run is older than the one that was admitted at once, an hour ago.
  await admit('waited', nowMs - 2 * 3_600_000 - 60_000, nowMs - 60_000);
  await admit('prompt', nowMs - 3_600_000, nowMs - 3_600_000);
  await close();
  const type = async (...options: readonly string[]): Promise<string> =>
    (await typeCommand(['runs', '--name', 'late', ...options], dir, { HOME: dir, VOIDBOX_STATE_DIR: dir })).stdout;
  const table = await type();
  expect(table).toMatch(/^waited +.*succeeded.* +0\/0 +2h ago +2\.0 s/m);
  expect(table.indexOf('prompt')).toBeLessThan(table.indexOf('waited'));
  expect(await type('--since', '90m')).not.toContain('waited');
  const { runs } = JSON.parse(await type('--json')) as { readonly runs: readonly { readonly startedAt: string }[] };
  expect(runs[1]?.startedAt).toBe(new Date(nowMs - 2 * 3_600_000 - 60_000).toISOString());
});

test('`runs` lists the latest runs first, up to the requested number', async () => {
  expect(await listed('-n', '4')).toEqual([
    ['r8', 'succeeded'],
    ['r7', 'succeeded'],
    ['r6', 'damaged'],
    ['r5', 'succeeded'],
  ]);
  expect(await listed()).toHaveLength(9);
});

test('`runs` reports that there are more runs than it lists, and how to see them', async () => {
  const said = async (...options: readonly string[]): Promise<string> =>
    (await typeCommand(['runs', ...options], dir, { HOME: dir, VOIDBOX_STATE_DIR: dir })).stdout;
  const more = 'The latest 4 are shown. More: voidbox runs --limit N; all: voidbox runs --all\n';
  expect(await said('-n', '4')).toContain(`\n${more}`);
  for (const options of [['-n', '9'], ['--all'], ['--state', 'damaged', '-n', '3']])
    expect(await said(...options)).not.toContain('are shown');
  expect(await listed('--all')).toHaveLength(9);
  const json = async (...options: readonly string[]): Promise<unknown> =>
    (JSON.parse(await said('--json', ...options)) as { hasMore: unknown }).hasMore;
  expect([await json('-n', '8'), await json('-n', '9'), await json('-a')]).toEqual([true, false, false]);
  const both = await typeCommand(['runs', '--all', '-n', '3'], dir, { HOME: dir, VOIDBOX_STATE_DIR: dir });
  expect(both.code).toBe(2);
});

test('`runs` lists a run with damaged records as damaged, whatever state its events have', async () => {
  expect(await listed('--state', 'damaged')).toEqual(['r6', 'r3', 'r0'].map((runId) => [runId, 'damaged']));
  expect(await listed('--state', 'damaged', '-n', '2')).toHaveLength(2);
  // One page of the index is not enough for these.
  expect(await listed('--state', 'succeeded', '-n', '5')).toEqual(
    ['r8', 'r7', 'r5', 'r4', 'r2'].map((runId) => [runId, 'succeeded']),
  );
  expect(await listed('--state', 'failed')).toEqual([]);
});

test('`runs` lists runs of a spec, and runs that started since a moment', async () => {
  const { events, close } = await openStores({ stateDir: dir });
  for (const [runId, name, atMs] of [
    ['sales-1', 'sales', Date.now() - 3 * 3_600_000],
    ['sales-2', 'sales', Date.now()],
    ['other', 'salesman', Date.now()],
  ] as const)
    await events.append(runId, [
      {
        id: 'run/admitted',
        atMs,
        body: { type: 'run-admitted', name, kind: 'workflow', hostId: 'h', stages: [], outputStage: null },
      },
      finishedEvent(),
    ]);
  await close();
  const ids = async (...options: readonly string[]) => (await listed(...options)).map(([runId]) => runId);
  expect(await ids('--name', 'sales')).toEqual(['sales-2', 'sales-1']);
  expect(await ids('--name', 'sales', '--since', '2h')).toEqual(['sales-2']);
  expect(await ids('--name', 'sales', '--limit', '1')).toEqual(['sales-2']);
  expect(await ids('--since', '1970-01-01T00:00:01.006Z', '--state', 'succeeded', '--all')).toEqual([
    ...(await ids('--since', '1d')),
    'r8',
    'r7',
  ]);
  const at = await typeCommand(['runs', '--since', '12'], dir, { HOME: dir, VOIDBOX_STATE_DIR: dir });
  expect(at).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('It must be an age (90s, 10m, 2h, 1d) or a time') as unknown,
  });
  const none = await typeCommand(['runs', '--name', 'no'], dir, { HOME: dir, VOIDBOX_STATE_DIR: dir });
  expect(none.stdout).toBe('No run matches these options.\n');
});

test('a folder that names no run is listed under its own name, and counts', async () => {
  const hashed = `%long-${'a'.repeat(64)}`;
  await writeFile(join(dir, 'runs', hashed), '');
  expect((await listed('-n', '2')).map(([runId]) => runId)).toEqual([hashed, 'r8']);
  expect((await listed('--state', 'damaged')).map(([runId]) => runId)).toEqual([hashed, 'r6', 'r3', 'r0']);
});

test('`runs` reports that no run has the state, and that there are no runs', async () => {
  const said = async (...options: readonly string[]): Promise<string> =>
    (await typeCommand(['runs', ...options], dir, { HOME: dir, VOIDBOX_STATE_DIR: dir })).stdout;
  expect(await said('--state', 'running')).toBe('No run is running.\n');
  expect(await said('--waiting')).toBe('No run waits for an answer.\n');
  await rm(join(dir, 'runs'), { recursive: true });
  expect(await said('--state', 'running')).toContain('No runs yet.');
  expect(await said('--waiting')).toBe('No run waits for an answer.\n');
});

test('`runs` without a server succeeds, and does not know the runs that wait for admission', async () => {
  const { code, stdout, stderr } = await typeCommand(['runs', '--json', '-n', '1'], dir, {
    HOME: dir,
    VOIDBOX_STATE_DIR: dir,
  });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(JSON.parse(stdout)).toMatchObject({ runs: [{ runId: 'r8' }], admitting: null });
  const typed = async (...options: readonly string[]): Promise<string> =>
    (await typeCommand(['runs', ...options], dir, { HOME: dir, VOIDBOX_STATE_DIR: dir })).stdout;
  expect(await typed()).not.toContain('admission');
  // An embedded server ran here.
  await writeFile(join(dir, 'temporal.db'), '');
  const unknown =
    'The embedded stack is not running: runs that wait for admission are not listed. Start it: voidbox up\n';
  expect(await typed()).toContain(`\n\n${unknown}`);
  expect(await typed('--state', 'running')).toBe(`No run is running.\n\n${unknown}`);
  expect(await typed('--state', 'failed')).toBe('No run is failed.\n');
});

test('`runs` reports that no stack continues the open runs', async () => {
  const { events, close } = await openStores({ stateDir: dir });
  await events.append('open', [{ ...noticeEvent('a'), atMs: Date.now() }]);
  await close();
  const typed = async (...line: readonly string[]): Promise<string> =>
    (await typeCommand(line, dir, { HOME: dir, VOIDBOX_STATE_DIR: dir })).stdout;
  const standstill =
    'The embedded stack is not running: runs on it continue when it is started. Start it: voidbox up\n';
  expect(await typed('runs')).toContain(`\n\n${standstill}`);
  expect(await typed('status', 'open')).toContain(`\n\n${standstill}`);
  for (const line of [
    ['runs', '--state', 'succeeded'],
    ['status', 'r8'],
    ['runs', '--json'],
  ])
    expect(await typed(...line)).not.toContain('not running');
});
