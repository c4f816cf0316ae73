import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import { imageDisks } from './lazy-pieces.ts';

test('a worker uses only the images of its cache, and its error says how to add one', async () => {
  const cacheDir = mkdtempSync(join(tmpdir(), 'voidbox-no-images-'));
  try {
    await expect(imageDisks({ ...readEnvironment(), cacheDir })('a'.repeat(64))).rejects.toMatchObject({
      code: 'host/not-ready',
      message: expect.stringContaining('`voidbox worker --images PATH`') as string,
    });
    // An image whose disk is missing.
    const damaged = join(cacheDir, `image-${'b'.repeat(64)}`);
    mkdirSync(damaged);
    writeFileSync(join(damaged, 'contents.json'), '{"root.ext4":4096}');
    await expect(imageDisks({ ...readEnvironment(), cacheDir })('b'.repeat(64))).rejects.toMatchObject({
      code: 'host/not-ready',
      message: expect.stringMatching(
        /is damaged, its file root\.ext4 is missing, in the cache of this host, .*voidbox run/,
      ) as string,
    });
  } finally {
    rmSync(cacheDir, { recursive: true });
  }
});
