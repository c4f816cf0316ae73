/** Results and leases contain the time of a boot. VMs are mocks that claim to be real, stores are files. */
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { beforeEach, expect, test } from 'vitest';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import { formatVmKey } from '../../domain/run/vm-key.ts';
import { LEAST_SANDBOX } from '../../test/rig/runs/mock-worker.ts';
import { begin, KEY, request, RUN, useStageAttempts } from '../../test/rig/runs/stage-attempts.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { ActivityDeps } from '../deps.ts';
import type { Sandbox } from '../ports/sandbox.ts';
import { acquireVm } from './shared-vm.ts';

let onStart: () => Promise<void>;
let bootMs: number;
beforeEach(() => {
  onStart = () => Promise.resolve();
  bootMs = 1_234;
});

const rig = useStageAttempts({
  'wait-for-test': async () => {
    await onStart();
    return 0;
  },
});

/** A process whose VMs report `bootMs`, as set at their launch, for the time of their boot. */
function bootingDeps(changed: Partial<Sandbox> = {}): ActivityDeps {
  const { backend } = rig;
  return rig.processDeps({
    backendFor: () => ({
      ...backend,
      name: 'qemu',
      launch: async (...args) => {
        const sandbox = await backend.launch(...args);
        return { ...sandbox, ...changed, facts: { ...sandbox.facts, bootMs } };
      },
    }),
  });
}

const lease = { vmKey: formatVmKey(KEY), queue: 'voidbox-host:h', host: 'h' };

async function acquired(deps: ActivityDeps): Promise<unknown> {
  const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
  const scope = { id: 'talk', stages: ['talk', 'other'], sandbox: LEAST_SANDBOX };
  return await environment.run(acquireVm, deps, { runId: RUN, scope, instance: [], generation: 0 });
}

test('the result of a stage contains the boot time of its VM, and so does its record', async () => {
  const result = await begin(bootingDeps(), request('wait-for-test')).result;
  expect(result).toMatchObject({ outcome: 'succeeded', bootMs: 1_234 });
  const finished = await rig.events.find(RUN, EVENT_ID.attempt('talk/0/1', 'finished'));
  expect(finished?.body).toMatchObject({ result: { bootMs: 1_234 } });
});

test('the result of a stage that fails before its command contains it too', async () => {
  const full = bootingDeps({
    writeFile: () => Promise.reject(new CodedError('stage/disk-full', 'no room for /workspace/input.json')),
  });
  const asks = request('wait-for-test', { input: { kind: 'run-input' } });
  const result = await begin(full, { ...asks, input: { kind: 'inline', text: '{}' } }).result;
  expect(result).toMatchObject({ outcome: 'failed', failure: { code: 'stage/disk-full' }, bootMs: 1_234 });
});

test('a worker that takes the stage over reports the boot time of the earlier worker, not its own attach to the VM', async () => {
  let begun = (): void => undefined;
  const hasBegun = new Promise<void>((resolve) => (begun = resolve));
  let end = (): void => undefined;
  const mayEnd = new Promise<void>((resolve) => (end = resolve));
  onStart = async () => {
    begun();
    await mayEnd;
  };
  const first = begin(bootingDeps(), request('wait-for-test'));
  await hasBegun;
  first.cancel({ workerShutdown: true });
  await expect(first.result).rejects.toMatchObject({ type: 'attempt/detached' });
  bootMs = 99;
  const second = begin(bootingDeps(), request('wait-for-test'));
  end();
  expect(await second.result).toMatchObject({ outcome: 'succeeded', bootMs: 1_234 });
});

test('the result of a cancelled stage whose VM has booted contains it', async () => {
  let begun = (): void => undefined;
  const hasBegun = new Promise<void>((resolve) => (begun = resolve));
  onStart = async () => {
    begun();
    await new Promise(() => undefined);
  };
  const attempt = begin(bootingDeps(), request('wait-for-test'));
  await hasBegun;
  attempt.cancel({ cancelRequested: true });
  expect(await attempt.result).toMatchObject({ outcome: 'cancelled', bootMs: 1_234 });
});

test('a mock VM boots nothing, and its stage has no boot time', async () => {
  expect(await acquired(rig.processDeps())).toEqual(lease);
  expect(await begin(rig.processDeps(), request('wait-for-test')).result).not.toHaveProperty('bootMs');
});

test('the lease of a VM of several stages contains the boot time, and results of the stages do not', async () => {
  const deps = bootingDeps();
  expect(await acquired(deps)).toEqual({ ...lease, bootMs: 1_234 });
  const stage = { ...request('wait-for-test'), lease };
  expect(await begin(deps, stage).result).not.toHaveProperty('bootMs');
});
