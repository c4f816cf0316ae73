/**
 * Durable marks of an attempt: what is prepared, and the result. A stage's result is its `stage-finished` event: the
 * first one of an exec key stands, and the store refuses that of a driver which was overtaken.
 */
import type { NewRunEvent, StageResult } from '../domain/run/event.ts';
import type { EventStore, RunRecords, VmKey } from './ports.ts';

function finishedId(execKey: string): string {
  return `stage/${execKey}/finished`;
}

export async function readResult(events: EventStore, runId: string, execKey: string): Promise<StageResult | null> {
  const event = await events.find(runId, finishedId(execKey));
  return event?.body.type === 'stage-finished' ? event.body.result : null;
}

/**
 * On the disk when it settles, with the output before it.
 * @param fence of the VM that the result comes from; null for a result that no VM had a part in
 * @returns the result that stands: an earlier one, where there is one
 * @throws CodedError `fence/stale` when a newer attempt drives the exec
 */
export async function writeResult(events: EventStore, runId: string, result: StageResult, fence: number | null, atMs: number): Promise<StageResult> {
  const { execKey, stage } = result;
  const event: NewRunEvent = { id: finishedId(execKey), atMs, body: { type: 'stage-finished', stage, execKey, result } };
  const isFirst = (await events.append(runId, [event], fence === null ? undefined : { execKey, fence })) > 0;
  return isFirst ? result : ((await readResult(events, runId, execKey)) ?? result);
}

function preparedName(execKey: string): string {
  return `prepared-${execKey}`;
}

/** True when the exec's files are in this VM: writing them again could overwrite what the command made of them. */
export async function isPrepared(records: RunRecords, runId: string, execKey: string, generation: number): Promise<boolean> {
  const mark = (await records.get(runId, preparedName(execKey))) as { readonly generation?: number } | null | undefined;
  return mark?.generation === generation;
}

export async function markPrepared(records: RunRecords, runId: string, execKey: string, generation: number): Promise<void> {
  await records.put(runId, preparedName(execKey), { generation });
}

function vmPreparedName({ scope, generation }: VmKey): string {
  return `vm-prepared-${scope}/${generation}`;
}

/** True when the writable mounts are in this VM: commands may have changed them since. */
export async function isVmPrepared(records: RunRecords, key: VmKey): Promise<boolean> {
  return ((await records.get(key.runId, vmPreparedName(key))) ?? null) !== null;
}

export async function markVmPrepared(records: RunRecords, key: VmKey): Promise<void> {
  await records.put(key.runId, vmPreparedName(key), { v: 1 });
}
