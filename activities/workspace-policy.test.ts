import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { HostMarks } from './ports/host-marks.ts';
import { repositoryOf } from './workspace-policy.ts';

const URL = { kind: 'url', url: 'https://example.com/app.git', ref: 'main' } as const;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-policy-'));
  mkdirSync(join(folder, 'app'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function marks(baseDir: string | null): HostMarks {
  const nothing = (): Promise<void> => Promise.resolve();
  const get = (): Promise<unknown> => Promise.resolve(baseDir === null ? null : { baseDir });
  return { put: nothing, get, putOfVm: nothing, getOfVm: get };
}

test('addresses are fetched for runs with a mark of this user alone', async () => {
  const mountPolicy = { allowedRoots: [folder], specFolder: true };
  expect(await repositoryOf({ marks: marks(folder), mountPolicy }, 'r', 's', URL)).toEqual(URL);
  const refusal = { code: 'admit/mount-refused', message: expect.stringContaining('https://example.com/app.git') };
  await expect(repositoryOf({ marks: marks(null), mountPolicy }, 'r', 's', URL)).rejects.toMatchObject(refusal);
  // On an own server a file in the state folder says nothing of who started the run.
  const own = { allowedRoots: [folder], specFolder: false };
  await expect(repositoryOf({ marks: marks(folder), mountPolicy: own }, 'r', 's', URL)).rejects.toMatchObject(refusal);
});

test("a folder beside the spec is found in the spec's folder, and nothing outside of what is allowed may be read", async () => {
  const mountPolicy = { allowedRoots: [], specFolder: true };
  const source = { kind: 'spec-folder', path: 'app' } as const;
  const from = { kind: 'folder', source, ref: null, includeDirty: true } as const;
  const found = await repositoryOf({ marks: marks(folder), mountPolicy }, 'r', 's', from);
  expect(found).toMatchObject({ kind: 'folder', folder: join(folder, 'app'), ref: null, includeDirty: true });
  if (found.kind !== 'folder') throw new Error('it is no folder');
  expect([join(folder, 'app/.git'), `${folder}x`, '/etc'].map(found.mayRead)).toEqual([true, false, false]);
  await expect(repositoryOf({ marks: marks(null), mountPolicy }, 'r', 's', from)).rejects.toMatchObject({
    code: 'admit/mount-refused',
  });
});
