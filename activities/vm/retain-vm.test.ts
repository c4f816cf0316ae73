/** The VM of a failed stage. VMs are mocks; a wrapper reports them as retained. Stores are files. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ActivityCancellationDetails } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { RETENTION } from '../../domain/plan/plan.ts';
import { escapeRunId } from '../../domain/run/run-id.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { parseVmKey, formatVmKey } from '../../domain/run/vm-key.ts';
import { createMockBackend, type MockBackend } from '../../sandbox/mock/backend.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import { mockWorkerDeps, plainRequest, plainStage } from '../../test/rig/runs/mock-worker.ts';
import { createHostLeases } from '../../workers/host/leases.ts';
import type { ActivityDeps } from '../deps.ts';
import type { Leases } from '../ports/leases.ts';
import type { RetainedVm } from '../ports/retained-vms.ts';
import type { LaunchSpec, SandboxBackend, VmKey } from '../ports/sandbox.ts';
import { refuseRetention } from './retain-vm.ts';
import { runStage } from '../attempt/run-stage.ts';
import type { StageRequest, VmStage } from '../calls/requests.ts';
import { acquireVm, releaseVm } from './shared-vm.ts';

const RUN = 'run-1';
const KEEP_MS = 600_000;
const NOW = Date.parse('2026-01-02T03:04:05.678Z');
const UNTIL = '2026-01-02T03:14:05Z';

let stateDir: string;
let stores: Stores;
let mock: MockBackend;
let backend: SandboxBackend;
let retained: Map<string, RetainedVm>;
/** True if the next VMs can be retained. */
let canRetain: boolean;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-retain-'));
  stores = await openStores({ stateDir });
  retained = new Map();
  canRetain = true;
  mock = createMockBackend({
    programs: {
      fail: async ({ write }) => {
        await write('stderr', 'no rule');
        return 7;
      },
      hang: ({ killed }) => new Promise((resolve) => killed.addEventListener('abort', () => resolve(1))),
    },
  });
  backend = {
    ...mock,
    // The VM uses counted resources, as a real VM does.
    name: 'qemu',
    async launch(key, spec, signal) {
      const sandbox = await mock.launch(key, spec, signal);
      return {
        ...sandbox,
        async retain(forMs, note) {
          if (!canRetain) return null;
          const known = retained.get(formatVmKey(key)) ?? { key, ...note, env: {}, untilMs: NOW + forMs };
          retained.set(formatVmKey(key), known);
          return known.untilMs - NOW;
        },
      };
    },
  };
});

afterEach(async () => {
  for (const vm of mock.alive()) await mock.release(parseVmKey(vm)!);
  await stores.close();
  rmSync(stateDir, { recursive: true, force: true });
});

function depsOf(change: Partial<ActivityDeps> = {}): ActivityDeps {
  return mockWorkerDeps(
    { stateDir, stores, backend },
    {
      now: () => NOW,
      allowsRetention: true,
      retainedVms: {
        list: () => Promise.resolve(oldestFirst()),
        recent: () => Promise.resolve(oldestFirst()),
        async end(key) {
          retained.delete(formatVmKey(key));
          await mock.release(key);
        },
      },
      ...change,
    },
  );
}

const oldestFirst = (): readonly RetainedVm[] =>
  [...retained.values()].toSorted((a, b) => a.retainedAtMs - b.retainedAtMs);

const sandbox: LaunchSpec = {
  mode: 'qemu',
  isolation: 'none',
  memoryMib: 64,
  vcpus: 1,
  diskMib: 64,
  mounts: [],
  keepOnFailureMs: KEEP_MS,
};

interface Wanted extends Partial<StageRequest> {
  readonly program?: string;
  readonly of?: Partial<VmStage>;
}

function request({ program = 'fail', of, ...change }: Wanted = {}): StageRequest {
  const scope = { id: 'build', stages: ['build'], sandbox };
  return plainRequest(RUN, plainStage('build', 'build', [program], of), { scope, ...change });
}

