import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Starters } from '../ports/starters.ts';
import { createAnyStarters } from './starters.ts';

const ANY_STARTER = createAnyStarters({ get: () => Promise.resolve(null) });
import { repositoryOf } from './workspace-policy.ts';

const URL = { kind: 'url', url: 'https://example.com/app.git', ref: 'main' } as const;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-policy-'));
  mkdirSync(join(folder, 'app'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function owner(baseDir: string, allowGit: readonly string[] = []): Starters {
  return { starterOf: () => Promise.resolve({ kind: 'owner', baseDir, allow: [], allowGit }) };
}

const UNKNOWN: Starters = { starterOf: () => Promise.resolve({ kind: 'unknown' }) };

const REFUSAL = { code: 'admit/mount-refused', message: expect.stringContaining('https://example.com/app.git') };

test('URLs are fetched for runs whose proven owner allows them', async () => {
  const mountPolicy = { allowedRoots: [folder] };
  const allowed = owner(folder, ['example.com/app']);
  expect(await repositoryOf({ starters: allowed, mountPolicy }, 'r', 's', URL)).toEqual(URL);
  for (const other of [owner(folder), owner(folder, ['example.com/other']), UNKNOWN])
    await expect(repositoryOf({ starters: other, mountPolicy }, 'r', 's', URL)).rejects.toMatchObject(REFUSAL);
  // For a worker that does not distinguish starters, no run has an owner.
  await expect(repositoryOf({ starters: ANY_STARTER, mountPolicy }, 'r', 's', URL)).rejects.toMatchObject(REFUSAL);
});

test('URLs that a worker allows are fetched for runs of any client', async () => {
  const own = { allowedRoots: [], allowedGit: ['example.com/app'] };
  expect(await repositoryOf({ starters: ANY_STARTER, mountPolicy: own }, 'r', 's', URL)).toEqual(URL);
  for (const url of [
    'https://example.com/apple',
    'https://example.com/app/../other',
    'https://example.com/app/%2e%2e/x',
  ])
    await expect(
      repositoryOf({ starters: ANY_STARTER, mountPolicy: own }, 'r', 's', { ...URL, url }),
    ).rejects.toMatchObject({ code: 'admit/mount-refused' });
});

test('the repository that holds the spec is an allowed workspace', async () => {
  const mountPolicy = { allowedRoots: [] };
  const inner = join(folder, 'app/.voidbox');
  mkdirSync(inner);
  const from = {
    kind: 'folder',
    source: { kind: 'host', path: join(folder, 'app') },
    ref: null,
    includeDirty: false,
  } as const;
  const find = (): Promise<unknown> => repositoryOf({ starters: owner(inner), mountPolicy }, 'r', 's', from);
  await expect(find()).rejects.toMatchObject({ code: 'admit/mount-refused' });
  mkdirSync(join(folder, 'app/.git'));
  expect(await find()).toMatchObject({ folder: join(folder, 'app') });
  await expect(
    repositoryOf({ starters: owner(inner), mountPolicy }, 'r', 's', {
      ...from,
      source: { kind: 'host', path: folder },
    }),
  ).rejects.toMatchObject({ code: 'admit/mount-refused' });
});

test("a relative folder is found in the spec's folder, and files outside the allowed folders may not be read", async () => {
  const mountPolicy = { allowedRoots: [] };
  const source = { kind: 'spec-folder', path: 'app' } as const;
  const from = { kind: 'folder', source, ref: null, includeDirty: true } as const;
  const found = await repositoryOf({ starters: owner(folder), mountPolicy }, 'r', 's', from);
  expect(found).toMatchObject({ kind: 'folder', folder: join(folder, 'app'), ref: null, includeDirty: true });
  if (found.kind !== 'folder') throw new Error('it is no folder');
  expect([join(folder, 'app/.git'), `${folder}x`, '/etc'].map(found.mayRead)).toEqual([true, false, false]);
  await expect(repositoryOf({ starters: UNKNOWN, mountPolicy }, 'r', 's', from)).rejects.toMatchObject({
    code: 'admit/mount-refused',
  });
});

function token(baseDir: string, allowGit: readonly string[] = []): Starters {
  return { starterOf: () => Promise.resolve({ kind: 'token', name: 'ci', baseDir, allowGit }) };
}

test('URLs are fetched for a token only if the token itself allows them', async () => {
  const mountPolicy = { allowedRoots: [folder], allowedGit: ['example.com/app'] };
  expect(await repositoryOf({ starters: token(folder, ['example.com/app']), mountPolicy }, 'r', 's', URL)).toEqual(URL);
  await expect(repositoryOf({ starters: token(folder), mountPolicy }, 'r', 's', URL)).rejects.toMatchObject({
    code: 'admit/mount-refused',
    message: expect.stringContaining('create one with --allow-git example.com/app'),
  });
});

test('a token works in an uploaded repository, and in none of the host', async () => {
  for (const name of ['app/.git', 'app/uploads/own', 'shared']) mkdirSync(join(folder, name), { recursive: true });
  const mountPolicy = { allowedRoots: [join(folder, 'shared')] };
  const find = (path: string) =>
    repositoryOf({ starters: token(join(folder, 'app/uploads')), mountPolicy }, 'r', 's', {
      kind: 'folder',
      source: { kind: 'host', path },
      ref: null,
      includeDirty: false,
    });
  const found = await find(join(folder, 'app/uploads/own'));
  if (found.kind !== 'folder') throw new Error('it is no folder');
  expect([join(folder, 'app/uploads/own/.git'), join(folder, 'app/.git')].map(found.mayRead)).toEqual([true, false]);
  for (const path of [join(folder, 'app'), join(folder, 'shared'), join(folder, 'app/uploads/../../shared'), '/etc'])
    await expect(find(path), path).rejects.toMatchObject({ code: 'admit/mount-refused' });
});
