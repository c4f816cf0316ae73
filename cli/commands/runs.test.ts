import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openStores } from '../../store/open-stores.ts';
import { finishedEvent, noticeEvent } from '../../test/conformance/store.ts';
import { typeCommand } from '../../test/rig/typed-command.ts';

// The first command that is typed loads the command line.
vi.setConfig({ testTimeout: 30_000 });

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

test('lists the latest first, as many as are wanted', async () => {
  expect(await listed('-n', '4')).toEqual([
    ['r8', 'succeeded'],
    ['r7', 'succeeded'],
    ['r6', 'damaged'],
    ['r5', 'succeeded'],
  ]);
  expect(await listed()).toHaveLength(9);
});

test('a run whose records are damaged is damaged, whatever its events come to', async () => {
  expect(await listed('--state', 'damaged')).toEqual(['r6', 'r3', 'r0'].map((runId) => [runId, 'damaged']));
  expect(await listed('--state', 'damaged', '-n', '2')).toHaveLength(2);
  // One page of the index is not enough for these.
  expect(await listed('--state', 'succeeded', '-n', '5')).toEqual(
    ['r8', 'r7', 'r5', 'r4', 'r2'].map((runId) => [runId, 'succeeded']),
  );
  expect(await listed('--state', 'failed')).toEqual([]);
});

test('a folder that names no run is listed under its own name, and counts', async () => {
  const hashed = `%long-${'a'.repeat(64)}`;
  await writeFile(join(dir, 'runs', hashed), '');
  expect((await listed('-n', '2')).map(([runId]) => runId)).toEqual([hashed, 'r8']);
  expect((await listed('--state', 'damaged')).map(([runId]) => runId)).toEqual([hashed, 'r6', 'r3', 'r0']);
});

test('says so when no run is in a state, and when there is none at all', async () => {
  const said = async (): Promise<string> =>
    (await typeCommand(['runs', '--state', 'running'], dir, { HOME: dir, VOIDBOX_STATE_DIR: dir })).stdout;
  expect(await said()).toBe('No run is running.\n');
  await rm(join(dir, 'runs'), { recursive: true });
  expect(await said()).toContain('No runs yet.');
});
