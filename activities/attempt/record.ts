/**
 * Durable marks of an attempt and of its VM: the files that were put into the VM, and the result. A stage's result is
 * its `stage-finished` event. The first event of an exec key counts, and the store rejects the event of a driver that
 * was overtaken.
 */
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { formatInstance } from '../../domain/run/instance.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { HostMarks } from '../ports/host-marks.ts';
import type { Sandbox, SandboxFacts, VmKey } from '../ports/sandbox.ts';

export async function readResult(events: EventLog, runId: string, execKey: string): Promise<StageResult | null> {
  const event = await events.find(runId, EVENT_ID.attempt(execKey, 'finished'));
  return event?.body.type === 'stage-finished' ? event.body.result : null;
}

/**
 * Writes a result. It is on the disk when the promise resolves, and so is the output before it.
 * @param fence the fence of the VM that the result comes from; null if no VM took part
 * @returns the recorded result: the earlier one, if there is one
 * @throws CodedError `fence/stale` if a newer attempt drives the exec
 */
export async function writeResult(
  events: EventLog,
  runId: string,
  result: StageResult,
  fence: number | null,
  atMs: number,
): Promise<StageResult> {
  const { execKey, stage } = result;
  const event: NewRunEvent = {
    id: EVENT_ID.attempt(execKey, 'finished'),
    atMs,
    body: { type: 'stage-finished', stage, execKey, result },
  };
  const isFirst = (await events.append(runId, [event], fence === null ? undefined : { execKey, fence })) > 0;
  return isFirst ? result : ((await readResult(events, runId, execKey)) ?? result);
}

interface Mark {
  readonly v: 1;
  readonly vmLife: string;
}

/** The attempts whose files this process has put into a VM. */
const preparedHere = new WeakMap<SandboxFacts, Set<string>>();

/**
 * Returns true if the files of the attempt are in this VM and its command may have changed them. Writing the files
 * again could overwrite those changes. For files from another process, the command is the evidence. It starts after its
 * files are written, and the VM knows the command until its result is recorded. The files of a command that has not
 * started are written again.
 */
export async function isPrepared(sandbox: Pick<Sandbox, 'facts' | 'execs'>, execKey: string): Promise<boolean> {
  if (preparedHere.get(sandbox.facts)?.has(execKey) === true) return true;
  return sandbox.facts.attached && (await sandbox.execs()).some(({ key }) => key === execKey);
}

export function markPrepared({ facts }: Pick<Sandbox, 'facts'>, execKey: string): void {
  preparedHere.set(facts, (preparedHere.get(facts) ?? new Set()).add(execKey));
}

function vmPreparedName({ scope, instance, generation }: VmKey): string {
  return `vm-prepared-${scope}/${instance.length === 0 ? '' : `${formatInstance(instance)}/`}${generation}`;
}

/** Returns true if the writable mounts are in this VM: commands may have changed them since. */
export async function isVmPrepared(marks: HostMarks, key: VmKey, facts: SandboxFacts): Promise<boolean> {
  const found = (await marks.getOfVm(key.runId, vmPreparedName(key))) as Mark | null | undefined;
  // A mark belongs to one VM, not to its key. A key can be launched again after the host has forgotten the end of its
  // VM, for example when a run is reset.
  return found?.vmLife === facts.vmLife;
}

export function markVmPrepared(marks: HostMarks, key: VmKey, facts: SandboxFacts): Promise<void> {
  return marks.putOfVm(key.runId, vmPreparedName(key), { v: 1, vmLife: facts.vmLife } satisfies Mark);
}
