import { mkdtemp, readdir, rm, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { chunksOf } from '../../test/conformance/store.ts';
import { openStores } from '../open-stores.ts';
import { artifactPath } from './artifact-store.ts';
import { createHeldArtifacts } from './held-artifacts.ts';
import { prune } from './prune.ts';

const HASH = 'a'.repeat(64);
let dir: string;

beforeEach(async () => void (dir = await mkdtemp(join(tmpdir(), 'voidbox-held-'))));
afterEach(async () => await rm(dir, { recursive: true, force: true }));

test('an artifact is held until it is released, and a second hold begins its time again', async () => {
  const held = createHeldArtifacts(dir);
  expect(await held.listOlder(Infinity)).toEqual([]);
  await held.hold(HASH);
  await utimes(join(dir, 'held', HASH), new Date(5_000), new Date(5_000));
  expect([await held.listOlder(5_000), await held.listOlder(5_001)]).toEqual([[], [HASH]]);
  await held.hold(HASH);
  expect(await held.listOlder(5_001)).toEqual([]);
  await held.release(HASH);
  await held.release(HASH);
  expect(await held.listOlder(Infinity)).toEqual([]);
});

test.each(['', '../runs', 'A'.repeat(64)])('a name that is no hash is not held: %j', async (name) => {
  await expect(createHeldArtifacts(dir).hold(name)).rejects.toThrow(/is not the sha256/);
  expect(await readdir(dir)).toEqual([]);
});

test('prune keeps an old artifact that is held, until it is released', async () => {
  const stores = await openStores({ stateDir: dir });
  const { sha256 } = await stores.artifacts.put(chunksOf(Buffer.from('a,b'), 1), 'text/csv');
  const path = artifactPath(join(dir, 'artifacts'), sha256);
  await utimes(path, new Date(5_000), new Date(5_000));
  const held = createHeldArtifacts(dir);
  await held.hold(sha256);
  const options = { olderThanMs: null, keepLast: null, dryRun: false, artifactsNow: true, nowMs: Date.now() };
  expect(await prune(dir, options)).toMatchObject({ artifacts: 0 });
  await held.release(sha256);
  expect(await prune(dir, options)).toMatchObject({ artifacts: 1 });
  await stores.close();
});
