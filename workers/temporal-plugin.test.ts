import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NativeConnection, type Worker } from '@temporalio/worker';
import { expect, onTestFinished, test } from 'vitest';
import { findPackageRoot } from '../setup/package-root.ts';
import { createVoidboxPlugin, type VoidboxPluginOptions } from './temporal-plugin.ts';

/** Nothing connects before the worker is made. */
const connection = Object.create(NativeConnection.prototype) as NativeConnection;

test('a worker keeps its own activities in addition to those of Voidbox', async () => {
  const own = (): void => undefined;
  const { activities } = await createVoidboxPlugin().configureWorker!({
    connection,
    taskQueue: 'q',
    activities: { own },
  });
  expect(Object.keys(activities!).toSorted()).toEqual(
    expect.arrayContaining(['admit', 'finishRun', 'own', 'placeCommand', 'recordBoot', 'runCommand', 'runStage']),
  );
});

test('an activity with a name of Voidbox is refused, and not replaced', async () => {
  const own = (): void => undefined;
  const activities = { admit: own, runStage: own, recordBoot: own };
  const configured = createVoidboxPlugin().configureWorker!({ connection, taskQueue: 'q', activities });
  await expect(configured).rejects.toThrow('names that Voidbox needs: admit, runStage, recordBoot. Rename them');
});

test('a second Worker needs a plugin of its own', async () => {
  const plugin = createVoidboxPlugin();
  await plugin.configureWorker!({ connection, taskQueue: 'one' });
  const second = plugin.configureWorker!({ connection, taskQueue: 'two' });
  await expect(second).rejects.toThrow('the Voidbox plugin of the Worker on one was given to a Worker on two');
});

test('a connection of another copy of the SDK is refused', async () => {
  const foreign = { plugins: [] } as unknown as NativeConnection;
  const configured = createVoidboxPlugin().configureWorker!({ connection: foreign, taskQueue: 'q' });
  await expect(configured).rejects.toThrow('different copies of the Temporal SDK');
});

test.each<[unknown, string]>([
  [{ sandbox: 'docker' }, '`sandbox` is "docker"; it is \'mock\' or left out'],
  [{ allowEnv: 'TOKEN' }, '`allowEnv` must be a list of names'],
  [{ allowMounts: '/srv' }, '`allowMounts` must be a list of folders'],
  [{ allowKeep: 'on-failure' }, '`allowKeep` must be true or false'],
  [{ allowMount: ['/srv'] }, 'there is no option `allowMount`; there are stateDir, sandbox, allowMounts, '],
])('the plugin rejects invalid options: %j', (options, words) => {
  expect(() => createVoidboxPlugin(options as VoidboxPluginOptions)).toThrow(words);
});

test.each([
  ['github.com/*'],
  ['*/acme'],
  ['github.com/acme/a*'],
  ['github.com/acme/**'],
  ['*'],
  ['github.com'],
  ['https://github.com/acme'],
  ['github.com/acme/..'],
])('a repository place that is a pattern or no host/path is refused: %s', (place) => {
  expect(() => createVoidboxPlugin({ allowGit: ['github.com/acme/app', place] })).toThrow(
    new TypeError(
      'createVoidboxPlugin: `allowGit` must be a list of `host/path`, where `*` is no pattern: `host/owner` allows what lies below it',
    ),
  );
});

test.each([['*'], ['*:5432'], ['127.0.0.1'], ['http://127.0.0.1:80']])(
  'a service that is a pattern or no host:port is refused: %s',
  (service) => {
    expect(() => createVoidboxPlugin({ allowServices: ['127.0.0.1:5432', service] })).toThrow(
      new TypeError(
        'createVoidboxPlugin: `allowServices` must be a list of `host:port`, where `*` is no pattern: name each service',
      ),
    );
  },
);

test('a repository place and its owner are taken', () => {
  expect(createVoidboxPlugin({ allowGit: ['github.com/acme', 'GitHub.com/acme/app.git'] }).name).toBe('voidbox');
});

test('docs/reference/temporal-plugin.md has a row for each option', () => {
  const docs = readFileSync(join(findPackageRoot(), 'docs/reference/temporal-plugin.md'), 'utf8');
  let names: readonly string[] = [];
  try {
    createVoidboxPlugin({ none: true } as VoidboxPluginOptions);
  } catch (error) {
    names = (error as Error).message.split('there are ')[1]!.split(', ');
  }
  const cells = [...docs.matchAll(/^\| (`[^|]*`) \|/gm)].map(([, cell]) => cell!).join(' ');
  expect(names).toContain('server');
  expect(names.filter((name) => !new RegExp(`\`${name}[\`:]`).test(cells))).toEqual([]);
});

test('a state folder of another format is refused before the worker polls, with the remedy in the message', async () => {
  const stateDir = mkdtempSync(join(tmpdir(), 'voidbox-plugin-format-'));
  onTestFinished(() => rmSync(stateDir, { recursive: true }));
  writeFileSync(join(stateDir, 'state-format'), '2\n');
  const worker = { options: { taskQueue: 'q' }, client: {}, connection } as unknown as Worker;
  let polls = false;
  const running = createVoidboxPlugin({ stateDir, sandbox: 'mock' }).runWorker!(worker, async () => {
    polls = true;
  });
  await expect(running).rejects.toMatchObject({
    code: 'host/state-format',
    message: expect.stringMatching(
      /has format 2; this build of Voidbox reads format 1\. Stop its stack: `voidbox down`/,
    ),
  });
  expect([polls, readdirSync(stateDir)]).toEqual([false, ['state-format']]);
});
