/** Releases the VM of an attempt, and records it in the log. */
import { type CodedError, isCodedError } from '../../domain/errors/coded-error.ts';
import { endsVm } from '../../domain/errors/error-code.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { formatVmKey } from '../../domain/run/vm-key.ts';
import type { Exec, Sandbox } from '../ports/sandbox.ts';
import { recordNetwork } from './network-log.ts';
import { isRetained } from './retain-vm.ts';
import type { Attempt } from '../attempt/stage-attempt.ts';

/**
 * Releases the VM after the result is durable. A VM that is lost now does not change the result, and must not make the
 * stage run again.
 */
export async function releaseVmOfAttempt(
  context: Attempt,
  sandbox: Sandbox,
  execs: readonly Exec[],
  isRetained: boolean,
): Promise<void> {
  try {
    for (const exec of execs) await exec.acknowledge();
    if (context.ownsVm && !isRetained) await sandbox.stop();
  } catch (error) {
    if (!(isCodedError(error) && endsVm(error.code))) throw error;
  }
  if (!context.ownsVm) return;
  if (!isRetained) return noteStopped(context);
  // A retained VM keeps its lease, because it uses room as long as it lives.
  await recordNetwork(context);
  context.deps.vms.drop(context.vmKey);
}

export async function releaseOwned(context: Attempt): Promise<void> {
  if (context.request.scope.sandbox.keepOnFailureMs !== undefined && (await isRetained(context.deps, context.vmKey)))
    return;
  await context.backend.release(context.vmKey);
  await noteStopped(context);
}

/** Records the end of the VM, and of the connections that ended with it. */
async function noteStopped(context: Attempt): Promise<void> {
  const { deps, request, vmKey } = context;
  await recordNetwork(context);
  deps.vms.drop(vmKey);
  await deps.leases.release(vmKey);
  await deps.events.append(request.runId, [vmStopped(context)]);
}

/** Records a lost VM. The run machine releases it before it requests the next generation. */
export async function recordLoss(context: Attempt, error: CodedError): Promise<void> {
  const { deps, request, vmKey } = context;
  const name = formatVmKey(vmKey);
  await recordNetwork(context);
  deps.vms.drop(vmKey);
  await deps.events.append(request.runId, [
    {
      id: EVENT_ID.vm(name, 'lost'),
      atMs: deps.now(),
      body: {
        type: 'vm-lost',
        vmKey: name,
        scope: vmKey.scope,
        generation: vmKey.generation,
        reason: `${error.code}: ${error.message}`,
      },
    },
  ]);
}

function vmStopped({ vmKey, deps }: Attempt): NewRunEvent {
  return {
    id: EVENT_ID.vm(formatVmKey(vmKey), 'stopped'),
    atMs: deps.now(),
    body: { type: 'vm-stopped', vmKey: formatVmKey(vmKey), scope: vmKey.scope, generation: vmKey.generation },
  };
}
