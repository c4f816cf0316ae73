/** Reads the mark of the start of a run, if the run is the one that this host started. */
import { createHash } from 'node:crypto';
import type { AdmissionRecord } from '../../activities/admission/admission-record.ts';
import type { ClientMark } from '../../client/runs/client-record.ts';
import { CLIENT_MARK } from '../../domain/run/client-mark.ts';
import { readStartKey } from '../../domain/security/start-proof.ts';
import type { Stores } from '../../store/stores.ts';

/** @returns null: this host has no mark for the run, or the mark is of a start whose id another client took */
export async function readClientMark(
  runId: string,
  { marks, records }: Pick<Stores, 'marks' | 'records'>,
): Promise<Partial<ClientMark> | null> {
  const mark = ((await marks.get(runId, CLIENT_MARK)) ?? null) as Partial<ClientMark> | null;
  const key = readStartKey(mark);
  if (key === null) return mark;
  const admission = (await records.get(runId, 'admission')) as AdmissionRecord | null | undefined;
  return admission?.provenKey === createHash('sha256').update(key).digest('hex') ? mark : null;
}
