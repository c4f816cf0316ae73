/** All that this host recorded of a run: its admission and its outcome. */
import { dirname } from 'node:path';
import type { AdmissionRecord } from '../../activities/admission/admission-record.ts';
import { SOURCE_RECORD, type SourceRecord } from '../../client/runs/client-record.ts';
import type { EarlierRun } from '../../domain/pipeline/reuse.ts';
import type { ChangedLimits } from '../../domain/plan-rules/agent-limits.ts';
import { fromWire } from '../../domain/plan/wire.ts';
import type { ContinuedAgent } from '../../domain/run/agent-saves.ts';
import { readStageEnds } from '../../domain/run/stage-ends.ts';
import { emptyView, type RunView } from '../../store/run-view.ts';
import { AppError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { readClientMark } from './client-mark.ts';
import { readRepairedViews } from './repair-runs.ts';
import { formatRunId } from './run-id.ts';

export interface RecordedRun extends EarlierRun {
  readonly runId: string;
  readonly view: RunView;
  /** The saves that its agents continued from, if it is a retry with `continue`. */
  readonly continued: Readonly<Record<string, ContinuedAgent>>;
  /** Limits that differ from those of its spec; absent: none. */
  readonly limits?: ChangedLimits;
  /** The spec's folder; null: not known. */
  readonly baseDir: string | null;
  /** The folder to which the token that started the run is confined; null: the owner started it. */
  readonly confinedTo: string | null;
  /** Null if the run was started by a client of Temporal, which records no source. */
  readonly source: SourceRecord | null;
}

/** @throws AppError when the run was not admitted; CodedError `store/damaged` */
export async function readRecordedRun(runId: string, context: Machine): Promise<RecordedRun> {
  const stores = await context.stores();
  const { records, reader } = stores;
  const [view = emptyView(runId)] = await readRepairedViews([runId], context);
  const admission = (await records.get(runId, 'admission')) as AdmissionRecord | null | undefined;
  if (admission === null || admission === undefined)
    throw new AppError(
      'usage',
      'origin/unknown',
      `run ${formatRunId(runId)} was not admitted, so it has no data`,
      'Start its spec again: voidbox run FILE',
    );
  const client = await readClientMark(runId, stores);
  const source = ((await records.get(runId, SOURCE_RECORD)) ?? null) as SourceRecord | null;
  return {
    runId,
    view,
    plan: fromWire(admission.plan),
    input: admission.input,
    uploads: admission.uploads ?? {},
    continued: admission.continued ?? {},
    ...(admission.limits === undefined ? {} : { limits: admission.limits }),
    ends: await readStageEnds(runId, reader.read(runId, 0, { output: false })),
    baseDir: client?.baseDir ?? (typeof source?.path === 'string' ? dirname(source.path) : null),
    confinedTo: client?.starter === undefined ? null : (client.baseDir ?? null),
    source,
  };
}
