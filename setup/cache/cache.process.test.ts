import { spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ensureCacheFolder, hashInputs, listCacheFolders } from './cache.ts';
import { withFileLock } from '../file-lock.mjs';

let cacheDir: string;
beforeEach(() => {
  cacheDir = mkdtempSync(join(tmpdir(), 'voidbox-cache-'));
});
afterEach(() => rmSync(cacheDir, { recursive: true, force: true }));

const nothing = (): void => undefined;

describe('withFileLock', () => {
  /** Starts another process that takes the lock, prints `held`, and holds the lock until it is killed. */
  async function holder(file: string): Promise<ReturnType<typeof spawn>> {
    const module = new URL('../file-lock.mjs', import.meta.url).href;
    const script = `import { withFileLock } from '${module}'; await withFileLock(process.argv[1], () => new Promise(() => { console.log('held'); setInterval(() => {}, 1000); }));`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script, file], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await new Promise((resolve) => child.stdout.once('data', resolve));
    return child;
  }

  it('waits for another process, and gets the lock when that is killed', async () => {
    const file = join(cacheDir, 'a.lock');
    const child = await holder(file);
    let waited = false;
    let done = false;
    const work = withFileLock(
      file,
      async () => {
        done = true;
      },
      () => {
        waited = true;
      },
    );
    await expect.poll(() => waited).toBe(true);
    expect(done).toBe(false);
    child.kill('SIGKILL');
    await work;
    expect(done).toBe(true);
  });

  it('is free again after work that failed', async () => {
    const file = join(cacheDir, 'b.lock');
    await expect(withFileLock(file, () => Promise.reject(new Error('no luck')))).rejects.toThrow('no luck');
    await expect(withFileLock(file, () => Promise.resolve('again'))).resolves.toBe('again');
  });
});

describe('ensureCacheFolder', () => {
  const folder = (): { cacheDir: string; piece: string; hash: string } => ({
    cacheDir,
    piece: 'thing',
    hash: hashInputs(['a']),
  });

  it('makes a folder once, also when several ask at once', async () => {
    let made = 0;
    const make = async (into: string): Promise<void> => {
      made += 1;
      await sleep(50);
      writeFileSync(join(into, 'file'), 'content');
    };
    const paths = await Promise.all([1, 2, 3].map(() => ensureCacheFolder(folder(), make, nothing)));
    expect(made).toBe(1);
    expect(new Set(paths).size).toBe(1);
    expect(readFileSync(join(paths[0] ?? '', 'file'), 'utf8')).toBe('content');
    expect(await listCacheFolders(cacheDir, 'thing')).toEqual([paths[0]]);
  });

  it('leaves nothing behind when making fails, and can be tried again', async () => {
    const fail = (into: string): Promise<void> => {
      writeFileSync(join(into, 'half'), '');
      return Promise.reject(new Error('disk full'));
    };
    await expect(ensureCacheFolder(folder(), fail, nothing)).rejects.toThrow('disk full');
    expect(await listCacheFolders(cacheDir, 'thing')).toEqual([]);
    expect(readdirSync(join(cacheDir, 'tmp'))).toEqual([]);
    await ensureCacheFolder(folder(), () => Promise.resolve(), nothing);
    expect(await listCacheFolders(cacheDir, 'thing')).toHaveLength(1);
  });

  it('removes folders of the piece that are older than a month, and no others', async () => {
    const other = (piece: string, letter: string): string => join(cacheDir, `${piece}-${letter.repeat(16)}`);
    for (const path of [other('thing', 'a'), other('thing', 'b'), other('thing-too', 'c')]) mkdirSync(path);
    const old = new Date(Date.now() - 31 * 86_400_000);
    for (const path of [other('thing', 'a'), other('thing-too', 'c')]) utimesSync(path, old, old);
    const made = await ensureCacheFolder(folder(), () => Promise.resolve(), nothing);
    expect(
      [made, other('thing', 'a'), other('thing', 'b'), other('thing-too', 'c')].map((path) => existsSync(path)),
    ).toEqual([true, false, true, true]);
  });

  it('takes nothing over from a maker that was killed', async () => {
    const left = join(cacheDir, 'tmp', `thing-${hashInputs(['a'])}`);
    mkdirSync(left, { recursive: true });
    writeFileSync(join(left, 'half'), '');
    const path = await ensureCacheFolder(folder(), () => Promise.resolve(), nothing);
    expect(existsSync(join(path, 'half'))).toBe(false);
  });
});

describe('hashInputs', () => {
  it('tells apart where one part ends and the next begins', () => {
    expect(hashInputs(['ab', 'c'])).not.toBe(hashInputs(['a', 'bc']));
    expect(hashInputs(['ab', 'c'])).toMatch(/^[0-9a-f]{16}$/);
  });
});
