/** The loader of the command line and the worker (bin/load-cached.cjs), with the caches that the build leaves, with damaged ones, and without. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { workerFlags } from '../../setup/worker-command.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LOADER = join(ROOT, 'bin', 'load-cached.cjs');
const EXAMPLE = join(ROOT, 'examples', 'hello.yaml');
/** Beside the real one: the command line finds the package above its files. */
const COPY = join(ROOT, 'dist', `cli-bundle-copy-${process.pid}`);

let dir: string;
beforeEach(() => void (dir = mkdtempSync(join(tmpdir(), 'voidbox-cached-'))));
afterEach(() => {
  for (const folder of [dir, COPY]) rmSync(folder, { recursive: true, force: true });
});

/** Refuses each call, so that a command loads its client of Temporal and ends soon. */
const server = createServer().on('stream', (stream) =>
  stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '12' }, { endStream: true }),
);
beforeAll(() => once(server.listen(0, '127.0.0.1'), 'listening'));
afterAll(() => void server.close());

/** Runs a main file in a process of its own; the last line of `stderr` is the loader's list of refused caches. */
async function load(
  main: string,
  ...args: readonly string[]
): Promise<{ stdout: string; rejected: readonly string[]; warnings: string }> {
  const script = `process.argv.splice(1, process.argv.length, 'voidbox', ...${JSON.stringify(args)});
    const { rejected } = require(${JSON.stringify(LOADER)}).loadCached(${JSON.stringify(main)});
    process.on('exit', () => process.stderr.write('\\n' + JSON.stringify(rejected)));`;
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const env = { ...process.env, VOIDBOX_STATE_DIR: join(dir, 'state'), TEMPORAL_ADDRESS: address };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, ['-e', script], { cwd: dir, env });
  const lines = stderr.split('\n');
  return { stdout, rejected: JSON.parse(lines.pop()!) as readonly string[], warnings: lines.join('\n') };
}

/** Returns the caches that V8 refuses. The build makes the caches by these two commands. */
async function loadAll(main: string): Promise<ReadonlySet<string>> {
  const [validate, runs] = [await load(main, 'validate', EXAMPLE), await load(main, 'runs')];
  expect(validate.stdout).toContain('valid: ');
  expect(runs.stdout).toContain('No runs yet.');
  return new Set([...validate.rejected, ...runs.rejected]);
}

test('V8 takes every cache of the build', async () => {
  const bundle = join(ROOT, 'dist', 'cli-bundle');
  expect(readdirSync(bundle).filter((name) => name.endsWith('.cache')).length).toBeGreaterThan(10);
  expect(existsSync(join(bundle, 'main.cjs.cache'))).toBe(true);
  expect(readdirSync(bundle)).toContainEqual(expect.stringMatching(/^temporal-[^/]{8}\.cjs\.cache$/));
  expect(await loadAll(join(bundle, 'main.cjs'))).toEqual(new Set());
});

/** Returns the exports of a bundle's main file, the refused caches, and the packages that it loads outside of the bundle. */
async function loadExports(main: string, flags: readonly string[] = []): Promise<unknown> {
  expect(existsSync(`${main}.cache`)).toBe(true);
  const script = `const { exports, rejected } = require(${JSON.stringify(LOADER)}).loadCached(${JSON.stringify(main)});
    console.log(JSON.stringify({ exports: Object.keys(exports), rejected, packages: Object.keys(require.cache) }));
    process.exit();`;
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, '-e', script]);
  const loaded = JSON.parse(stdout) as { readonly packages: readonly string[] };
  const packages = loaded.packages.flatMap((path) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []);
  return { ...loaded, packages: [...new Set(packages)] };
}

test('V8 takes every cache of the HTTP API’s bundle, which loads nothing outside of it', async () => {
  expect(await loadExports(join(ROOT, 'dist', 'api-bundle', 'service.cjs'))).toEqual({
    exports: ['openService'],
    rejected: [],
    packages: [],
  });
});

test('V8 takes every cache of the worker’s bundle with the flags of a worker, which loads nothing outside of it but the SDK’s library', async () => {
  const loaded = await loadExports(join(ROOT, 'dist', 'worker-bundle', 'serve-worker.cjs'), workerFlags());
  expect(loaded).toEqual({
    exports: ['serveWorker'],
    rejected: [],
    packages: ['@temporalio/core-bridge', 'source-map'],
  });
});

test('the worker’s thread of workflows loads from the bundle, with caches that V8 takes', async () => {
  const main = join(ROOT, 'dist', 'worker-bundle', 'workflow-thread.cjs');
  const script = `const { parentPort } = require('node:worker_threads');
    parentPort.postMessage(require(${JSON.stringify(LOADER)}).loadCached(${JSON.stringify(main)}).rejected);
    process.exit();`;
  const start = `new (require('node:worker_threads').Worker)(${JSON.stringify(script)}, { eval: true })
    .on('message', (rejected) => console.log(JSON.stringify(rejected)));`;
  const { stdout } = await promisify(execFile)(process.execPath, [...workerFlags(), '-e', start]);
  expect(JSON.parse(stdout)).toEqual([]);
});

