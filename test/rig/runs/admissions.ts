/** Requests and records of admissions, as the workflow of a run and its host make them. */
import type { AdmissionRecord } from '../../../activities/admission/admission-record.ts';
import { HISTORY_LIMIT } from '../../../activities/admission/admit.ts';
import type { AdmitRequest, RunRequest } from '../../../activities/contract.ts';
import { BEHAVIOUR } from '../../../domain/run/behaviour.ts';

/** A client's request with the fields that the workflow adds. The activity's own execution is the run's first. */
export function requestOf(runId: string, request: RunRequest & Partial<AdmitRequest>): AdmitRequest {
  return { behaviour: BEHAVIOUR, recordsBoots: false, runId, ...request } as AdmitRequest;
}

/** Fields of a record that most tests do not look at. */
export const RECORD_DEFAULTS = {
  hostQueue: 'q',
  hostId: 'h',
  input: null,
  serverId: 's',
  executionId: 'execution-1',
  behaviour: BEHAVIOUR,
  recordsBoots: false,
  historyLimit: HISTORY_LIMIT,
  mounts: {},
} as const satisfies Omit<AdmissionRecord, 'plan'>;
