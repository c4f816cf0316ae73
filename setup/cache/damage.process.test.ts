/** The cache after builders die, disks fill up and files disappear. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { findCacheDamage, type CacheFolder, ensureCacheFolder, findCacheFolder, hashInputs } from './cache.ts';
import { findPackageRoot } from '../package-root.ts';
import { SetupError } from '../setup-error.ts';

let cacheDir: string;
let folder: CacheFolder;
beforeEach(() => {
  cacheDir = mkdtempSync(join(tmpdir(), 'voidbox-cache-damage-'));
  folder = { cacheDir, piece: 'thing', hash: hashInputs(['a']) };
});
afterEach(() => rmSync(cacheDir, { recursive: true, force: true }));

const nothing = (): void => undefined;
const write = (into: string): Promise<void> => {
  mkdirSync(join(into, 'bin'));
  writeFileSync(join(into, 'bin', 'program'), 'content');
  writeFileSync(join(into, 'empty'), '');
  symlinkSync('bin/program', join(into, 'link'));
  return Promise.resolve();
};
const half = (): string[] => readdirSync(join(cacheDir, 'tmp'));

/** Starts a maker in its own process, like set-up. Its program continues for a while when the maker is killed. */
async function startMaker(hash: string): Promise<{ killMaker(): Promise<void>; killProgram(): Promise<void> }> {
  const module = pathToFileURL(join(findPackageRoot(), 'dist', 'setup', 'cache', 'cache.js')).href;
  // The program opens its files by path in each step, like a shell's loop over packages.
  const program = 'while sleep 0.02; do echo "$$" > "$0/foreign-$$"; done';
  const script = `
    import { execFile, spawn } from 'node:child_process';
    import { ensureCacheFolder } from '${module}';
    await ensureCacheFolder({ cacheDir: process.argv[1], piece: 'thing', hash: '${hash}' }, (into) => new Promise(() => {
      console.log(spawn('sh', ['-c', ${JSON.stringify(program)}, into], { stdio: 'ignore' }).pid);
      setInterval(() => {}, 1000);
    }), () => {});`;
  const maker = spawn(process.execPath, ['--input-type=module', '-e', script, cacheDir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const pid = Number(
    await new Promise<Buffer>((resolve, reject) => {
      maker.stdout.once('data', resolve);
      maker.once('exit', (code) => reject(new Error(`the maker ended with ${code}`)));
    }),
  );
  expect(pid).toBeGreaterThan(1);
  const writes = (): boolean => half().some((name) => existsSync(join(cacheDir, 'tmp', name, `foreign-${pid}`)));
  await expect.poll(writes).toBe(true);
  return {
    killMaker: async () => {
      if (maker.exitCode !== null || maker.signalCode !== null) return;
      maker.kill('SIGKILL');
      await once(maker, 'exit');
    },
    killProgram: async () => {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // The folder no longer exists.
      }
      // A process that has ended has no command line, even before its parent has reaped it.
      const commandLine = `/proc/${pid}/cmdline`;
      await expect.poll(() => (existsSync(commandLine) ? readFileSync(commandLine, 'utf8') : '')).toBe('');
    },
  };
}

test('a killed maker blocks no other maker, and a program that outlives it writes nothing into the next folder', async () => {
  const first = await startMaker(folder.hash);
  try {
    let waits = 0;
    const made = ensureCacheFolder(
      folder,
      async (into) => {
        await write(into);
        await sleep(300);
      },
      () => (waits += 1),
    );
    await expect.poll(() => waits).toBe(1);
    await first.killMaker();
    expect(readdirSync(await made)).toEqual(['bin', 'contents.json', 'empty', 'link']);
  } finally {
    await first.killProgram();
  }
});

test('folders of other killed makers are removed, and the folder of a living maker is not', async () => {
  const [dead, alive] = [await startMaker('d'.repeat(16)), await startMaker('e'.repeat(16))];
  try {
    await dead.killProgram();
    await dead.killMaker();
    mkdirSync(join(cacheDir, 'tmp', `image-${'f'.repeat(64)}`));
    expect(half()).toHaveLength(3);
    await ensureCacheFolder(folder, write, nothing);
    expect(half()).toEqual([expect.stringMatching(/^thing-e{16}\./)]);
  } finally {
    for (const { killMaker, killProgram } of [dead, alive]) {
      await killProgram();
      await killMaker();
    }
  }
});

test('a folder with a truncated file, a missing file or a changed link is damaged, and is made again', async () => {
  const path = await ensureCacheFolder(folder, write, nothing);
  expect(findCacheFolder(folder)).toBe(path);
  const damages: readonly [() => void, string][] = [
    [() => truncateSync(join(path, 'bin', 'program'), 3), 'its file bin/program has 3 bytes instead of 7'],
    [() => rmSync(join(path, 'bin', 'program')), 'its file bin/program is missing'],
    [() => rmSync(join(path, 'bin'), { recursive: true }), 'its file bin/program is missing'],
    [() => rmSync(join(path, 'link')), 'its link link is missing'],
    [() => writeFileSync(join(path, 'contents.json'), '{"bin'), 'its contents.json cannot be read'],
    [() => writeFileSync(join(path, 'contents.json'), ''), 'its contents.json cannot be read'],
  ];
  for (const [damage, told] of damages) {
    damage();
    expect(findCacheDamage(folder), told).toBe(told);
    expect(findCacheFolder(folder), told).toBeNull();
    expect(await ensureCacheFolder(folder, write, nothing)).toBe(path);
    expect(findCacheDamage(folder), told).toBeNull();
    expect(readFileSync(join(path, 'link'), 'utf8')).toBe('content');
    expect(half()).toEqual([]);
  }
});

test('a folder of an earlier version, without a list of its files, is valid if its main file exists', () => {
  const path = join(cacheDir, `thing-${folder.hash}`);
  mkdirSync(path);
  expect(findCacheDamage(folder)).toBeNull();
  expect(findCacheFolder(folder)).toBe(path);
  expect(findCacheDamage({ ...folder, main: 'program' })).toBe('its file program is missing');
  expect(findCacheFolder({ ...folder, main: 'program' })).toBeNull();
  rmSync(path, { recursive: true });
  expect(findCacheDamage(folder)).toBeNull();
  expect(findCacheFolder(folder)).toBeNull();
});

test.each([
  ['the system', () => Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })],
  ['a quota', () => Object.assign(new Error('EDQUOT: disk quota exceeded, write'), { code: 'EDQUOT' })],
  ['a program', () => new SetupError('npm cannot download x:\nnpm error ENOSPC: no space left', 'Check npm.')],
  ['tar', () => new SetupError('cannot unpack:\ntar: a: Cannot write: No space left on device', 'Retry.')],
])('a disk that fills while a folder is made is reported, even if only %s names it', async (_who, fault) => {
  const error = await ensureCacheFolder(
    { ...folder, roomMib: 850 },
    (into) => {
      writeFileSync(join(into, 'part'), 'x');
      return Promise.reject(fault());
    },
    nothing,
  ).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(SetupError);
  const { message, remedy } = error as SetupError;
  expect(message).toMatch(
    new RegExp(
      `^The disk of the cache folder ${cacheDir} got full while thing was made, which takes up to 850 MiB\\. \\d+ of its \\d+ MiB are free\\.\n`,
    ),
  );
  expect(message).toContain(fault().message);
  expect(remedy).toBe('Free space on that disk, or name a folder on another one: export VOIDBOX_CACHE_DIR=…');
  expect(half()).toEqual([]);
  expect(existsSync(await ensureCacheFolder(folder, write, nothing))).toBe(true);
});

