/**
 * The boot time of a VM, read from the run's log, so that a worker that takes over an attempt reports the same value.
 */
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { formatVmKey } from '../../domain/run/vm-key.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { SandboxBackend, VmKey } from '../ports/sandbox.ts';
import type { Attempt } from '../attempt/stage-attempt.ts';

/** Returns null before the VM is ready, and for a mock, which boots nothing. */
export async function bootMsOf(
  events: Pick<EventLog, 'find'>,
  backend: Pick<SandboxBackend, 'name'>,
  key: VmKey,
): Promise<number | null> {
  if (backend.name === 'mock') return null;
  const ready = await events.find(key.runId, EVENT_ID.vm(formatVmKey(key), 'ready'));
  return ready?.body.type === 'vm-ready' ? ready.body.bootMs : null;
}

/** Adds the boot time to a result. A shared VM boots in `acquireVm`, before its stages. */
export async function withBoot(
  { deps, vmKey, backend, ownsVm }: Pick<Attempt, 'deps' | 'vmKey' | 'backend' | 'ownsVm'>,
  result: StageResult,
): Promise<StageResult> {
  const bootMs = ownsVm ? await bootMsOf(deps.events, backend, vmKey) : null;
  return bootMs === null ? result : { ...result, bootMs };
}