function roomFor(budgetMib: number): Leases {
  return createHostLeases({
    placement: { hostId: 'h', hostQueue: 'voidbox-host:h' },
    overheadMib: 0,
    budgetMib,
    availableMib: () => budgetMib,
    disk: () => ({ availableBytes: 1, floorBytes: 1 }),
  });
}

function environment(): MockActivityEnvironment {
  return new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
}

function run(deps: ActivityDeps, what: StageRequest): Promise<StageResult> {
  return environment().run<[ActivityDeps, StageRequest], StageResult, typeof runStage>(runStage, deps, what);
}

async function notices(runId = RUN): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const { body } of stores.reader.read(runId, 0)) if (body.type === 'notice') found.push(body.message);
  return found;
}

async function typesIn(runId = RUN): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const { body } of stores.reader.read(runId, 0, { output: false })) found.push(body.type);
  return found;
}

const alive = (): readonly string[] => mock.alive();

test('the VM is retained, and the failure shows its time and the command to use', async () => {
  const result = await run(depsOf(), request());
  const said = `its VM is left until ${UNTIL}: look with \`voidbox exec run-1 build -- COMMAND\`, end it with \`voidbox release run-1 build\``;
  expect(result).toMatchObject({
    outcome: 'failed',
    failure: {
      code: 'stage/exit-nonzero',
      message: `stage build ended with exit code 7; ${said}`,
      stderrTail: 'no rule',
    },
  });
  expect(alive()).toEqual([`${RUN}/build/0`]);
  expect(await notices(), 'the failure says it already').toEqual([]);
  expect(await typesIn()).not.toContain('vm-stopped');
});

test('a repeated activity finds its result, and does not touch the VM', async () => {
  const first = await run(depsOf(), request());
  expect(await run(depsOf(), request())).toEqual(first);
  expect(alive()).toEqual([`${RUN}/build/0`]);
});

test('after a worker that died before the result, the next worker finds the VM retained for the same time', async () => {
  const { append } = stores.events;
  const dying = {
    ...stores.events,
    append: (async (...args: Parameters<typeof append>) => {
      if (args[1].some(({ body }) => body.type === 'stage-finished')) throw new Error('the worker dies');
      return await append.apply(stores.events, args);
    }) as typeof append,
  };
  await expect(run(depsOf({ events: dying }), request())).rejects.toThrow('the worker dies');
  expect(retained.size).toBe(1);
  const result = await run(depsOf(), request());
  expect(result.failure?.message).toContain(`left until ${UNTIL}`);
  expect(alive()).toEqual([`${RUN}/build/0`]);
});

test('an item is named in the form that the commands accept', async () => {
  const item = request({ instance: [{ part: 'sizes', item: 3 }], execKey: 'build/sizes~3/1' });
  const { failure } = await run(depsOf(), item);
  expect(failure?.message).toContain('voidbox exec run-1 "sizes[3].build" -- COMMAND');
});

test('a stage with retries retains the VM of its last attempt', async () => {
  const of = { retry: { maxAttempts: 2, backoffMs: 0 } };
  const first = await run(depsOf(), request({ of }));
  expect(first.failure?.message).toBe('stage build ended with exit code 7');
  expect(alive()).toEqual([]);
  await run(depsOf(), request({ of, generation: 1, attempt: 2, execKey: 'build/0/2' }));
  expect(alive()).toEqual([`${RUN}/build/1`]);
});

test("attempts whose VM was lost do not count as the author's attempts, and a failure without a retry is the last", async () => {
  const of = { retry: { maxAttempts: 2, backoffMs: 0 } };
  await run(depsOf(), request({ of, generation: 1, attempt: 2, execKey: 'build/0/2' }));
  expect(alive()).toEqual([]);
  const final = { retry: { ...of.retry, nonRetryable: ['exit:7'] } };
  await run(depsOf(), request({ of: final, runId: 'run-2' }));
  expect(alive()).toEqual(['run-2/build/0']);
});

