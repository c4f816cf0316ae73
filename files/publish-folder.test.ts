import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { publishFolder, removeFolder } from './publish-folder.ts';

let root: string;
beforeEach(() => (root = mkdtempSync(join(tmpdir(), 'voidbox-publish-'))));
afterEach(() => rmSync(root, { recursive: true, force: true }));

test('a folder appears when it is filled, and only its user can enter it', async () => {
  const dir = join(root, 'made');
  const filled = await publishFolder(dir, async (partial) => {
    writeFileSync(join(partial, 'file'), 'x');
    expect(existsSync(dir)).toBe(false);
    return 7;
  });
  expect([filled, readdirSync(dir), readdirSync(root)]).toEqual([7, ['file'], ['made']]);
  expect(statSync(dir).mode & 0o777).toBe(0o700);
});

test('a fill that fails leaves nothing', async () => {
  await expect(publishFolder(join(root, 'made'), () => Promise.reject(new Error('full')))).rejects.toThrow('full');
  expect(readdirSync(root)).toEqual([]);
});

test('a folder that exists is not replaced, also if it appears during the fill or is empty', async () => {
  const dir = join(root, 'made');
  const fill = async (): Promise<void> => {
    mkdirSync(dir);
  };
  await expect(publishFolder(dir, fill)).rejects.toThrow('the folder exists');
  await expect(publishFolder(dir, fill)).rejects.toThrow('the folder exists');
  expect(readdirSync(root)).toEqual(['made']);
});

test('a removal leaves nothing, and can be called again', async () => {
  const dir = join(root, 'made');
  await publishFolder(dir, async (partial) => writeFileSync(join(partial, 'file'), 'x'));
  await removeFolder(dir);
  await removeFolder(dir);
  expect(readdirSync(root)).toEqual([]);
});
