import { beforeEach, expect, test } from 'vitest';
import type { DeploymentStore } from '../../store/triggers.ts';
import { makeVersion, WEBHOOK } from '../../test/conformance/deployments.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { createEnabledList, type EnabledList } from './enabled-versions.ts';

const MANY = 1_000;

let deployments: DeploymentStore;
let list: EnabledList;
let pages: number;
let readVersions: number;

beforeEach(async () => {
  const store = createMemoryAccess().triggers.deployments;
  [pages, readVersions] = [0, 0];
  deployments = {
    ...store,
    async list(limit, after) {
      pages += 1;
      return await store.list(limit, after);
    },
    async findVersions(asked) {
      readVersions += asked.length;
      return await store.findVersions(asked);
    },
  };
  list = createEnabledList();
  for (let at = 0; at < MANY; at += 1)
    await deployments.deploy(makeVersion(`d${String(at).padStart(4, '0')}`), { isPaused: false });
});

test('a second look at many deployments reads none of them', async () => {
  const first = await list(deployments);
  expect(first.map(({ name }) => name)).toEqual((await deployments.list(MANY)).map(({ name }) => name));
  expect(first[0]).toMatchObject({ isPaused: false, triggers: [WEBHOOK] });
  [pages, readVersions] = [0, 0];
  expect(await list(deployments)).toBe(first);
  expect([pages, readVersions]).toEqual([0, 0]);
});

test('a look after a change reads only the new version', async () => {
  await list(deployments);
  readVersions = 0;
  await deployments.pause('d0001', 'hold', 1);
  await deployments.deploy(makeVersion('d0002', { spec: 'name: y', triggers: [] }), { isPaused: false });
  await deployments.delete('d0003', 1);
  const later = await list(deployments);
  expect(later.slice(0, 4).map(({ name, isPaused, triggers }) => [name, isPaused, triggers.length])).toEqual([
    ['d0000', false, 1],
    ['d0001', true, 1],
    ['d0002', false, 0],
    ['d0004', false, 1],
  ]);
  expect([later.length, readVersions]).toEqual([MANY - 1, 1]);
});

test('a change during a look is found by the next one', async () => {
  const changing = {
    ...deployments,
    async list(limit: number, after?: string) {
      const rows = await deployments.list(limit, after);
      await deployments.pause('d0001', 'hold', 1);
      return rows;
    },
  };
  expect((await list(changing))[1]!.isPaused).toBe(false);
  expect((await list(deployments))[1]!.isPaused).toBe(true);
});
