/**
 * Finds or creates the VM of a scope: gets room on the host, launches or attaches, and records events for the run's
 * readers.
 */
import { isCodedError } from '../../domain/errors/coded-error.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent, RunEventBody } from '../../domain/run/event.ts';
import { formatVmKey } from '../../domain/run/vm-key.ts';
import type { VmLease } from '../../domain/run/vm-lease.ts';
import type { ActivityDeps } from '../deps.ts';
import type { AttemptLife } from '../heartbeat.ts';
import { confirmMounts } from '../admission/mount-policy.ts';
import { confirmServices } from '../admission/service-policy.ts';
import type { SandboxBackend, VmKey } from '../ports/sandbox.ts';
import type { ScopeRequest } from '../calls/requests.ts';
import { endOldestRetained } from './retain-vm.ts';
import type { PooledVm } from './pool.ts';
import { chooseStart, launchWith, type VmStart } from './resume-vm.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';

type VmReady = Extract<RunEventBody, { type: 'vm-ready' }>;

export interface OpenedVm {
  readonly lease: VmLease;
  /** Null if the lease names another host, so that this host launches no VM. */
  readonly vm: PooledVm | null;
  /** The disk with which the VM of this call began; null: the call replaces no lost VM. */
  readonly start: VmStart | null;
}

/**
 * @throws CodedError `vm/no-capacity`, `vm/too-large`, `admit/mount-refused` and the errors of `SandboxBackend.launch`
 */
export async function openVm(
  deps: ActivityDeps,
  request: ScopeRequest,
  backend: SandboxBackend,
  life: AttemptLife,
): Promise<OpenedVm> {
  const { runId, scope, instance, generation } = request;
  const key: VmKey = { runId, scope: scope.id, instance, generation };
  const name = formatVmKey(key);
  const identity = { vmKey: name, scope: key.scope, generation: key.generation };
  const event = (transition: 'starting' | 'ready', body: RunEventBody): NewRunEvent => ({
    id: EVENT_ID.vm(name, transition),
    atMs: deps.now(),
    body,
  });

  await confirmMounts(deps, request.runId, request.scope);
  await confirmServices(deps, request.runId, request.scope);
  let start = request.resumes === true ? await chooseStart(deps, key) : null;
  const lease = await makeRoomAndRetry(deps, key, () => leaseOf(deps, key, request, backend, start));
  if (lease.host !== deps.placement.hostId) return { lease, vm: null, start: null };
  life.phase('starting the VM');
  await deps.events.append(request.runId, [event('starting', { type: 'vm-starting', ...identity })]);
  const { sandbox: spec } = request.scope;
  const vm = await makeRoomAndRetry(deps, key, () =>
    deps.vms.use(key, async () => {
      if (start === null) return await backend.launch(key, spec, life.ended);
      const started = await launchWith(deps, { backend, key, spec, signal: life.ended }, start);
      start = started.start;
      return started.sandbox;
    }),
  );
  const { facts } = vm.sandbox;
  await deps.events.append(request.runId, [
    event('ready', {
      type: 'vm-ready',
      ...identity,
      backend: facts.vmm,
      vmm: facts.vmm,
      chosenBy: spec.mode === 'auto' ? 'auto' : 'spec',
      isolation: facts.isolation,
      accelerator: facts.accelerator,
      kernel: facts.kernel,
      jail: facts.jail,
      ...(facts.limits === undefined ? {} : { limits: facts.limits }),
      bootMs: facts.bootMs,
      start: facts.start,
      ...(facts.snapshot === null ? {} : { snapshot: facts.snapshot }),
      ...(facts.pooled === true ? { pooled: true } : {}),
      ...(facts.startNote === null ? {} : { startNote: facts.startNote }),
      ...describeStart(start),
    }),
  ]);
  return { lease, vm, start };
}

function describeStart(start: VmStart | null): Pick<VmReady, 'resumedAfter' | 'resumeNote'> {
  if (start === null) return {};
  return {
    ...(start.checkpoint === null ? {} : { resumedAfter: start.checkpoint.after }),
    ...(start.note === null ? {} : { resumeNote: sanitizeLine(start.note) }),
  };
}

/** Ends retained VMs of failed stages before this VM waits, one by one, the oldest first. */
async function makeRoomAndRetry<T>(deps: ActivityDeps, key: VmKey, work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      const isFull = isCodedError(error) && error.code === 'vm/no-capacity';
      // If a retained VM cannot be ended now, this VM waits like every other VM without room.
      if (!isFull || !(await endOldestRetained(deps, key).catch(() => false))) throw error;
    }
  }
}

async function leaseOf(
  { leases, placement: { hostId: host, hostQueue: queue } }: ActivityDeps,
  key: VmKey,
  { scope: { sandbox } }: ScopeRequest,
  backend: SandboxBackend,
  start: VmStart | null,
): Promise<VmLease> {
  // A mock lives in this process and uses no counted resources.
  if (backend.name === 'mock') return { vmKey: formatVmKey(key), queue, host };
  const { memoryMib, vcpus, diskMib } = sandbox;
  // A checkpoint stays on its host.
  const boundTo = start === null || start.checkpoint === null ? {} : { boundTo: host };
  return await leases.grant(key, { memoryMib, vcpus, diskMib, ...boundTo });
}
