import { beforeEach, expect, test } from 'vitest';
import type { DeploymentStore } from '../../store/triggers.ts';
import { makeVersion, WEBHOOK } from '../../test/conformance/deployments.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { createHookFinder, type FindHook } from './find-hook.ts';

const ACTIVE = { isPaused: false };

let deployments: DeploymentStore;
let find: FindHook;
let read: number;

beforeEach(() => {
  deployments = createMemoryAccess().triggers.deployments;
  read = 0;
  const counted: typeof deployments = {
    ...deployments,
    findVersion: async (name, version) => {
      read += 1;
      return await deployments.findVersion(name, version);
    },
  };
  find = createHookFinder(() => Promise.resolve(counted), 2);
});

async function deploy(name: string, secret: string): Promise<void> {
  const source = { ...WEBHOOK.source, verify: { scheme: 'github', secret } } as typeof WEBHOOK.source;
  await deployments.deploy(makeVersion(name, { spec: secret, triggers: [{ ...WEBHOOK, source }] }), ACTIVE);
}

async function findSecret(deployment: string): Promise<string | null> {
  const hook = await find({ deployment, name: 'push' });
  return hook === null ? null : `${hook.version} ${(hook.source.verify as { readonly secret: string }).secret}`;
}

test('a version is read once, and the webhooks of the enabled one are found', async () => {
  await deploy('review', 'ONE');
  expect([await findSecret('review'), await findSecret('review'), read]).toEqual(['1 ONE', '1 ONE', 1]);
  await deploy('review', 'TWO');
  expect([await findSecret('review'), read]).toEqual(['2 TWO', 2]);
  await deployments.enable('review', 1, 0);
  expect([await findSecret('review'), read]).toEqual(['1 ONE', 2]);
  await deployments.delete('review', 0);
  expect(await findSecret('review')).toBeNull();
  await deploy('review', 'THREE');
  expect(await findSecret('review')).toBe('3 THREE');
});

test('webhooks of many versions are forgotten and read again', async () => {
  for (const name of ['a', 'b', 'c']) await deploy(name, name.toUpperCase());
  for (const name of ['a', 'b', 'a', 'c', 'a', 'b']) expect(await findSecret(name)).toBe(`1 ${name.toUpperCase()}`);
  expect(read).toBe(4);
});
