/** The promises of every store of deployments. A store's own test file calls these tests. */
import { NO_NOTIFY } from '../../domain/notification/notify.ts';
import { createHash } from 'node:crypto';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { RunSource, Trigger } from '../../domain/delivery/trigger.ts';
import type { CodedError } from '../../domain/errors/coded-error.ts';
import type { AccessStore } from '../../store/access.ts';
import type { DeploymentStore, NewVersion } from '../../store/triggers.ts';

export interface DeploymentSubject {
  readonly name: string;
  /** Opens an empty store. */
  open(): Promise<AccessStore>;
}

const NOW_MS = 1_795_996_352_123;

export const WEBHOOK: Trigger = {
  name: 'push',
  source: { kind: 'webhook', verify: { scheme: 'github', secret: 'HOOK' }, format: 'payload', respond: null },
  when: null,
  params: {},
  input: null,
  dedupe: { key: null, forMs: 86_400_000 },
  debounce: null,
  batch: null,
  rate: null,
  order: null,
};

let made = 0;

/** Equal texts of specs are equal versions. */
export function makeVersion(deployment: string, changes: Partial<NewVersion> = {}): NewVersion {
  const spec = changes.spec ?? 'name: x';
  made += 1;
  return {
    deployment,
    createdAtMs: NOW_MS,
    deployer: null,
    spec,
    specName: 'x.yaml',
    params: {},
    paramNames: [],
    folder: `folder-${made}`,
    files: null,
    specDir: '',
    bundles: {},
    stages: [],
    triggers: [WEBHOOK],
    notify: NO_NOTIFY,
    secrets: ['HOOK'],
    allowMounts: [],
    allowGit: [],
    mockAgents: false,
    hash: createHash('sha256').update(spec).digest('hex'),
    ...changes,
  };
}

export function testDeployments({ name, open }: DeploymentSubject): void {
  describe(`deployments ${name}`, () => {
    let store: DeploymentStore;

    beforeEach(async () => {
      const opened = await open();
      store = opened.triggers.deployments;
      onTestFinished(() => opened.close());
    });

    testVersions(() => store);
    testStates(() => store);
    testLinks(() => store);
  });
}

const ACTIVE = { isPaused: false };

function testVersions(store: () => DeploymentStore): void {
  test('a version is found with all that it was deployed with', async () => {
    const version = makeVersion('review', {
      deployer: 'ci\0\uD800',
      spec: 'a\0b \uD800 \\0 ü😀',
      params: { constructor: '1', region: 'north\n' },
      paramNames: ['region', 'constructor'],
      bundles: { 'data/\uDC00': 'a'.repeat(64) },
      stages: [{ id: 'a', hash: 'b' }],
      allowGit: ['example.com/a'],
      mockAgents: true,
    });
    const { deployment, version: deployed, isNew } = await store().deploy(version, ACTIVE);
    expect(isNew).toBe(true);
    expect(deployed).toEqual({ ...version, version: 1 });
    expect(await store().findVersion('review', 1)).toEqual(deployed);
    expect(await store().findVersion('review', 2)).toBeNull();
    expect(await store().findVersion('other', 1)).toBeNull();
    const asked = [deployed, { deployment: 'review', version: 2 }, { deployment: 'other\0', version: 1 }];
    expect(await store().findVersions(asked)).toEqual([deployed]);
    expect(await store().findVersions([])).toEqual([]);
    expect(deployment).toEqual({
      name: 'review',
      version: 1,
      isPaused: false,
      onPause: 'hold',
      createdAtMs: NOW_MS,
      changedAtMs: NOW_MS,
    });
    expect(await store().find('review')).toEqual(deployment);
  });

  test('an equal version is not added', async () => {
    const first = await store().deploy(makeVersion('review'), ACTIVE);
    const again = await store().deploy(makeVersion('review', { createdAtMs: NOW_MS + 1 }), ACTIVE);
    expect(again).toEqual({ ...first, isNew: false });
    expect(await store().listVersions('review', 9)).toEqual([first.version]);
  });

  test('an equal version is added if a rollback has enabled another one', async () => {
    await store().deploy(makeVersion('review', { spec: 'one' }), ACTIVE);
    await store().deploy(makeVersion('review', { spec: 'two' }), ACTIVE);
    await store().enable('review', 1, NOW_MS + 1);
    const { version } = await store().deploy(makeVersion('review', { spec: 'two' }), ACTIVE);
    expect(version.version).toBe(3);
  });

  test('the folder of a version is known, also after its deployment was deleted', async () => {
    const { folder } = makeVersion('review');
    await store().deploy(makeVersion('review', { folder }), ACTIVE);
    await store().delete('review', NOW_MS);
    expect([await store().hasFolder(folder), await store().hasFolder('other')]).toEqual([true, false]);
  });

  test('versions of one deployment that are deployed at once have different numbers', async () => {
    const deployed = await Promise.all(
      ['one', 'two', 'three', 'four', 'five'].map((spec) => store().deploy(makeVersion('review', { spec }), ACTIVE)),
    );
    expect(deployed.map(({ version }) => version.version).toSorted()).toEqual([1, 2, 3, 4, 5]);
    expect((await store().find('review'))!.version).toBe(5);
  });

  test('the latest version is listed first, and pages follow a number', async () => {
    for (const spec of ['one', 'two', 'three']) await store().deploy(makeVersion('review', { spec }), ACTIVE);
    await store().deploy(makeVersion('other'), ACTIVE);
    const numbers = async (limit: number, before?: number): Promise<readonly number[]> =>
      (await store().listVersions('review', limit, before)).map(({ version }) => version);
    expect(await numbers(2)).toEqual([3, 2]);
    expect(await numbers(2, 2)).toEqual([1]);
    expect(await numbers(2, 1)).toEqual([]);
  });
}