/** Like apt, this program neither continues nor ends when its disk is full. */
const HANGS = 'cat /dev/zero > part || true; exec sleep 60';

test('set-up ends a program that hangs on a full disk, and the next attempt finds all its space', async () => {
  const modules = ['cache/cache', 'cache/free-space', 'pieces/run-program', 'environment'].map(
    (path) =>
      `import * as ${basename(path).replace(/-./, 'X')} from '${pathToFileURL(join(findPackageRoot(), 'dist', 'setup', `${path}.js`)).href}';`,
  );
  const script = `${modules.join('\n')}
    const folder = { cacheDir: process.argv[1] + '/cache', piece: 'thing', hash: '${folder.hash}', roomMib: 3 };
    const make = (command) => cache.ensureCacheFolder(folder, async (into) => {
      const options = { cwd: into, timeoutMs: 30_000, reasonToEnd: () => freeXpace.reasonOfFullDisk(into) };
      const result = await runXrogram.runProgram(environment.readEnvironment(), 'sh', ['-c', command], options);
      if (result.exitCode !== 0) throw new Error(runXrogram.cutToLastLines(result, 1));
    }, () => {});
    const failure = await make(${JSON.stringify(HANGS)}).catch((error) => error.message);
    await make('head -c 1500000 /dev/zero > part');
    console.log(JSON.stringify({ failure, damage: cache.findCacheDamage(folder) }));`;
  const inner = `mount -t tmpfs -o size=4m none ${cacheDir} && exec "$0" --input-type=module -e "$1" ${cacheDir}`;
  // The program sleeps for 60 s, and its own limit is 30 s: only the full disk ends it earlier, with the text below.
  const { stdout } = await promisify(execFile)('unshare', ['-Urm', 'sh', '-c', inner, process.execPath, script], {
    timeout: 50_000,
  });
  expect(JSON.parse(stdout)).toEqual({
    failure: `The disk of the cache folder ${cacheDir}/cache got full while thing was made, which takes up to 3 MiB. 0 of its 4 MiB are free.\nsh was ended: no space left on device`,
    damage: null,
  });
});

