/** The guide of folders, typed as a reader types it, against the part of a service that reads sources. */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { keepAllowedSources } from '../../client/embedded/allowed-sources.ts';
import type { Trigger } from '../../domain/delivery/trigger.ts';
import { loadText } from '../../domain/language/load.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { openStores } from '../../store/open-stores.ts';
import type { TriggerStore } from '../../store/triggers.ts';
import { makeVersion } from '../../test/conformance/deployments.ts';
import { bytesOf } from '../../test/conformance/store.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import { type Sources, startSources } from './start-sources.ts';

const PAGE = readFileSync(join(findPackageRoot(), 'docs/guides/folders.md'), 'utf8');

let dir: string;
let incoming: string;
let triggers: TriggerStore;
let lines: string[];
let wakes: number;

beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-sources-')));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  incoming = join(dir, 'incoming');
  mkdirSync(incoming);
  ({ triggers } = createMemoryAccess());
  lines = [];
  wakes = 0;
});

async function start(): Promise<Sources> {
  const stateDir = join(dir, 'state');
  const stores = await openStores({ stateDir });
  const sources = startSources({
    env: readEnvironment({ VOIDBOX_STATE_DIR: stateDir, VOIDBOX_CACHE_DIR: stateDir }),
    machine: createTestMachine(stores),
    openTriggers: () => Promise.resolve(triggers),
    readSecrets: () => Promise.resolve({}),
    wake: () => (wakes += 1),
    log: (line) => lines.push(line),
    leastPauseMs: 20,
  });
  onTestFinished(async () => {
    await sources.close();
    await stores.close();
  });
  return sources;
}

/** The trigger of the guide, with the folder of the test. */
async function readTrigger(): Promise<Trigger> {
  const spec = /```yaml\n([^]*?)```/.exec(PAGE)![1]!.replace('/srv/incoming', incoming);
  const { triggers: compiled } = await loadText(spec, 'import.yaml', { baseDir: dir });
  expect(compiled).toHaveLength(1);
  return compiled[0]!;
}

async function deploy(...rules: readonly Trigger[]): Promise<void> {
  await triggers.deployments.deploy(makeVersion('import', { triggers: rules, spec: JSON.stringify(rules) }), {
    isPaused: false,
  });
}

async function typeScript(): Promise<void> {
  const script = /<!-- put a file -->\n```sh\n([^]*?)```/.exec(PAGE)![1]!;
  await promisify(execFile)('bash', ['-euc', script], { env: { PATH: process.env['PATH'], FOLDER: incoming } });
}

const listProblems = async (): Promise<readonly string[]> =>
  (await triggers.sources.listProblems('import')).map(({ code }) => code);

test('the file of the guide becomes a delivery whose artifact has its bytes', async () => {
  keepAllowedSources(join(dir, 'state'), { watch: [dir] });
  await deploy(await readTrigger());
  await start();
  await typeScript();
  await expect.poll(async () => (await triggers.deliveries.list({ limit: 9 })).length, { timeout: 20_000 }).toBe(1);
  const [row] = await triggers.deliveries.list({ limit: 9 });
  expect(row).toMatchObject({ deployment: 'import', trigger: 'csv', state: 'accepted' });
  const payload = JSON.parse(Buffer.from((await triggers.deliveries.readBody(row!.id))!).toString()) as {
    readonly name: string;
    readonly artifact: { readonly sha256: string; readonly sizeBytes: number; readonly mediaType: string };
  };
  expect(payload.name).toBe('orders.csv');
  const stores = await openStores({ stateDir: join(dir, 'state') });
  expect((await bytesOf(stores.artifacts.open(payload.artifact))).toString()).toBe('id,amount\n1,20\n');
  await stores.close();
  expect(wakes).toBe(1);
});

test('a folder that is gone or no longer allowed is a problem until it is back', async () => {
  const stateDir = join(dir, 'state');
  keepAllowedSources(stateDir, { watch: [dir] });
  await deploy(await readTrigger());
  renameSync(incoming, join(dir, 'away'));
  await start();
  await expect.poll(listProblems, { timeout: 20_000 }).toEqual(['source/unavailable']);
  expect(lines).toEqual([expect.stringMatching(/^the trigger csv of import: source\/unavailable: /)]);
  const [problem] = await triggers.sources.listProblems('import');
  expect(problem!.message).toBe('the folder does not exist');
});

test('a folder is read while its deployment is paused, by its new version, and not after it is deleted', async () => {
  keepAllowedSources(join(dir, 'state'), { watch: [dir] });
  const trigger = await readTrigger();
  await deploy(trigger);
  await triggers.deployments.pause('import', 'hold', 1);
  const sources = await start();
  await typeScript();
  const count = async (): Promise<number> => (await triggers.deliveries.list({ limit: 9 })).length;
  await expect.poll(count, { timeout: 20_000 }).toBe(1);
  await deploy({ ...trigger, name: 'csv', input: '${{ input.name }}' });
  sources.wake();
  await expect
    .poll(
      async () => {
        await promisify(execFile)('bash', [
          '-euc',
          `date +%N > "${incoming}/.b" && mv "${incoming}/.b" "${incoming}/b.csv"`,
        ]);
        return (await triggers.deliveries.list({ limit: 1 }))[0]?.version;
      },
      { timeout: 20_000, interval: 200 },
    )
    .toBe(2);
  await triggers.deployments.delete('import', 2);
  sources.wake();
  await expect
    .poll(async () => (await triggers.sources.begin({ deployment: 'import', trigger: 'csv' }, incoming, -1)) === -1, {
      timeout: 20_000,
    })
    .toBe(true);
});

test('a service without an allowed folder reads none and records the problem', async () => {
  await deploy(await readTrigger());
  await start();
  await expect.poll(listProblems, { timeout: 20_000 }).toEqual(['source/not-allowed']);
});