function testStates(store: () => DeploymentStore): void {
  test('deployments are listed by the bytes of their names, in pages', async () => {
    for (const name of ['b', 'B', 'a-1', 'a']) await store().deploy(makeVersion(name), ACTIVE);
    const names = async (limit: number, after?: string): Promise<readonly string[]> =>
      (await store().list(limit, after)).map(({ name }) => name);
    expect(await names(9)).toEqual(['B', 'a', 'a-1', 'b']);
    expect(await names(2)).toEqual(['B', 'a']);
    expect(await names(2, 'a')).toEqual(['a-1', 'b']);
  });

  test('the mark of the list follows each change, and nothing else', async () => {
    const marks = [await store().readMark()];
    const readNext = async (): Promise<void> => void marks.push(await store().readMark());
    await store().deploy(makeVersion('a'), ACTIVE);
    await readNext();
    await store().deploy(makeVersion('b'), ACTIVE);
    await readNext();
    await store().deploy(makeVersion('a', { spec: 'name: y' }), ACTIVE);
    await readNext();
    await store().enable('a', 1, NOW_MS + 1);
    await readNext();
    // All of these have one time.
    await store().pause('a', 'hold', NOW_MS);
    await readNext();
    await store().pause('a', 'drop', NOW_MS);
    await readNext();
    await store().delete('b', NOW_MS);
    await readNext();
    expect(new Set(marks).size).toBe(marks.length);
    await store().deploy(makeVersion('a'), ACTIVE);
    expect(await store().readMark()).toBe(marks.at(-1));
  });

  test('a pause holds or drops, and a later version keeps it', async () => {
    await store().deploy(makeVersion('review'), ACTIVE);
    expect(await store().pause('review', 'drop', NOW_MS + 5)).toMatchObject({
      isPaused: true,
      onPause: 'drop',
      changedAtMs: NOW_MS + 5,
    });
    const { deployment } = await store().deploy(makeVersion('review', { spec: 'two' }), ACTIVE);
    expect(deployment).toMatchObject({ version: 2, isPaused: true, onPause: 'drop' });
    expect(await store().resume('review', NOW_MS + 6)).toMatchObject({ isPaused: false, changedAtMs: NOW_MS + 6 });
    expect(await store().pause('none', 'hold', NOW_MS)).toBeNull();
    expect(await store().resume('none', NOW_MS)).toBeNull();
  });

  test('a deployment can begin paused', async () => {
    const { deployment } = await store().deploy(makeVersion('review'), { isPaused: true });
    expect(deployment.isPaused).toBe(true);
    expect(await store().hasEnabled()).toBe(false);
  });

  test('an earlier version is enabled again, and no other', async () => {
    await store().deploy(makeVersion('review', { spec: 'one' }), ACTIVE);
    await store().deploy(makeVersion('review', { spec: 'two' }), ACTIVE);
    await store().deploy(makeVersion('other'), ACTIVE);
    expect(await store().enable('review', 1, NOW_MS + 7)).toMatchObject({ version: 1, changedAtMs: NOW_MS + 7 });
    expect(await store().enable('review', 3, NOW_MS)).toBeNull();
    expect(await store().enable('none', 1, NOW_MS)).toBeNull();
    expect((await store().find('review'))!.version).toBe(1);
  });

  test('a deleted deployment has no triggers, keeps its versions and continues their numbers', async () => {
    await store().deploy(makeVersion('review'), ACTIVE);
    expect(await store().hasEnabled()).toBe(true);
    expect(await store().delete('review', NOW_MS + 1)).toBe(true);
    expect(await store().delete('none', NOW_MS + 1)).toBe(false);
    expect([await store().find('review'), await store().list(9), await store().hasEnabled()]).toEqual([
      null,
      [],
      false,
    ]);
    expect(await store().enable('review', 1, NOW_MS)).toBeNull();
    expect(await store().findVersion('review', 1)).toMatchObject({ version: 1 });
    const later = { createdAtMs: NOW_MS + 2 };
    const { deployment, version } = await store().deploy(makeVersion('review', later), { isPaused: true });
    expect(version.version).toBe(2);
    expect(deployment).toMatchObject({ isPaused: true, onPause: 'hold', createdAtMs: NOW_MS + 2 });
  });
}

