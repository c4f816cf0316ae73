/** Durable marks of an attempt: what is prepared, and the result. The first result of an exec key stands. */
import type { StageResult } from '../domain/run/event.ts';
import type { RunRecords } from './ports.ts';

function recordName(kind: 'result' | 'prepared', execKey: string): string {
  return `${kind}-${execKey}`;
}

export async function readResult(records: RunRecords, runId: string, execKey: string): Promise<StageResult | null> {
  return ((await records.get(runId, recordName('result', execKey))) as StageResult | null | undefined) ?? null;
}

export async function writeResult(records: RunRecords, runId: string, result: StageResult): Promise<StageResult> {
  return (await records.putFirst(runId, recordName('result', result.execKey), result)) as StageResult;
}

/** True when the exec's files are in this VM: writing them again could overwrite what the command made of them. */
export async function isPrepared(records: RunRecords, runId: string, execKey: string, generation: number): Promise<boolean> {
  const mark = (await records.get(runId, recordName('prepared', execKey))) as { readonly generation?: number } | null | undefined;
  return mark?.generation === generation;
}

export async function markPrepared(records: RunRecords, runId: string, execKey: string, generation: number): Promise<void> {
  await records.put(runId, recordName('prepared', execKey), { generation });
}
