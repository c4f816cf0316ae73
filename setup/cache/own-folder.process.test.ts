import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readEnvironment } from '../environment.ts';
import { makeOwnFolder } from './own-folder.ts';
import {
  inspectHost,
  resolveHostPieces,
  resolveOptionalPieces,
  resolveStackPieces,
  resolveVmPieces,
} from '../resolve.ts';
import { inspectFolder } from './write-probe.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-own-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const make = (path: string): void => makeOwnFolder({ path, what: 'state folder', variable: 'VOIDBOX_STATE_DIR' });

test('makes the folder and its parents for its user only, and accepts an existing one', () => {
  make(join(dir, 'a', 'b'));
  make(join(dir, 'a', 'b'));
  expect(statSync(join(dir, 'a', 'b')).mode & 0o777).toBe(0o700);
});

test('the error for a folder that cannot be made names the folder, the reason and the variable', () => {
  writeFileSync(join(dir, 'file'), '');
  for (const path of [join(dir, 'file'), join(dir, 'file', 'x')]) {
    expect(() => make(path)).toThrow(`The state folder ${path} cannot be used`);
  }
  expect(existsSync('/proc')).toBe(true);
  // Node's own recursive mkdir never returns for this path.
  expect(() => make('/proc/voidbox/state')).toThrow('ENOENT');
});

const STRANGER = 1234;
const made = (): string => {
  mkdirSync(join(dir, 'planted'));
  return join(dir, 'planted');
};
/** Folders that any user may prepare in /tmp before the first run. */
const PLANTED: readonly (readonly [string, () => string, string])[] = [
  [
    'that all may write to',
    () => {
      chmodSync(made(), 0o777);
      return join(dir, 'planted');
    },
    'other users can write to it, and so could replace what lies in it.',
  ],
  // Only root can make folders of another user.
  ...(process.getuid?.() === 0
    ? ([
        [
          'that belongs to a stranger',
          () => {
            chownSync(made(), STRANGER, STRANGER);
            return join(dir, 'planted');
          },
          `another user (uid ${STRANGER}) owns it and can write to it, and so could replace what lies in it.`,
        ],
        [
          'behind a link of a stranger',
          () => {
            symlinkSync(made(), join(dir, 'link'));
            lchownSync(join(dir, 'link'), STRANGER, STRANGER);
            return join(dir, 'link');
          },
          `another user (uid ${STRANGER}) owns it and can write to it, and so could replace what lies in it.`,
        ],
      ] as const)
    : []),
];

test.each(PLANTED)('a state or cache folder %s is rejected, and gets no new file', async (_what, plant, why) => {
  const path = plant();
  const refusal = `The state folder ${path} cannot be used: ${why}`;
  expect(() => make(path)).toThrow(refusal);
  const report = await inspectFolder({ path, what: 'state folder', variable: 'VOIDBOX_STATE_DIR' });
  expect(report.problem).toBe(refusal.replace(/^T(.*)\.$/, 't$1'));
  const env = readEnvironment({ HOME: dir, PATH: process.env['PATH'], VOIDBOX_CACHE_DIR: path });
  const attempts = [
    resolveHostPieces(env, { install: false }),
    resolveStackPieces(env, { install: true }),
    resolveVmPieces(env, { install: false }),
    resolveOptionalPieces(env, ['codex'], { install: true }),
  ];
  for (const attempt of attempts)
    await expect(attempt).rejects.toThrow(`The cache folder ${path} cannot be used: ${why}`);
  const { cache, isReady } = await inspectHost(env);
  expect({ isReady, problem: cache.problem }).toEqual({
    isReady: false,
    problem: `the cache folder ${path} cannot be used: ${why.slice(0, -1)}`,
  });
  expect(readdirSync(path)).toEqual([]);
});

test('a folder of its user behind a link of its user is accepted', () => {
  symlinkSync(made(), join(dir, 'link'));
  make(join(dir, 'link'));
});
