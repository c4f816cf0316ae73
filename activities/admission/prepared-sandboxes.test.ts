import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { SandboxPlan } from '../../domain/plan/plan.ts';
import { toWire } from '../../domain/plan/wire.ts';
import type { CheckpointRecord } from '../../domain/run/checkpoint.ts';
import { planOf } from '../../test/machine/plan-of.ts';
import { createPreparedSandboxes } from '../../workers/host/prepared-sandboxes.ts';
import type { AdmissionRecord } from './admission-record.ts';
import { createAdmittedRuns } from './admitted-run.ts';
import { resolvePreparedSandboxes } from './prepared-sandboxes.ts';

const PLAN = planOf('a b>a!', { shared: 'a b' });

let stateDir: string;
beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-prepared-'));
});
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

function prepare(digit: string, name?: string): string {
  const id = digit.repeat(64);
  const dir = join(stateDir, 'prepared', id);
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const record: CheckpointRecord = {
    v: 1,
    id,
    ...(name === undefined ? {} : { name }),
    createdAtMs: 1,
    diskMib: 64,
    usedBytes: 1,
    vmm: 'qemu',
    root: null,
    kernelKind: 'debian',
    withSecrets: false,
  };
  writeFileSync(join(dir, 'checkpoint.json'), JSON.stringify(record));
  return dir;
}

function planWith(sandbox: Partial<SandboxPlan>): typeof PLAN {
  return { ...PLAN, scopes: PLAN.scopes.map((scope) => ({ ...scope, sandbox: { ...scope.sandbox, ...sandbox } })) };
}

const resolve = (sandbox: Partial<SandboxPlan>): ReturnType<typeof resolvePreparedSandboxes> =>
  resolvePreparedSandboxes(planWith(sandbox), createPreparedSandboxes(stateDir));

test('a plan names a prepared sandbox by its name or id, also a plan of an earlier build', async () => {
  const [deps, other] = [prepare('a', 'deps'), prepare('b')];
  expect(await resolve({ prepared: 'deps' })).toEqual({ deps });
  expect(await resolve({ prepared: 'bb' })).toEqual({ bb: other });
  expect(await resolve({ needs: { snapshot: 'aaaa' } })).toEqual({ aaaa: deps });
  expect(await resolve({})).toEqual({});
});

test('an unknown name is refused with the names of this host', async () => {
  prepare('a', 'deps');
  await expect(resolve({ prepared: 'dep' })).rejects.toMatchObject({
    code: 'admit/snapshot-unknown',
    message: expect.stringContaining('there is no prepared sandbox "dep" here; there are deps (aaaaaaaaaaaa)'),
  });
  await expect(resolvePreparedSandboxes(planWith({ prepared: 'deps' }), undefined)).rejects.toMatchObject({
    code: 'admit/snapshot-unknown',
  });
});

test('a simulated VM needs no prepared sandbox', async () => {
  expect(await resolve({ mode: 'mock', isolation: 'none', prepared: 'deps' })).toEqual({});
});

test('VMs of a run start from the folder of its admission, also after the name has passed to another one', async () => {
  const first = prepare('a', 'deps');
  const plan = planWith({ mode: 'qemu', prepared: 'deps' });
  const prepared = await resolvePreparedSandboxes(plan, createPreparedSandboxes(stateDir));
  rmSync(first, { recursive: true });
  prepare('b', 'deps');
  const record = {
    plan: toWire(plan),
    mounts: {},
    prepared,
    hostId: 'host',
    input: null,
  } as unknown as AdmissionRecord;
  const runs = createAdmittedRuns({ get: async () => record } as never);
  const { scopes } = await runs.get('run');
  for (const { sandbox } of scopes) {
    expect(sandbox.from).toBe(first);
    expect(sandbox).not.toHaveProperty('prepared');
  }
});