test('a success and a cancel retain no VM', async () => {
  await run(depsOf(), request({ program: 'true' }));
  const env = environment();
  const cancelled = env.run<[ActivityDeps, StageRequest], StageResult, typeof runStage>(
    runStage,
    depsOf(),
    request({ program: 'hang', runId: 'run-2' }),
  );
  while (!(await typesIn('run-2')).includes('stage-started')) await new Promise((resolve) => setTimeout(resolve, 10));
  env.cancel('CANCELLED', new ActivityCancellationDetails({ cancelRequested: true }));
  expect((await cancelled).outcome).toBe('cancelled');
  expect(alive()).toEqual([]);
  expect(retained.size).toBe(0);
});

test('without `keep` the VM ends', async () => {
  const { keepOnFailureMs: _, ...plain } = sandbox;
  const result = await run(depsOf(), request({ scope: { id: 'build', stages: ['build'], sandbox: plain } }));
  expect(result.failure?.message).toBe('stage build ended with exit code 7');
  expect([alive(), await notices()]).toEqual([[], []]);
});

test('a worker that was restarted without the permission retains no VM, and the log gives the reason', async () => {
  await run(depsOf({ allowsRetention: false }), request());
  expect(alive()).toEqual([]);
  expect(await notices()).toEqual([
    'stage build: its VM is not kept: this worker does not allow runs to keep VMs of failed stages (`voidbox worker --allow-keep`)',
  ]);
});

test('a sandbox that cannot be retained ends, and the log of the run gives the reason', async () => {
  canRetain = false;
  const result = await run(depsOf(), request());
  expect(result.failure?.message).toBe('stage build ended with exit code 7');
  expect(alive()).toEqual([]);
  expect(await notices()).toEqual(['stage build: its VM is not kept: its sandbox is simulated']);
});

test(`${RETENTION.vmsOfRun} VMs of a run are retained, also if all fail at once; one more ends as usual`, async () => {
  const deps = depsOf({ leases: roomFor(100) });
  const stages = Array.from({ length: RETENTION.vmsOfRun + 1 }, (_, at) => `s${at}`);
  await Promise.all(
    stages.map((id) =>
      run(
        deps,
        request({
          stage: plainStage(id, id, ['fail']),
          scope: { id, stages: [id], sandbox: { ...sandbox, memoryMib: 1 } },
          execKey: `${id}/0/1`,
        }),
      ),
    ),
  ).catch(() => undefined);
  expect(alive()).toHaveLength(RETENTION.vmsOfRun);
  expect((await notices()).filter((notice) => notice.includes('is not kept'))).toEqual([
    expect.stringMatching(
      /^stage s\d: its VM is not kept: 8 VMs of the run are already kept: end one with `voidbox release run-1 STAGE`$/,
    ),
  ]);
  // Another run has its own limit.
  await run(
    deps,
    request({ runId: 'run-2', scope: { id: 'build', stages: ['build'], sandbox: { ...sandbox, memoryMib: 1 } } }),
  );
  expect(alive()).toContain('run-2/build/0');
});

test('the VM of several stages is retained when it would be released, and stays after a repeated release', async () => {
  const deps = depsOf();
  const scope = { id: 'steps', stages: ['build', 'tidy'], sandbox };
  const key: VmKey = { runId: RUN, scope: 'steps', instance: [], generation: 0 };
  const shared = { scope, runId: RUN, generation: 0, instance: [] };
  const lease = await environment().run<[ActivityDeps, typeof shared], unknown, typeof acquireVm>(
    acquireVm,
    deps,
    shared,
  );
  const result = await run(deps, request({ scope, lease: lease as never }));
  expect(result.failure?.message).toContain(
    '; its VM is left for 10m once all of its stages have ended: look with `voidbox exec run-1 build -- COMMAND`',
  );
  expect(retained.size, 'its other stages still use it').toBe(0);
  await run(
    deps,
    request({ scope, lease: lease as never, stage: plainStage('tidy', 'steps', ['true']), execKey: 'tidy/0/1' }),
  );
  await releaseVm(deps, shared);
  await releaseVm(deps, shared);
  expect(await notices()).toEqual([expect.stringContaining(`stage build: its VM is left until ${UNTIL}: look with`)]);
  expect(retained.get(formatVmKey(key))).toMatchObject({ stage: 'build', execKey: 'build/0/1' });
  expect(alive()).toEqual([formatVmKey(key)]);
  expect(await typesIn()).not.toContain('vm-stopped');
});

