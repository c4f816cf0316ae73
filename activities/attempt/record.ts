/**
 * Durable marks of an attempt and of its VM: what is prepared, and the result. A stage's result is its `stage-finished` event: the
 * first one of an exec key stands, and the store refuses that of a driver which was overtaken.
 */
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { instanceText } from '../../domain/run/instance.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { HostMarks } from '../ports/host-marks.ts';
import type { Sandbox, SandboxFacts, VmKey } from '../ports/sandbox.ts';

export async function readResult(events: EventLog, runId: string, execKey: string): Promise<StageResult | null> {
  const event = await events.find(runId, EVENT_ID.attempt(execKey, 'finished'));
  return event?.body.type === 'stage-finished' ? event.body.result : null;
}

/**
 * On the disk when it settles, with the output before it.
 * @param fence of the VM that the result comes from; null for a result that no VM had a part in
 * @returns the result that stands: an earlier one, where there is one
 * @throws CodedError `fence/stale` when a newer attempt drives the exec
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

/** Attempts whose files this process has put into a VM, by what it knows of that. */
const preparedHere = new WeakMap<SandboxFacts, Set<string>>();

/**
 * True when the files of the attempt are in this VM and its command may have changed them: writing them again could overwrite what
 * it made of them. What another process has put there is known from the command, which starts after its files are there and is
 * known to the VM until its result stands. Files of a command that has not started are written again.
 */
export async function isPrepared(sandbox: Pick<Sandbox, 'facts' | 'execs'>, execKey: string): Promise<boolean> {
  if (preparedHere.get(sandbox.facts)?.has(execKey) === true) return true;
  return sandbox.facts.attached && (await sandbox.execs()).some(({ key }) => key === execKey);
}

export function markPrepared({ facts }: Pick<Sandbox, 'facts'>, execKey: string): void {
  preparedHere.set(facts, (preparedHere.get(facts) ?? new Set()).add(execKey));
}

function vmPreparedName({ scope, instance, generation }: VmKey): string {
  return `vm-prepared-${scope}/${instance.length === 0 ? '' : `${instanceText(instance)}/`}${generation}`;
}

/** True when the writable mounts are in this VM: commands may have changed them since. */
export async function isVmPrepared(marks: HostMarks, key: VmKey, facts: SandboxFacts): Promise<boolean> {
  const found = (await marks.getOfVm(key.runId, vmPreparedName(key))) as Mark | null | undefined;
  // A mark is of one VM, not of its key: a key can be launched again once the host has forgotten that its VM ended, for example
  // when a run is reset.
  return found?.vmLife === facts.vmLife;
}

export function markVmPrepared(marks: HostMarks, key: VmKey, facts: SandboxFacts): Promise<void> {
  return marks.putOfVm(key.runId, vmPreparedName(key), { v: 1, vmLife: facts.vmLife } satisfies Mark);
}
