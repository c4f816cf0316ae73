/** A VM is launched after its lease, on the host of the lease, and the lease ends with the VM. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { LaunchSpec, SandboxBackend } from '../ports/sandbox.ts';
import { createMockBackend, type MockBackend } from '../../sandbox/mock/backend.ts';
import { openStores } from '../../store/open-stores.ts';
import { mockWorkerDeps, plainStage } from '../../test/rig/runs/mock-worker.ts';
import { createHostLeases } from '../../workers/host/leases.ts';
import type { ActivityDeps } from '../deps.ts';
import type { ScopeRequest, StageRequest } from '../calls/requests.ts';
import { runStage } from '../attempt/run-stage.ts';
import { acquireVm, releaseVm } from './shared-vm.ts';

const sandbox: LaunchSpec = { mode: 'qemu', isolation: 'none', memoryMib: 64, vcpus: 1, diskMib: 64, mounts: [] };

let stateDir: string;
let mock: MockBackend;
let deps: ActivityDeps;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-open-vm-'));
  mock = createMockBackend();
  // Its resources are counted like those of a real VM.
  const backend: SandboxBackend = { ...mock, name: 'qemu' };
  deps = mockWorkerDeps({ stateDir, stores: await openStores({ stateDir }), backend });
});

afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

function scoped(scope: string): ScopeRequest {
  return { runId: 'r', scope: { id: scope, stages: ['one', 'two'], sandbox }, generation: 0, instance: [] };
}

function activity<T>(work: () => Promise<T>): Promise<T> {
  const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
  return environment.run<[], T, () => Promise<T>>(work);
}

const types = async (): Promise<readonly string[]> => {
  const all: string[] = [];
  for await (const { body } of deps.reader.read('r', 0)) all.push(body.type);
  return all;
};

test('a VM holds its lease until its release, and the lease names its host', async () => {
  const { placement } = deps;
  const leases = createHostLeases({
    placement,
    overheadMib: 0,
    budgetMib: sandbox.memoryMib,
    availableMib: () => sandbox.memoryMib,
    disk: () => ({ availableBytes: 1, floorBytes: 1 }),
  });
  deps = { ...deps, leases };
  const lease = { vmKey: 'r/a/0', queue: placement.hostQueue, host: placement.hostId };
  const bootMs = expect.any(Number) as number;
  expect(await activity(() => acquireVm(deps, scoped('a')))).toEqual({ ...lease, bootMs });
  await expect(activity(() => acquireVm(deps, scoped('b')))).rejects.toMatchObject({ type: 'vm/no-capacity' });
  expect(await types(), 'nothing is said of a VM that has no lease').toEqual(['vm-starting', 'vm-ready']);
  await releaseVm(deps, scoped('a'));
  expect(await activity(() => acquireVm(deps, scoped('b')))).toMatchObject({ vmKey: 'r/b/0' });
  await releaseVm(deps, scoped('b'));
});

test('a lease of another host is returned, and no VM is launched here', async () => {
  const elsewhere = { vmKey: 'r/a/0', queue: 'voidbox-host:other', host: 'other' };
  deps = { ...deps, leases: { ...deps.leases, grant: async () => elsewhere } };
  expect(await activity(() => acquireVm(deps, scoped('a')))).toEqual(elsewhere);
  const stage: StageRequest = {
    ...scoped('a'),
    stage: plainStage('one', 'a', ['true']),
    lease: { vmKey: 'r/a/0' },
    item: null,
    execKey: 'one/0/1',
    attempt: 1,
    input: null,
    upstream: {},
    hostVariables: [],
    events: [],
  };
  await expect(activity(() => runStage(deps, stage))).rejects.toMatchObject({
    type: 'host/elsewhere',
    nonRetryable: false,
    message: 'the VM r/a/0 is on host other, where its stages run',
  });
  expect(mock.alive()).toEqual([]);
  expect(await types()).toEqual([]);
});
