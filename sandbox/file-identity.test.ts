import { mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { identifyFiles } from './file-identity.ts';

test('a file that was replaced or changed has another identity, also behind a link', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-identity-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const [file, link, next] = ['file', 'link', 'next'].map((name) => join(dir, name)) as [string, string, string];
  writeFileSync(file, 'one');
  symlinkSync(file, link);
  const first = await identifyFiles([link]);
  expect(await identifyFiles([link])).toBe(first);
  writeFileSync(next, 'two');
  renameSync(next, file);
  const second = await identifyFiles([link]);
  expect(second).not.toBe(first);
  writeFileSync(file, 'three');
  expect(await identifyFiles([link])).not.toBe(second);
  rmSync(file);
  await expect(identifyFiles([link])).rejects.toThrow('ENOENT');
});
