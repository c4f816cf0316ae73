/** A VM that several steps share, while no step runs: it lives as long as its run. */
import { expect, test } from 'vitest';
import { describeVmLimits } from '../../app/lines/vm-facts.ts';
import type { ListedVm } from '../../client/vms/vm-list.ts';
import { Rig } from './rig.ts';

/** How long a VM lives without a renewal of its lease; a worker starts again within that time. */
const LEASE_MS = 12_000;
const IDLE_SECONDS = 30;

/** The second step finds the file that the first left in the VM, fails, and is tried again after a long pause. */
const SPEC = `api_version: v1
kind: workflow
name: idle
sandbox: { memory_mb: 256 }
workflow:
  steps:
    - name: first
      run: { program: sh, args: [-c, "echo first >> /workspace/done"] }
    - name: second
      depends_on: [first]
      retry: { max_attempts: 2, backoff_secs: ${IDLE_SECONDS} }
      run: { program: sh, args: [-c, "echo second >> /workspace/done; cat /workspace/done; test $(wc -l < /workspace/done) = 3"] }
`;

test('an idle shared VM outlives its lease while its run continues, also over the death of the worker', async () => {
  await using rig = new Rig({ VOIDBOX_ORPHAN_TIMEOUT_MS: String(LEASE_MS) });
  await rig.launch(rig.spec('spec.yaml', SPEC), 'idle');
  await rig.eventOf('idle', 'stage-retrying');
  const idleSince = Date.now();
  // The event comes as soon as the command has ended.
  await expect
    .poll(async () => (JSON.parse((await rig.cli('ps', '--json')).stdout) as { vms: unknown }).vms, { timeout: 20_000 })
    .toMatchObject([
      { id: 'idle/_shared/0', runId: 'idle', scope: '_shared', state: 'running', activity: 'idle', memoryMib: 256 },
    ]);
  // The host decides about control groups; the keeper of this build always says what it found.
  const { vms } = JSON.parse((await rig.cli('ps', '--json')).stdout) as { vms: readonly ListedVm[] };
  const limits = vms[0]!.limits!;
  expect(limits.cpus === null || limits.memoryMib === null).toBe(limits.note !== null);
  expect((await rig.cli('status', 'idle')).stdout).toContain(`, limits of the host: ${describeVmLimits(limits)}, `);
  expect((await rig.cli('ps')).stdout).toMatch(
    /^idle\/_shared\/0 +idle +qemu \w+ +256 MiB +(?:none|\d.*?) +\d+[sm] ago +\//m,
  );
  const { workerPid } = await rig.liveStack();
  rig.kill(workerPid);
  expect((await rig.finish('idle')).outcome).toMatchObject({ state: 'succeeded', failure: null });
  expect(Date.now() - idleSince, 'the VM was idle for longer than its lease').toBeGreaterThan(2 * LEASE_MS);
  expect(await rig.output('idle', 'second')).toBe('first\nsecond\nfirst\nsecond\nsecond\n');
  const events = await rig.events('idle');
  expect(events.filter(({ body }) => body.type === 'vm-lost')).toEqual([]);
  expect(events.flatMap(({ body }) => (body.type === 'vm-ready' ? [body.generation] : []))).toEqual([0]);
  expect((await rig.liveStack()).workerPid).not.toBe(workerPid);
  await rig.assertNothingLeft();
});
