/** The modes of unpacked files with another umask, which belongs to the whole process. */
import { lstatSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { writeTar } from '../../tar/write.ts';
import { createUnpackTotal, UNPACK_LIMITS, unpackUpload } from './unpack-upload.ts';

test('a guest can read files and folders, with any umask of the service', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-unpack-modes-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  process.umask(0o077);
  const bytes = writeTar([{ kind: 'file', path: 'a/b/c', mode: 0o755, body: Buffer.from('x') }]);
  await unpackUpload(bytes, {
    folder,
    key: 'data',
    limits: UNPACK_LIMITS,
    total: createUnpackTotal(),
    requireRoom: () => undefined,
  });
  const modes = ['a', 'a/b', 'a/b/c'].map((path) => lstatSync(join(folder, path)).mode & 0o7777);
  expect(modes).toEqual([0o755, 0o755, 0o755]);
});
