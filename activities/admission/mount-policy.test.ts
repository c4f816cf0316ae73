import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { MountPlan, MountSource, Plan } from '../../domain/plan/plan.ts';
import { planOf } from '../../test/machine/plan-of.ts';
import { confirmMounts, refuseWritableMounts, selectAllowedRoots, resolveMounts } from './mount-policy.ts';
import { createAnyStarters, createMarkedStarters } from './starters.ts';

let base: string;

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-mounts-')));
  for (const name of ['spec/in', 'spec/out', 'other']) mkdirSync(join(base, name), { recursive: true });
  symlinkSync(join(base, 'spec', 'out'), join(base, 'spec', 'link'));
});

afterEach(() => rmSync(base, { recursive: true, force: true }));

function withMounts(...sources: readonly (readonly [MountSource, MountPlan['mode']])[]): Plan {
  const plan = planOf('a');
  const mounts = sources.map(([source, mode], index): MountPlan => ({ source, guestPath: `/mount-${index}`, mode }));
  return { ...plan, scopes: plan.scopes.map((scope) => ({ ...scope, sandbox: { ...scope.sandbox, mounts } })) };
}

const beside = (path: string): MountSource => ({ kind: 'spec-folder', path });
const host = (path: string): MountSource => ({ kind: 'host', path });

test("a path from the spec's folder is resolved there, and a host path is used as it is", async () => {
  const plan = withMounts([beside('in'), 'rw'], [host(join(base, 'other')), 'ro'], [beside('.'), 'ro']);
  const readable = withMounts([beside('.'), 'ro'], [host(join(base, 'other')), 'ro']);
  expect(await resolveMounts(readable, [base], join(base, 'spec'))).toEqual({
    '.': join(base, 'spec'),
    [join(base, 'other')]: join(base, 'other'),
  });
  await expect(resolveMounts(plan, [base], join(base, 'spec'))).rejects.toThrow(/shares files with another: \. and in/);
});

test("a path from the spec's folder is refused if the client handed over no folder", async () => {
  await expect(resolveMounts(withMounts([beside('in'), 'ro']), [base], null)).rejects.toMatchObject({
    code: 'admit/mount-refused',
  });
});

test('two names of one folder share files, which only the host can detect', async () => {
  const plan = withMounts([beside('link'), 'rw'], [host(join(base, 'spec', 'out')), 'ro']);
  await expect(resolveMounts(plan, [base], join(base, 'spec'))).rejects.toThrow(
    /writable mount that shares files with another/,
  );
  const readOnly = withMounts([beside('link'), 'ro'], [host(join(base, 'spec', 'out')), 'ro']);
  expect(await resolveMounts(readOnly, [base], join(base, 'spec'))).toMatchObject({ link: join(base, 'spec', 'out') });
});

test('a link out of the allowed folders is refused', async () => {
  symlinkSync(join(base, 'other'), join(base, 'spec', 'away'));
  await expect(
    resolveMounts(withMounts([beside('away'), 'ro']), [join(base, 'spec')], join(base, 'spec')),
  ).rejects.toThrow(/is refused/);
});

test.each([
  [{ kind: 'owner', baseDir: '/spec', allow: ['/data'], allowGit: [] }, ['/shared', '/spec', '/data']],
  [{ kind: 'any' }, ['/shared']],
  [{ kind: 'unknown' }, []],
  [{ kind: 'token', name: 'ci', baseDir: '/uploads', allowGit: [] }, ['/uploads']],
  [
    { kind: 'deployment', name: 'r', version: 2, delivery: 'd', baseDir: '/files', allow: ['/data'], allowGit: [] },
    ['/files', '/data'],
  ],
] as const)('the starter %o may use the folders %j', (starter, folders) => {
  expect(selectAllowedRoots(starter, { allowedRoots: ['/shared'] })).toEqual(folders);
});

const DELIVERED = { kind: 'deployment', name: 'review', version: 2, delivery: 'd-1' } as const;

test('a worker of your own server knows the runs of tokens and of deployments, and distinguishes no others', async () => {
  const token = { kind: 'token', name: 'ci' };
  const marks = new Map<string, unknown>([
    ['of-the-owner', { baseDir: '/spec', allow: ['/'] }],
    ['of-a-token', { baseDir: '/up', allow: ['/'], starter: token }],
    ['of-a-deployment', { baseDir: '/files', starter: DELIVERED }],
    ['of-a-later-build', { baseDir: '/', starter: { kind: 'robot' } }],
    ['forged', { baseDir: 7, starter: token }],
  ]);
  const { starterOf } = createAnyStarters({ get: (run) => Promise.resolve(marks.get(run) ?? null) });
  expect(await starterOf('of-the-owner')).toEqual({ kind: 'any' });
  expect(await starterOf('by-a-temporal-client')).toEqual({ kind: 'any' });
  expect(await starterOf('of-a-token')).toEqual({ ...token, baseDir: '/up', allowGit: [] });
  expect(await starterOf('of-a-deployment')).toEqual({ ...DELIVERED, baseDir: '/files', allow: [], allowGit: [] });
  for (const run of ['of-a-later-build', 'forged']) expect(await starterOf(run)).toEqual({ kind: 'unknown' });
});

