/** The VM of a scope that several stages share: created before the first stage, ended after the last one. */
import { isCodedError } from '../../domain/errors/coded-error.ts';
import { isSavedEachStep } from '../../domain/plan/scope.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import { formatVmKey } from '../../domain/run/vm-key.ts';
import type { AcquiredVm } from '../../domain/run/vm-lease.ts';
import { bootMsOf } from './boot-time.ts';
import type { ActivityDeps } from '../deps.ts';
import { toActivityFailure } from '../failure.ts';
import { withHeartbeat } from '../heartbeat.ts';
import { openVm } from './open-vm.ts';
import { recordNetwork } from './network-log.ts';
import type { SandboxBackend, VmKey } from '../ports/sandbox.ts';
import type { ScopeRequest } from '../calls/requests.ts';
import { retainAtRelease } from './retain-vm.ts';

/** A keeper answers at once. If it does not, the VM is released as usual, and ends. */
const RETAIN_LIMIT_MS = 15_000;

export function acquireVm(deps: ActivityDeps, request: ScopeRequest): Promise<AcquiredVm> {
  const key = keyOf(request);
  return withHeartbeat((life) =>
    deps.attempts.drive(`acquire/${formatVmKey(key)}`, life, async () => {
      const backend = deps.backendFor(request.scope.sandbox);
      if (request.resumes !== true && isSavedEachStep(request.scope)) await deps.checkpoints?.dropScope(key);
      const { lease, vm, start } = await openVm(deps, request, backend, life);
      if (vm === null) return lease;
      vm.leave();
      const bootMs = await bootMsOf(deps.events, backend, key);
      const holds = start === null || start.holds.length === 0 ? {} : { holds: start.holds };
      return bootMs === null ? { ...lease, ...holds } : { ...lease, bootMs, ...holds };
    }),
  );
}

/** Ends the VM, alive or not. Idempotent; also for owned VMs that their stage could not end. */
export async function releaseVm(deps: ActivityDeps, request: ScopeRequest): Promise<void> {
  const key = keyOf(request);
  const name = formatVmKey(key);
  if (await retainAtRelease(deps, request, key, AbortSignal.timeout(RETAIN_LIMIT_MS)))
    return await recordNetwork({ deps, request, backend: deps.backendFor(request.scope.sandbox), vmKey: key });
  let backend: SandboxBackend | null = null;
  try {
    backend = deps.backendFor(request.scope.sandbox);
    await backend.release(key);
  } catch (error) {
    // A host that cannot create such VMs has no VM to end.
    if (!isCodedError(error) || (error.code !== 'host/not-ready' && error.code !== 'host/isolation'))
      throw toActivityFailure(error);
  }
  if (backend !== null) await recordNetwork({ deps, request, backend, vmKey: key });
  deps.vms.drop(key);
  // A later run may begin with checkpoints of the run itself.
  const isLastOfItem = request.resumes !== true && request.instance.length > 0;
  if (isLastOfItem && isSavedEachStep(request.scope)) await deps.checkpoints?.dropScope(key);
  await deps.leases.release(key);
  await deps.events.append(request.runId, [
    {
      id: EVENT_ID.vm(name, 'stopped'),
      atMs: deps.now(),
      body: { type: 'vm-stopped', vmKey: name, scope: key.scope, generation: key.generation },
    },
  ]);
}

function keyOf(request: ScopeRequest): VmKey {
  return { runId: request.runId, scope: request.scope.id, instance: request.instance, generation: request.generation };
}
