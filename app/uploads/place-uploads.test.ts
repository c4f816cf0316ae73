import { expect, test } from 'vitest';
import type { Plan } from '../../domain/plan/plan.ts';
import { planOf } from '../../test/machine/plan-of.ts';
import { MOST_BUNDLES, MOST_UPLOADS, movePlan, placeBundles, placeUploads, refuseUploads } from './place-uploads.ts';

const HASH = 'a'.repeat(64);

const targetsOf = (keys: readonly string[], baseDir: string | null = null): Readonly<Record<string, string>> =>
  Object.fromEntries(
    placeUploads(Object.fromEntries(keys.map((key) => [key, HASH])), '/run', baseDir).uploads.map(({ key, target }) => [
      key,
      target,
    ]),
  );

test('an upload below the folder of the spec is unpacked there, and any other beside it', () => {
  expect(targetsOf(['data', './src/../lib', '/home/ada/x', '../shared', '.outside/0'])).toEqual({
    data: '/run/data',
    './src/../lib': '/run/lib',
    '/home/ada/x': '/run/.outside/2',
    '../shared': '/run/.outside/3',
    '.outside/0': '/run/.outside/4',
  });
  expect(targetsOf(['.'])).toEqual({ '.': '/run' });
});

test('with a folder of the owner, each upload replaces a path there', () => {
  expect(targetsOf(['data', '/etc'], '/home/ada')).toEqual({ data: '/run/.outside/0', '/etc': '/run/.outside/1' });
});

test.each([
  [['a', './a'], '`a` and `./a` overlap'],
  [['a', 'a/b'], '`a` and `a/b` overlap'],
  [['.', 'a'], '`.` and `a` overlap'],
  [['/', 'a'], '`/` and `a` overlap'],
  [[''], '`` is not a path'],
  [['a\0b'], 'is not a path'],
  [['x'.repeat(256)], 'is too long'],
  [['a/'.repeat(513)], 'is too long'],
  [[`${'../'.repeat(9)}a`], 'is not a path'],
])('the uploads %j are refused', (keys, message) => {
  expect(() => targetsOf(keys)).toThrow(message);
});

test('a start has at most 64 uploads', () => {
  const uploads = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`${index}`, HASH]));
  expect(MOST_UPLOADS).toBe(64);
  refuseUploads(uploads(64));
  expect(() => refuseUploads(uploads(65))).toThrow('more than 64 entries');
});

test('a plan names the unpacked folders, also below an uploaded path, in mounts, workspaces, images and agent skills', () => {
  const places = placeUploads({ '/home/ada/x': HASH, in: HASH }, '/run', null);
  const base = planOf('a');
  const source = { kind: 'host', path: '/home/ada/x/sub' } as const;
  const [scope, stage] = [base.scopes[0]!, base.stages[0]!];
  const mounts = [
    source,
    { kind: 'spec-folder', path: 'in/a' } as const,
    { kind: 'host', path: '/home/ada/xy' } as const,
  ];
  const plan = {
    ...base,
    scopes: [
      {
        ...scope,
        sandbox: {
          ...scope.sandbox,
          needs: { image: '/home/ada/x/image' },
          mounts: mounts.map((each, index) => ({ source: each, guestPath: `/m${index}`, mode: 'ro' })),
        },
      },
    ],
    stages: [
      {
        ...stage,
        work: {
          kind: 'agent',
          skills: [
            { kind: 'file', source },
            { kind: 'cli', name: 'jq' },
          ],
        },
        workspace: { from: { kind: 'folder', source, ref: null, includeDirty: false } },
      },
    ],
  } as unknown as Plan;
  const moved = movePlan(plan, places);
  const at = (path: string) => ({ kind: 'host', path });
  expect(moved.scopes[0]!.sandbox.mounts.map((mount) => mount.source)).toEqual([
    at('/run/.outside/0/sub'),
    at('/run/in/a'),
    at('/home/ada/xy'),
  ]);
  expect(moved.scopes[0]!.sandbox.needs?.image).toBe('/run/.outside/0/image');
  expect(moved.stages[0]).toMatchObject({
    work: { skills: [{ source: at('/run/.outside/0/sub') }, { name: 'jq' }] },
    workspace: { from: { source: at('/run/.outside/0/sub') } },
  });
});

test('a bundle replaces the repository of workspaces that name its path, and nothing else', () => {
  const base = planOf('a b c');
  const repository = (path: string) =>
    ({ kind: 'folder', source: { kind: 'host', path }, ref: 'v1', includeDirty: true }) as const;
  const paths = ['/home/ada/app', '/home/ada/app/sub', '/home/ada/app'];
  const stages = base.stages.map((stage, index) => ({
    ...stage,
    workspace: { guestPath: '/workspace', from: repository(paths[index]!) },
  })) as unknown as Plan['stages'];
  const bundles = placeBundles({ '/home/ada/app': HASH }, '/run', null);
  const moved = movePlan({ ...base, stages }, { ...placeUploads({ '/home/ada': HASH }, '/run', null), bundles });
  const sent = {
    kind: 'folder',
    source: { kind: 'host', path: '/run/.outside/bundle-0' },
    ref: null,
    includeDirty: true,
  };
  expect(moved.stages.map(({ workspace }) => workspace?.from)).toEqual([
    sent,
    repository('/run/.outside/0/app/sub'),
    sent,
  ]);
});

test('a start has at most 8 bundles, each for another path', () => {
  const bundles = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`${index}`, HASH]));
  expect(MOST_BUNDLES).toBe(8);
  refuseUploads({}, bundles(8));
  expect(() => refuseUploads({}, bundles(9))).toThrow('`bundles`: it has more than 8 entries');
  expect(() => placeBundles({ a: HASH, './a': HASH }, '/run', null)).toThrow('two entries name the same path');
  expect(() => placeBundles({ '': HASH }, '/run', null)).toThrow('is not a path');
  expect(() => placeBundles({ ['a/'.repeat(513)]: HASH }, '/run', null)).toThrow('is too long');
});