function testLinks(store: () => DeploymentStore): void {
  const follow = (deployment: string, of: string, spec = `follow ${of}`) =>
    store().deploy(
      makeVersion(deployment, { spec, triggers: [{ ...WEBHOOK, name: 'after', source: followRuns(of) }] }),
      ACTIVE,
    );

  test('only enabled versions have links', async () => {
    await follow('b', 'a');
    await follow('c', 'a');
    await follow('c', 'gone', 'other');
    await follow('d', 'b');
    await store().delete('d', NOW_MS);
    const links = await store().listLinks();
    expect(links.toSorted((one, other) => (one.deployment < other.deployment ? -1 : 1))).toEqual([
      { deployment: 'b', upstream: 'a' },
      { deployment: 'c', upstream: 'gone' },
    ]);
    expect((await store().listFollowed(['a', 'b', 'gone', 'x\0'])).toSorted()).toEqual(['a', 'gone']);
  });

  test('a version that closes a circle is refused, and changes nothing', async () => {
    await follow('a', 'a').then(
      () => expect.unreachable(),
      (error: Error) =>
        expect([(error as CodedError).code, error.message]).toEqual([
          'deploy/circle',
          'deployments would follow each other: a → a',
        ]),
    );
    expect(await store().find('a')).toBeNull();
    await store().deploy(makeVersion('a'), ACTIVE);
    await follow('b', 'a');
    await follow('c', 'b');
    await expect(follow('a', 'c')).rejects.toMatchObject({ code: 'deploy/circle' });
    expect(await store().find('a')).toMatchObject({ version: 1 });
    expect(await store().listVersions('a', 9)).toHaveLength(1);
  });

  test('a rollback and a deployment that was deleted close no circle', async () => {
    await follow('b', 'a');
    await store().deploy(makeVersion('b', { spec: 'alone' }), ACTIVE);
    await follow('a', 'b');
    await expect(store().enable('b', 1, NOW_MS)).rejects.toMatchObject({ code: 'deploy/circle' });
    expect(await store().find('b')).toMatchObject({ version: 2 });
    await store().delete('a', NOW_MS);
    expect(await store().enable('b', 1, NOW_MS)).toMatchObject({ version: 1 });
    await expect(follow('a', 'b')).rejects.toMatchObject({ code: 'deploy/circle' });
    expect(await store().find('a')).toBeNull();
  });

  test('two deployments at once close no circle', async () => {
    for (let round = 0; round < 8; round += 1) {
      const names: readonly [string, string, string] = [`a${round}`, `b${round}`, `c${round}`];
      const [a, b, c] = names;
      const results = await Promise.allSettled([follow(a, b), follow(b, c), follow(c, a)]);
      expect(results.filter(({ status }) => status === 'rejected')).toHaveLength(1);
      expect((await store().listLinks()).filter(({ deployment }) => names.includes(deployment))).toHaveLength(2);
    }
  });
}

function followRuns(of: string): RunSource {
  return { kind: 'run', of, states: ['succeeded'] };
}