test('only a mark in the state folder proves the owner of a run', async () => {
  const marks = new Map<string, unknown>([
    ['marked', { baseDir: '/spec', allow: ['/data', 7], allowGit: 'example.com/app' }],
    ['forged', { baseDir: 7, allow: ['/'] }],
    ['list', ['/']],
    ['of-a-token', { baseDir: '/up', allow: ['/'], allowGit: ['a.b/c'], starter: { kind: 'token', name: 'ci' } }],
    ['of-a-deployment', { baseDir: '/files', allow: ['/data'], allowGit: ['a.b/c'], starter: DELIVERED }],
    ['of-no-version', { baseDir: '/', starter: { ...DELIVERED, version: '2' } }],
    ['of-a-later-build', { baseDir: '/', allow: ['/'], starter: { kind: 'robot', name: 'ci' } }],
    ['without-a-name', { baseDir: '/', starter: { kind: 'token' } }],
    ['without-a-starter', { baseDir: '/', starter: null }],
  ]);
  const { starterOf } = createMarkedStarters({ get: (run) => Promise.resolve(marks.get(run) ?? null) });
  expect(await starterOf('marked')).toEqual({ kind: 'owner', baseDir: '/spec', allow: ['/data'], allowGit: [] });
  expect(await starterOf('of-a-token')).toEqual({ kind: 'token', name: 'ci', baseDir: '/up', allowGit: ['a.b/c'] });
  const deployment = { baseDir: '/files', allow: ['/data'], allowGit: ['a.b/c'], ...DELIVERED };
  expect(await starterOf('of-a-deployment')).toEqual(deployment);
  const unproven = [
    'of-no-version',
    'forged',
    'list',
    'of-a-later-build',
    'without-a-name',
    'without-a-starter',
    'by-a-temporal-client',
  ];
  for (const run of unproven) expect(await starterOf(run)).toEqual({ kind: 'unknown' });
});

const TOKEN = (baseDir: string) => ({ kind: 'token', name: 'ci', baseDir, allowGit: [] }) as const;

test('a token mounts its uploads, and neither another folder nor a link out of them', async () => {
  symlinkSync(join(base, 'other'), join(base, 'spec', 'away'));
  const uploads = join(base, 'spec');
  const find = (path: MountSource) =>
    resolveMounts(
      withMounts([path, 'ro']),
      selectAllowedRoots(TOKEN(uploads), { allowedRoots: [join(base, 'other')] }),
      uploads,
    );
  expect(await find(beside('in'))).toEqual({ in: join(uploads, 'in') });
  for (const path of [host('/etc'), host(join(base, 'other')), beside('../other'), beside('away'), host('/')])
    await expect(find(path), path.path).rejects.toMatchObject({ code: 'admit/mount-refused' });
});

test('a token mounts only `ro`: at admission, and at each launch of a VM', async () => {
  const refusal = 'mode: rw';
  const { scopes } = withMounts([beside('in'), 'rw']);
  expect(() => refuseWritableMounts(TOKEN('/up'), scopes)).toThrow(refusal);
  expect(() => refuseWritableMounts({ kind: 'owner', baseDir: '/up', allow: [], allowGit: [] }, scopes)).not.toThrow();
  const confirm = (mode: MountPlan['mode'], hostPath: string) => {
    const [scope] = withMounts([beside('in'), mode]).scopes;
    const mounts = [{ hostPath, guestPath: '/in', mode }];
    const deps = {
      starters: { starterOf: () => Promise.resolve(TOKEN(join(base, 'spec'))) },
      mountPolicy: { allowedRoots: [join(base, 'other')] },
    };
    return confirmMounts(deps, 'r', { ...scope!, sandbox: { ...scope!.sandbox, mounts } });
  };
  await confirm('ro', join(base, 'spec', 'in'));
  await expect(confirm('rw', join(base, 'spec', 'in'))).rejects.toThrow(refusal);
  await expect(confirm('ro', join(base, 'other'))).rejects.toMatchObject({ code: 'admit/mount-refused' });
});
