/**
 * Tests `keep: on-failure` with a real Temporal server: which runs may use it, and that a run otherwise continues as
 * usual. VMs are mocks.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { awaitOutcome, startRun } from '../../client/runs/runs.ts';
import type { RunOutcome } from '../../domain/run/event.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { temporalCliForTests } from '../../test/rig/servers/temporal-cli.ts';
import { startTestStack, type TestStack } from '../../test/rig/servers/test-worker.ts';
import { createActivities } from '../../activities/create-activities.ts';
import { formatVmKey } from '../../domain/run/vm-key.ts';
import type { RetainedVm } from '../../activities/ports/retained-vms.ts';
import type { SandboxBackend } from '../../activities/ports/sandbox.ts';
import type { RunningWorkers } from '../workers.ts';

const mock = createMockBackend({ programs: { fail: async () => 3 } });
const retained = new Map<string, RetainedVm>();
/** VMs of it are left, for as long as the test does not end them. */
const backend: SandboxBackend = {
  ...mock,
  async launch(key, spec, signal) {
    const sandbox = await mock.launch(key, spec, signal);
    return {
      ...sandbox,
      async retain(forMs, note) {
        retained.set(formatVmKey(key), { key, ...note, env: {}, untilMs: Date.now() + forMs });
        return forMs;
      },
    };
  },
};
let stack: TestStack;
let worker: RunningWorkers;
let allowsRetention = true;

beforeAll(async () => {
  stack = await startTestStack(backend, await temporalCliForTests(), () => undefined);
  worker = await stack.startWorker(() => {
    const deps = {
      ...stack.deps,
      get allowsRetention() {
        return allowsRetention;
      },
      retainedVms: {
        list: () => Promise.resolve([...retained.values()]),
        recent: () => Promise.resolve([...retained.values()]),
        end: () => Promise.resolve(),
      },
    };
    return createActivities(deps);
  });
}, 300_000);

afterAll(async () => {
  worker?.shutdown();
  await worker?.ended;
  await worker?.close();
  await stack?.stop();
});

async function run(runId: string, steps: string): Promise<RunOutcome> {
  const spec = `kind: workflow\nname: ${runId}\nsandbox: { mode: mock, keep: on-failure }\nworkflow:\n  steps:\n${steps}`;
  await startRun(stack.runs.client, { runId, request: { spec }, summary: `test ${runId}` });
  return await awaitOutcome(stack.runs.client, runId);
}

const OWN = 'sandbox: { mode: mock, keep: on-failure, keep_secs: 60 }';

async function typesOf(runId: string): Promise<readonly string[]> {
  return (await stack.eventsOf(runId)).flatMap(({ body }) => ('vmKey' in body ? [`${body.type} ${body.vmKey}`] : []));
}

test('the VM of the last attempt is kept, the run ends as usual, and later stages run', async () => {
  const outcome = await run(
    'left',
    `    - { name: build, ${OWN}, retry: { max_attempts: 3 }, run: { program: fail } }
    - { name: clean, finally: true, run: { program: echo } }\n`,
  );
  expect(outcome).toMatchObject({ state: 'failed', failedStage: 'build' });
  expect(outcome.failure?.message).toMatch(
    /^stage build ended with exit code 3; its VM is left until \S+Z: look with `voidbox exec left build -- COMMAND`, end it with `voidbox release left build`$/,
  );
  expect([...retained.keys()]).toEqual(['left/build/2']);
  expect(mock.alive()).toEqual(['left/build/2']);
  const types = await typesOf('left');
  expect(types.filter((type) => type.startsWith('vm-stopped')).toSorted()).toEqual([
    'vm-stopped left/build/0',
    'vm-stopped left/build/1',
    expect.stringMatching(/^vm-stopped left\/.*\/0$/),
  ]);
});

test('the VM of several steps is left when the last of them has ended', async () => {
  const outcome = await run(
    'shared',
    `    - { name: build, run: { program: fail }, continue_on_error: true }
    - { name: after, depends_on: [build], run: { program: echo, args: [more] } }\n`,
  );
  expect(outcome).toMatchObject({ state: 'succeeded', tolerated: ['build'] });
  expect(retained.get('shared/_shared/0')).toMatchObject({ stage: 'build' });
  expect(await typesOf('shared')).not.toContain('vm-stopped shared/_shared/0');
});

test('a worker that does not allow it refuses the run, and says what does', async () => {
  allowsRetention = false;
  const outcome = await run('refused', '    - { name: build, run: { program: fail } }\n');
  expect(outcome).toMatchObject({ state: 'failed', failure: { code: 'admit/keep-refused' } });
  expect(outcome.failure?.message).toContain('this worker does not allow runs to keep VMs of failed stages');
});
