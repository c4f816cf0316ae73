import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { streamTar } from '../../tar/stream.ts';
import { generateTar, measureFolder, PACK_LIMITS, type PackLimits } from './pack-folder.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-pack-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

async function list(limits: PackLimits = PACK_LIMITS): Promise<readonly string[]> {
  const entries: string[] = [];
  for await (const { kind, path, mode, linkTarget, body } of streamTar(generateTar(dir, limits), 'utf8')) {
    let text = '';
    for await (const chunk of body) text += Buffer.from(chunk).toString();
    entries.push([kind, path, mode.toString(8), linkTarget, text].filter((part) => part !== '').join(' '));
  }
  return entries;
}

test('files, folders and links that stay inside are packed in the order of their names', async () => {
  mkdirSync(join(dir, 'b', 'empty'), { recursive: true });
  writeFileSync(join(dir, 'b', 'tool'), 'run', { mode: 0o755 });
  writeFileSync(join(dir, 'a'), 'text', { mode: 0o600 });
  writeFileSync(join(dir, 'ž'), '');
  symlinkSync('../a', join(dir, 'b', 'up'));
  expect(await list()).toEqual([
    'file a 644 text',
    'dir b/ 755',
    'dir b/empty/ 755',
    'file b/tool 755 run',
    'symlink b/up 777 ../a',
    'file ž 644',
  ]);
});

test('links that lead out, sockets and pipes are left out, and no link is followed', async () => {
  symlinkSync('/etc/passwd', join(dir, 'absolute'));
  symlinkSync('../../etc', join(dir, 'climbs'));
  execFileSync('mkfifo', [join(dir, 'pipe')]);
  symlinkSync('missing', join(dir, 'dangling'));
  expect(await list()).toEqual(['symlink dangling 777 missing']);
  const left: string[] = [];
  await measureFolder(dir, PACK_LIMITS, undefined, (path) => left.push(path));
  expect(left).toEqual(['absolute', 'climbs']);
});

test('the same content has the same hash, whatever its times', async () => {
  writeFileSync(join(dir, 'a'), 'x'.repeat(3_000_000));
  const first = await measureFolder(dir);
  utimesSync(join(dir, 'a'), 1, 1);
  expect(await measureFolder(dir)).toEqual(first);
  writeFileSync(join(dir, 'a'), 'y'.repeat(3_000_000));
  expect((await measureFolder(dir)).sha256).not.toBe(first.sha256);
});

test('entries and bytes have limits', async () => {
  expect(PACK_LIMITS).toEqual({ entries: 100_000, bytes: 2 * 1024 ** 3 });
  for (const name of ['a', 'b', 'c']) writeFileSync(join(dir, name), '0123456789');
  expect(await list({ entries: 3, bytes: 30 })).toHaveLength(3);
  for (const [limits, why] of [
    [{ entries: 2, bytes: 30 }, 'more than 2 files and folders'],
    [{ entries: 3, bytes: 29 }, 'more than 29 B'],
  ] as const)
    await expect(list(limits)).rejects.toMatchObject({
      code: 'cli/mount-refused',
      message: expect.stringContaining(why),
    });
});

test('a folder that does not exist is named, and no descriptor stays open', async () => {
  const before = readdirSync('/proc/self/fd').length;
  const missing = async (): Promise<void> => {
    for await (const _ of generateTar(join(dir, 'none')));
  };
  await expect(missing()).rejects.toMatchObject({ message: expect.stringContaining('none') });
  mkdirSync(join(dir, 'a', 'b'), { recursive: true });
  writeFileSync(join(dir, 'a', 'b', 'c'), 'x');
  for await (const _ of generateTar(dir)) break;
  expect(readdirSync('/proc/self/fd').length).toBe(before);
});
