/**
 * Tests pipes, sockets, devices and links in the place of files. A path that blocks would block every thread of the
 * pool.
 */
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { copyFileWithin, FileRefusal, openFile, openUnlinked, readFileWithin, resolveWithin } from './open-file.ts';

let dir: string;
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-files-')));
  mkdirSync(join(dir, 'in'));
  writeFileSync(join(dir, 'in/file'), 'text');
  writeFileSync(join(dir, 'secret'), 'secret');
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** Returns the answer of both functions to a path; for a text file, the content. */
async function tell(path: string, mostBytes = 100): Promise<string> {
  const rule = { roots: [join(dir, 'in')], mostBytes };
  const read = (): string => {
    try {
      return readFileWithin(path, rule).toString();
    } catch (error) {
      if (error instanceof FileRefusal) return `${error.reason}: ${error.message}`;
      throw error;
    }
  };
  const opened = await openFile(path, rule).then(
    async ({ handle }) => {
      const text = await handle.readFile('utf8');
      await handle.close();
      return text;
    },
    (error: FileRefusal) => `${error.reason}: ${error.message}`,
  );
  expect(read()).toBe(opened);
  return opened.replaceAll(dir, 'DIR');
}

describe('a path', () => {
  test('that is a file is read', async () => {
    expect(await tell(join(dir, 'in/file'))).toBe('text');
  });

  test('that is a link within the folder is read', async () => {
    symlinkSync('file', join(dir, 'in/link'));
    expect(await tell(join(dir, 'in/link'))).toBe('text');
  });

  test.each([
    ['../secret', 'in/link'],
    ['/proc/self/environ', 'in/link'],
  ])('that is a link to %s is refused', async (target, name) => {
    symlinkSync(target, join(dir, name));
    expect(await tell(join(dir, name))).toMatch(
      /^outside: it leads to .*, which is not in a folder that may be read for it$/,
    );
  });

  test('below a link out of the folder is refused', async () => {
    symlinkSync('..', join(dir, 'in/up'));
    expect(await tell(join(dir, 'in/up/secret'))).toMatch(/^outside/);
  });

  test('that does not exist, is a folder, or is too large is refused', async () => {
    expect(await tell(join(dir, 'in/none'))).toBe('missing: there is no such file');
    expect(await tell(join(dir, 'in'))).toBe('not-regular: it is a folder and no file');
    expect(await tell(join(dir, 'in/file'), 3)).toBe('too-large: it has 4 bytes, at most 3 are read');
  });

  test('that is a pipe, a socket or a device is refused at once', async () => {
    execFileSync('mkfifo', [join(dir, 'in/pipe')]);
    const server = createServer();
    await new Promise<void>((resolve) => void server.listen(join(dir, 'in/socket'), resolve));
    try {
      expect(await tell(join(dir, 'in/pipe'))).toBe('not-regular: it is a pipe and no file');
      expect(await tell(join(dir, 'in/socket'))).toBe('not-regular: it is a socket or a device and no file');
    } finally {
      server.close();
    }
    await expect(openFile('/dev/zero', { roots: null })).rejects.toThrow('it is a device and no file');
  });

  test('that is a pipe takes no thread of the pool', async () => {
    const pipes = Array.from({ length: 16 }, (_, index) => join(dir, `in/pipe${index}`));
    execFileSync('mkfifo', pipes);
    const refused = pipes.map((pipe) => openFile(pipe, { roots: null }).catch((error: FileRefusal) => error.reason));
    // The pool has 4 threads, and this call needs one.
    await stat(dir);
    expect(new Set(await Promise.all(refused))).toEqual(new Set(['not-regular']));
  });
});

test('a root that became a link is judged by its target', () => {
  renameSync(join(dir, 'in'), join(dir, 'moved'));
  symlinkSync('moved', join(dir, 'in'));
  expect(resolveWithin(join(dir, 'in/file'), { roots: [join(dir, 'in')] })).toBe(join(dir, 'moved/file'));
});

test('a copy has the bytes and the mode, and replaces no file', () => {
  const bytes = Buffer.alloc(3 * 1024 * 1024 + 7, 'ab');
  writeFileSync(join(dir, 'in/large'), bytes);
  copyFileWithin(join(dir, 'in/large'), join(dir, 'copy'), { roots: null }, 0o755);
  expect(readFileSync(join(dir, 'copy')).equals(bytes)).toBe(true);
  expect(statSync(join(dir, 'copy')).mode & 0o777).toBe(0o755);
  expect(() => copyFileWithin(join(dir, 'secret'), join(dir, 'copy'), { roots: null }, 0o644)).toThrow('EEXIST');
});

test('a pipe is not copied', () => {
  execFileSync('mkfifo', [join(dir, 'in/pipe')]);
  expect(() => copyFileWithin(join(dir, 'in/pipe'), join(dir, 'copy'), { roots: null }, 0o644)).toThrow(
    'it is a pipe and no file',
  );
  expect(existsSync(join(dir, 'copy'))).toBe(false);
});

test('a path without links opens a file, also by a name that is not UTF-8, and no link or pipe', async () => {
  const name = Buffer.concat([Buffer.from(`${dir}/in/`), Buffer.from([0xff, 0x61])]);
  writeFileSync(name, 'text');
  const handle = await openUnlinked(name);
  expect(await handle.readFile('utf8')).toBe('text');
  await handle.close();
  symlinkSync('file', join(dir, 'in/link'));
  execFileSync('mkfifo', [join(dir, 'in/pipe')]);
  await expect(openUnlinked(join(dir, 'in/link'))).rejects.toThrow(FileRefusal);
  await expect(openUnlinked(join(dir, 'in/pipe'))).rejects.toThrow('it is a pipe and no file');
});