test("no other user can write to a piece or hold a lock, whatever the umask and the folder's mode", async () => {
  // A folder that a user might have made.
  chmodSync(cacheDir, 0o755);
  mkdirSync(join(cacheDir, 'locks'));
  writeFileSync(join(cacheDir, 'locks', `thing-${folder.hash}.lock`), '', { mode: 0o644 });
  const script = `
    import { ensureCacheFolder } from '${pathToFileURL(join(findPackageRoot(), 'dist', 'setup', 'cache', 'cache.js')).href}';
    import { mkdirSync, writeFileSync } from 'node:fs';
    process.umask(0);
    const make = async (into) => { mkdirSync(into + '/bin'); writeFileSync(into + '/bin/program', '', { mode: 0o777 }); };
    for (const hash of ['${folder.hash}', '${'c'.repeat(16)}'])
      await ensureCacheFolder({ cacheDir: process.argv[1], piece: 'thing', hash }, make, () => {});`;
  await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script, cacheDir]);
  const modes = Object.fromEntries(
    readdirSync(cacheDir, { recursive: true, encoding: 'utf8' }).map((path) => [
      path,
      (statSync(join(cacheDir, path)).mode & 0o777).toString(8),
    ]),
  );
  const piece = (hash: string): Record<string, string> => ({
    [`locks/thing-${hash}.lock`]: '600',
    [`thing-${hash}`]: '755',
    [`thing-${hash}/bin`]: '755',
    [`thing-${hash}/bin/program`]: '755',
    [`thing-${hash}/contents.json`]: '644',
  });
  expect(modes).toEqual({ locks: '755', tmp: '700', ...piece(folder.hash), ...piece('c'.repeat(16)) });
});

test.each(['locks', 'tmp'])('the error for a cache whose %s cannot be written names the remedy', async (name) => {
  writeFileSync(join(cacheDir, name), 'no folder');
  await expect(ensureCacheFolder(folder, write, nothing)).rejects.toMatchObject({
    name: 'SetupError',
    message: expect.stringContaining(`The cache folder ${cacheDir} cannot be written: `) as string,
    remedy: expect.stringContaining('Give all that lies in it to this user') as string,
  });
  rmSync(join(cacheDir, name));
  expect(existsSync(await ensureCacheFolder(folder, write, nothing))).toBe(true);
});

test('a fault that the disk did not cause is reported unchanged', async () => {
  const fault = new SetupError('no such package', 'Check npm.');
  await expect(ensureCacheFolder(folder, () => Promise.reject(fault), nothing)).rejects.toBe(fault);
});