test('V8 takes every cache of the supervisor’s bundle, which loads nothing outside of it', async () => {
  expect(await loadExports(join(ROOT, 'dist', 'stack-bundle', 'supervise.cjs'))).toEqual({
    exports: ['supervise'],
    rejected: [],
    packages: [],
  });
});

test('V8 takes every cache of the bundle of the door, which loads nothing outside of it', async () => {
  expect(await loadExports(join(ROOT, 'dist', 'door-bundle', 'skill-door.cjs'))).toEqual({
    exports: ['DURABLE_DOOR', 'TAKES_VARIABLES', 'openDurableSessions'],
    rejected: [],
    packages: [],
  });
});

test.each([
  ['of another V8', (cache: string) => writeFileSync(cache, 'of another version')],
  ['empty', (cache: string) => writeFileSync(cache, '')],
  ['full of zeros', (cache: string) => writeFileSync(cache, Buffer.alloc(100_000))],
  ['not there', (cache: string) => rmSync(cache)],
])('a cache that is %s changes nothing but the time', async (_how, damage) => {
  cpSync(join(ROOT, 'dist', 'cli-bundle'), COPY, { recursive: true });
  const caches = readdirSync(COPY).filter((name) => name.endsWith('.cache'));
  for (const name of caches) damage(join(COPY, name));
  const { size } = await loadAll(join(COPY, 'main.cjs'));
  expect(size).toBe(existsSync(join(COPY, 'main.cjs.cache')) ? caches.length : 0);
});

test('a file with import() has no cache: V8 would lose what import() means in it', async () => {
  writeFileSync(join(dir, 'part.cjs'), `exports.load = async () => (await import('node:os')).EOL;`);
  writeFileSync(
    join(dir, 'main.cjs'),
    `require('./part.cjs').load().then((text) => console.log('end:' + text.length));`,
  );
  const warm = `const { saveCaches } = require(${JSON.stringify(LOADER)}).loadCached(${JSON.stringify(join(dir, 'main.cjs'))});
    process.on('exit', saveCaches);`;
  await promisify(execFile)(process.execPath, ['-e', warm], { cwd: dir });
  expect((await load(join(dir, 'main.cjs'))).stdout).toContain('end:1');
  expect([existsSync(join(dir, 'main.cjs.cache')), existsSync(join(dir, 'part.cjs.cache'))]).toEqual([true, false]);
});

test('the built command line asks on a terminal before it fetches a repository', async () => {
  const workspace = { git: 'https://127.0.0.1:9/acme/app' };
  const spec = { kind: 'workflow', name: 'asks', workflow: { steps: [{ name: 'a', run: 'ls', workspace }] } };
  writeFileSync(join(dir, 'asks.json'), JSON.stringify(spec));
  const command = `'${process.execPath}' '${join(ROOT, 'bin', 'voidbox.js')}'`;
  // Its command finds a terminal; standard input ends before `script` does.
  const typed = `(sleep 1; echo n; sleep 1) | script -qc "${command} run asks.json" /dev/null; ${command} down`;
  const env = { ...process.env, VOIDBOX_STATE_DIR: join(dir, 'state') };
  const { stdout } = await promisify(execFile)('sh', ['-c', typed], { cwd: dir, env, timeout: 60_000 });
  expect(stdout).toContain('Fetch it? [y/N]');
  expect(stdout).toContain('Allow it: --allow-git 127.0.0.1:9/acme/app');
  expect(stdout).not.toContain('this is a bug');
}, 300_000);

test('a file means what it means to Node: places in stack traces, modules once, import()', async () => {
  writeFileSync(join(dir, 'esm.mjs'), 'export const name = import.meta.url;');
  writeFileSync(join(dir, 'part.cjs'), `exports.place = () => new Error('here').stack.split('\\n')[1];`);
  writeFileSync(
    join(dir, 'main.cjs'),
    `exports.self = module.exports === exports; const part = require('./part.cjs');
    import('./esm.mjs').then(({ name }) => console.log(JSON.stringify({
      place: part.place(), once: require('./part.cjs') === part, name, file: __filename, folder: __dirname, fs: typeof require('node:fs').readFileSync })));`,
  );
  const { stdout, rejected, warnings } = await load(join(dir, 'main.cjs'));
  expect({ rejected, warnings }).toEqual({ rejected: [], warnings: '' });
  const said = JSON.parse(stdout) as Record<string, string>;
  expect(said['place']).toContain(`${join(dir, 'part.cjs')}:1:23`);
  expect(said).toMatchObject({ once: true, file: join(dir, 'main.cjs'), folder: dir, fs: 'function' });
  expect(said['name']).toBe(`file://${join(dir, 'esm.mjs')}`);
});
