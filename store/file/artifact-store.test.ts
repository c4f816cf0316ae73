import { chmod, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { bytesOf, chunksOf, describeArtifactStore } from '../../test/conformance/store.ts';
import { artifactPath, createFileArtifactStore } from './artifact-store.ts';

async function place(): Promise<{ location: string; dispose(): Promise<void> }> {
  const location = await mkdtemp(join(tmpdir(), 'voidbox-artifacts-'));
  return { location, dispose: () => rm(location, { recursive: true, force: true }) };
}

describeArtifactStore({ name: 'file', place, open: async (location) => createFileArtifactStore(location) });

describe('file artifact store', () => {
  async function dirForTest(): Promise<string> {
    const { location, dispose } = await place();
    onTestFinished(dispose);
    return location;
  }

  test('stores once, read-only, and leaves no file of a put behind', async () => {
    const dir = await dirForTest();
    const store = createFileArtifactStore(dir);
    const large = Buffer.alloc(600_000, 'x');
    const refs = [await store.put(chunksOf(large, 1_000), 'a/b'), await store.put(chunksOf(large, 999), 'a/b')];
    expect(refs[0]).toEqual(refs[1]);
    const path = artifactPath(join(dir, 'artifacts'), refs[0]?.sha256 ?? '');
    expect((await stat(path)).mode & 0o777).toBe(0o400);
    expect((await readdir(join(dir, 'artifacts'))).toSorted()).toEqual(['.partial', refs[0]?.sha256.slice(0, 2)]);
    expect(await readdir(join(dir, 'artifacts/.partial'))).toEqual([]);
    await expect(
      store.put(
        (async function* () {
          yield large;
          throw new Error('gone');
        })(),
        'a/b',
      ),
    ).rejects.toThrow('gone');
    expect(await readdir(join(dir, 'artifacts/.partial'))).toEqual([]);
  });

  test("rejects at the end of a read if the bytes of a file are not the ref's, also from an offset", async () => {
    const dir = await dirForTest();
    const store = createFileArtifactStore(dir);
    const ref = await store.put(chunksOf(Buffer.alloc(300_000, 'x'), 1_000), 'a/b');
    const path = artifactPath(join(dir, 'artifacts'), ref.sha256);
    await chmod(path, 0o600);
    await writeFile(path, Buffer.concat([Buffer.from('y'), Buffer.alloc(299_999, 'x')]));
    await expect(bytesOf(store.open(ref))).rejects.toMatchObject({
      code: 'store/damaged',
      message: expect.stringContaining('damaged'),
    });
    await expect(bytesOf(store.open(ref, 299_000))).rejects.toMatchObject({ code: 'store/damaged' });
  });

  test('replaces a stored file of another size', async () => {
    const dir = await dirForTest();
    const store = createFileArtifactStore(dir);
    const bytes = Buffer.from('the whole text');
    const ref = await store.put(chunksOf(bytes, 100), 'a/b');
    const path = artifactPath(join(dir, 'artifacts'), ref.sha256);
    await chmod(path, 0o600);
    await writeFile(path, 'the who');
    await store.put(chunksOf(bytes, 100), 'a/b');
    expect((await bytesOf(store.open(ref))).equals(bytes)).toBe(true);
  });

  test('names the folder when it cannot write', async () => {
    const dir = await dirForTest();
    await writeFile(join(dir, 'artifacts'), 'a file in the way');
    await expect(createFileArtifactStore(dir).put(chunksOf(Buffer.from('abc'), 1), 'a/b')).rejects.toMatchObject({
      code: 'store/io',
      message: expect.stringContaining(join(dir, 'artifacts')),
    });
  });
});
