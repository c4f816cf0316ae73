import { beforeEach, expect, test } from 'vitest';
import type { TriggerStore } from '../../store/triggers.ts';
import { makeVersion, WEBHOOK } from '../../test/conformance/deployments.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { createTokenCaller } from '../../test/rig/access/token-caller.ts';
import type { Caller } from '../access/authenticate.ts';
import { changeDeployment, deleteDeployment, listDeployments, showDeployment } from './manage.ts';

const OWNER: Caller = { kind: 'owner' };
const NOW_MS = 1_795_996_400_000;
let triggers: TriggerStore;
beforeEach(() => void (triggers = createMemoryAccess().triggers));

async function deployAll(...names: readonly string[]): Promise<void> {
  for (const name of names) await triggers.deployments.deploy(makeVersion(name), { isPaused: false });
}

test('pages of deployments follow each other', async () => {
  await deployAll('a', 'b', 'c');
  const first = await listDeployments({ limit: 2 }, OWNER, triggers);
  expect([first.deployments.map(({ name }) => name), first.next]).toEqual([['a', 'b'], 'b']);
  const second = await listDeployments({ limit: 2, after: 'b' }, OWNER, triggers);
  expect([second.deployments.map(({ name }) => name), second.next]).toEqual([['c'], null]);
});

test('a token sees and changes only deployments whose runs it may see', async () => {
  await deployAll('ci', 'ops');
  const caller = createTokenCaller({ runs: ['ci-*'] });
  const { deployments } = await listDeployments({ limit: 9 }, caller, triggers);
  expect(deployments.map(({ name }) => name)).toEqual(['ci']);
  const context = { triggers, nowMs: NOW_MS };
  for (const name of ['ops', 'none']) {
    await expect(showDeployment(name, caller, triggers)).rejects.toMatchObject({ code: 'api/not-allowed' });
    await expect(changeDeployment(name, { kind: 'resume' }, caller, context)).rejects.toMatchObject({
      code: 'api/not-allowed',
    });
    await expect(deleteDeployment(name, caller, context)).rejects.toMatchObject({ code: 'api/not-allowed' });
  }
});

test('a shown version has the names of its parameters, and no spec, value or path of the host', async () => {
  const version = makeVersion('a', { params: { token: 'hunter2' }, spec: 'the text', allowMounts: ['/srv/data'] });
  await triggers.deployments.deploy(version, { isPaused: false });
  const shown = await showDeployment('a', OWNER, triggers);
  expect(shown.versions).toHaveLength(1);
  expect(shown.enabled.params).toEqual(['token']);
  for (const text of ['hunter2', 'the text', '/srv/data', version.folder])
    expect(JSON.stringify(shown)).not.toContain(text);
});

test('a rollback without a number enables the version before, and names what is missing', async () => {
  for (const spec of ['one', 'two']) await triggers.deployments.deploy(makeVersion('a', { spec }), { isPaused: false });
  const roll = (version: number | null) =>
    changeDeployment('a', { kind: 'rollback', version }, OWNER, { triggers, nowMs: NOW_MS });
  expect(await roll(null)).toMatchObject({ version: 1, enabled: { version: 1 } });
  await expect(roll(null)).rejects.toMatchObject({
    code: 'deploy/no-version',
    message: expect.stringContaining('before 1'),
  });
  await expect(roll(7)).rejects.toMatchObject({ message: expect.stringContaining('no version 7') });
  expect(await roll(2)).toMatchObject({ version: 2 });
});

test('a token enables only versions that follow deployments whose runs it may see', async () => {
  const caller = createTokenCaller({ runs: ['ci-*'] });
  const follow = (of: string) => ({ ...WEBHOOK, source: { kind: 'run', of, states: ['failed'] } }) as const;
  for (const of of ['ops', 'ci-build', 'ci-test'])
    await triggers.deployments.deploy(makeVersion('ci-report', { spec: of, triggers: [follow(of)] }), {
      isPaused: false,
    });
  const roll = (version: number) =>
    changeDeployment('ci-report', { kind: 'rollback', version }, caller, { triggers, nowMs: NOW_MS });
  await expect(roll(1)).rejects.toMatchObject({ code: 'api/not-allowed', message: expect.stringContaining('ops') });
  expect(await roll(2)).toMatchObject({ version: 2 });
});

test('a rollback that closes a circle is refused with its names, and an absent deployment is shown', async () => {
  const follow = (of: string) => ({ ...WEBHOOK, source: { kind: 'run', of, states: ['failed'] } }) as const;
  await triggers.deployments.deploy(makeVersion('a', { triggers: [follow('b')] }), { isPaused: false });
  expect(await showDeployment('a', OWNER, triggers)).toMatchObject({ absentUpstreams: ['b'] });
  await triggers.deployments.deploy(makeVersion('a', { spec: 'two' }), { isPaused: false });
  await triggers.deployments.deploy(makeVersion('b', { triggers: [follow('a')] }), { isPaused: false });
  expect(await showDeployment('b', OWNER, triggers)).toMatchObject({ absentUpstreams: [] });
  await expect(
    changeDeployment('a', { kind: 'rollback', version: 1 }, OWNER, { triggers, nowMs: NOW_MS }),
  ).rejects.toMatchObject({
    name: 'AppError',
    fault: 'usage',
    code: 'deploy/circle',
    message: 'deployments would follow each other: a → b → a',
    remedy: expect.stringContaining('Remove `run`'),
  });
});

test('a deployment that does not exist is named', async () => {
  const context = { triggers, nowMs: NOW_MS };
  const calls = [
    () => showDeployment('none', OWNER, triggers),
    () => changeDeployment('none', { kind: 'pause', deliveries: 'hold' }, OWNER, context),
    () => changeDeployment('none', { kind: 'rollback', version: null }, OWNER, context),
    () => deleteDeployment('none', OWNER, context),
  ];
  for (const call of calls)
    await expect(call()).rejects.toMatchObject({
      code: 'api/no-deployment',
      message: expect.stringContaining('`none`'),
    });
});