test('the VM of several stages ends if no stage failed', async () => {
  const deps = depsOf();
  const scope = { id: 'steps', stages: ['build', 'tidy'], sandbox };
  const shared = { scope, runId: RUN, generation: 0, instance: [] };
  const lease = await environment().run<[ActivityDeps, typeof shared], unknown, typeof acquireVm>(
    acquireVm,
    deps,
    shared,
  );
  await run(deps, request({ scope, lease: lease as never, program: 'true' }));
  await releaseVm(deps, shared);
  expect([alive(), retained.size]).toEqual([[], 0]);
});

test('a VM without room ends retained VMs, the oldest first, and no more than it needs', async () => {
  let nowMs = NOW;
  const leases = roomFor(200);
  const deps = depsOf({ leases, now: () => (nowMs += 1) });
  for (const runId of ['old', 'new']) await run(deps, request({ runId }));
  expect(alive()).toEqual(['old/build/0', 'new/build/0']);
  await run(
    deps,
    request({ runId: 'third', scope: { id: 'build', stages: ['build'], sandbox: { ...sandbox, memoryMib: 100 } } }),
  );
  expect(alive()).toEqual(['new/build/0', 'third/build/0']);
  expect(await notices('third')).toContain(
    `the VM that the failed stage build of run ${escapeRunId('old')} had left was ended: scope build needed its room`,
  );
  // A running VM is never ended: the new VM waits as usual.
  retained.clear();
  await expect(
    run(
      deps,
      request({ runId: 'fourth', scope: { id: 'build', stages: ['build'], sandbox: { ...sandbox, memoryMib: 100 } } }),
    ),
  ).rejects.toMatchObject({ type: 'vm/no-capacity' });
  expect(alive()).toEqual(['new/build/0', 'third/build/0']);
});

test('if other programs of the host use the room at the launch, a retained VM ends too', async () => {
  const deps = depsOf();
  await run(deps, request({ runId: 'old' }));
  let launches = 0;
  const { launch } = backend;
  backend = {
    ...backend,
    async launch(...args) {
      launches += 1;
      if (retained.size > 0) throw new CodedError('vm/no-capacity', 'the VM needs 1 MiB', { nextRetryDelayMs: 2_000 });
      return await launch(...args);
    },
  };
  const result = await run(depsOf(), request({ runId: 'next', program: 'true' }));
  expect([result.outcome, launches]).toEqual(['succeeded', 2]);
  expect(alive()).toEqual([]);
});

test('if no retained VM can be ended, the VM waits as usual', async () => {
  const broken = {
    list: async () => [],
    recent: () => Promise.reject(new Error('no keeper')),
    end: async () => undefined,
  };
  const deps = depsOf({ leases: roomFor(64), retainedVms: broken });
  await run(depsOf({ leases: deps.leases }), request());
  await expect(run(deps, request({ runId: 'next' }))).rejects.toMatchObject({ type: 'vm/no-capacity' });
});

test('a worker without the permission refuses the plan, and names the scope', () => {
  const scopes = [
    { id: 'plain', sandbox: {} },
    { id: 'build', sandbox: { keepOnFailureMs: 1_000 } },
  ];
  for (const allowed of [false, undefined])
    expect(() => refuseRetention(scopes, allowed)).toThrow(
      '`keep: on-failure` of scope build is refused: this worker does not allow runs to keep VMs of failed stages',
    );
  expect(() => refuseRetention(scopes, true)).not.toThrow();
  expect(() => refuseRetention(scopes.slice(0, 1), false)).not.toThrow();
});
