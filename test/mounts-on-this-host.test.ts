/** `voidbox validate` and `run` predict the answer of admission: these tests give both the same plans. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { resolveMounts } from '../activities/admission/mount-policy.ts';
import { findRefusedMounts } from '../client/runs/refused-mounts.ts';
import type { Plan } from '../domain/plan/plan.ts';
import { planOf } from './machine/plan-of.ts';

let base: string;
beforeAll(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-mounts-here-')));
  for (const name of ['spec/in', 'allowed/sub', 'allowed-not', 'other'])
    mkdirSync(join(base, name), { recursive: true });
  symlinkSync(join(base, 'other'), join(base, 'spec', 'away'));
  symlinkSync(join(base, 'allowed', 'sub'), join(base, 'other', 'to-allowed'));
  symlinkSync(join(base, 'spec'), join(base, 'link-to-spec'));
});
afterAll(() => rmSync(base, { recursive: true }));

function mounting(path: string): Plan {
  const plan = planOf('a');
  const mounts = [{ source: { kind: 'host', path }, guestPath: '/data', mode: 'ro' }] as const;
  return { ...plan, scopes: plan.scopes.map((scope) => ({ ...scope, sandbox: { ...scope.sandbox, mounts } })) };
}

test.each([
  ['spec', null],
  ['spec/in', null],
  ['link-to-spec/in', null],
  ['allowed/sub', null],
  ['other/to-allowed', null],
  ['allowed-not', 'elsewhere'],
  ['other', 'elsewhere'],
  ['spec/away', 'elsewhere'],
  ['.', 'elsewhere'],
  ['spec/gone', 'missing'],
] as const)('%s: %s', async (path, why) => {
  const plan = mounting(join(base, path));
  const roots = [join(base, 'spec'), join(base, 'allowed'), join(base, 'gone')];
  expect((await findRefusedMounts(plan, roots, '/nonexistent')).map((mount) => mount.why)).toEqual(
    why === null ? [] : [why],
  );
  const admitted = resolveMounts(plan, roots, join(base, 'spec')).then(
    () => true,
    () => false,
  );
  expect(await admitted).toBe(why === null);
});
