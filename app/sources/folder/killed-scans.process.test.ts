/** Watched folders whose services are killed at random moments, over PostgreSQL and the files of artifacts. */
import { createHash } from 'node:crypto';
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { keepAllowedSources } from '../../../client/embedded/allowed-sources.ts';
import { API_RULES, type Trigger } from '../../../domain/delivery/trigger.ts';
import { openStores } from '../../../store/open-stores.ts';
import { makeVersion } from '../../../test/conformance/deployments.ts';
import { bytesOf } from '../../../test/conformance/store.ts';
import { type KilledProcesses, openKilledProcesses } from '../../../test/rig/access/killed-processes.ts';

const FILES = 60;
const KILLS = 12;
const LIMIT_MS = 60_000;

let processes: KilledProcesses;

beforeAll(async () => {
  processes = await openKilledProcesses('access/source-process.ts');
}, 300_000);
afterAll(async () => await processes.stop());

const TRIGGER = (path: string): Trigger => ({
  ...API_RULES,
  name: 'files',
  source: { kind: 'folder', path, match: '*.csv', existing: 'start', everyMs: 1_000 },
});

/** Large ones take a while to store. */
const write = (at: number): string => `${at},`.repeat(at % 7 === 0 ? 400_000 : 10);

test('each file starts one delivery with its bytes, although the services are killed', async () => {
  const { folder } = processes;
  const database = await processes.openDatabase();
  const { access } = database;
  const { deliveries, deployments } = access.triggers;
  const [incoming, stateDir] = [join(folder, 'incoming'), join(folder, 'state')];
  mkdirSync(incoming);
  keepAllowedSources(stateDir, { watch: [incoming] });
  await deployments.deploy(makeVersion('review', { triggers: [TRIGGER(incoming)] }), { isPaused: false });
  const start = async () => await processes.start(database, { stateDir });
  const running = await Promise.all([start(), start()]);
  const wanted = new Set<string>();
  let written = 0;
  const put = (name: string, text: string): void => {
    writeFileSync(join(incoming, `.${name}`), text);
    renameSync(join(incoming, `.${name}`), join(incoming, name));
    wanted.add(`${name} ${createHash('sha256').update(text).digest('hex')}`);
  };
  const count = async (): Promise<number> => (await deliveries.list({ limit: 999 })).length;
  for (let kills = 0; kills < KILLS; kills += 1) {
    const before = await count();
    for (const until = written + FILES / KILLS; written < until; written += 1) {
      put(`${written}.csv`, write(written));
      // Its first bytes may start a run, and its later ones must.
      if (written % 5 === 4) put(`${written - 4}.csv`, `again ${written}`);
    }
    const at = kills % running.length;
    const moment = Date.now() + Math.random() * 400;
    while (Date.now() < moment || (kills % 3 === 0 && (await count()) === before)) await sleep(5);
    await running[at]!.kill();
    running[at] = await start();
  }
  const isComplete = async (): Promise<boolean> => {
    const found = new Set((await listFiles()).map(({ key }) => key));
    return Array.from({ length: FILES }, (_, at) => at).every((at) =>
      [...found].some((key) => key.startsWith(`${at}.csv `)),
    );
  };
  const listFiles = async () =>
    await Promise.all(
      (await deliveries.list({ limit: 999 })).map(async ({ id, state }) => {
        const body = Buffer.from((await deliveries.readBody(id))!).toString();
        const { path, artifact } = JSON.parse(body) as {
          path: string;
          artifact: { sha256: string; sizeBytes: number; mediaType: string };
        };
        return { key: `${path} ${artifact.sha256}`, state, artifact };
      }),
    );
  const until = Date.now() + LIMIT_MS;
  while (!(await isComplete()) && Date.now() < until) await sleep(100);
  const files = await listFiles();
  await Promise.all(running.map(async (each) => await each.kill()));
  await access.close();
  const keys = files.map(({ key }) => key);
  expect(new Set(keys).size).toBe(keys.length);
  // The first bytes of a file that is written again may be missed, and no others.
  expect(keys.filter((key) => !wanted.has(key))).toEqual([]);
  const missed = [...wanted].filter((key) => !keys.includes(key));
  expect(missed.filter((key) => Number.parseInt(key, 10) % 5 !== 0)).toEqual([]);
  const stores = await openStores({ stateDir });
  for (const { artifact } of files)
    expect((await bytesOf(stores.artifacts.open(artifact))).length).toBe(artifact.sizeBytes);
  await stores.close();
}, 180_000);
