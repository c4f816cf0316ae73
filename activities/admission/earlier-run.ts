/**
 * The run whose outputs another run takes over. The client only names the run: the outcomes of its stages are read from
 * the records and the log on this host.
 */
import { CodedError } from '../../domain/errors/coded-error.ts';
import { type EarlierRun, findDifferingBefore, type Reuse, reuseOf } from '../../domain/pipeline/reuse.ts';
import { ownStageOf } from '../../domain/plan/item-parts.ts';
import type { DataRef, Plan } from '../../domain/plan/plan.ts';
import type { UploadHashes } from '../../domain/plan/name-uploads.ts';
import type { PlanWire } from '../../domain/plan/wire.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { ORIGIN_KINDS, type OriginKind, type RunOrigin } from '../../domain/run/origin.ts';
import { isRunId } from '../../domain/run/run-id.ts';
import type { ChangedLimits } from '../../domain/plan-rules/agent-limits.ts';
import type { ContinuedAgent } from '../../domain/run/agent-saves.ts';
import { readStageEnds, type StageEnd, type StageEnds } from '../../domain/run/stage-ends.ts';
import type { AdmissionRecord } from './admission-record.ts';
import { endOf } from './admitted-run.ts';
import type { GivenOutputs, InlineOrRef } from '../contract.ts';
import { continueIn } from './continued-agents.ts';
import type { ActivityDeps } from '../deps.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import { quote } from '../../domain/units/quote.ts';

export interface EarlierRecords {
  readonly wire: PlanWire;
  readonly input: InlineOrRef | null;
  readonly ends: StageEnds;
  /** The saves from which the earlier run's own agents continued. */
  readonly continued: Readonly<Record<string, ContinuedAgent>>;
  readonly limits?: ChangedLimits;
  /** The folder of each prepared sandbox at its admission, by its text in the plan. */
  readonly prepared: Readonly<Record<string, string>>;
  readonly uploads: UploadHashes;
}

/** @throws CodedError `admit/invalid` */
export function originIn(value: unknown): RunOrigin | null {
  if (value === undefined || value === null) return null;
  const { runId, kind, from = null, continue: asked } = value as Partial<Record<keyof RunOrigin, unknown>>;
  const continued = continueIn(asked);
  if (
    typeof runId === 'string' &&
    isRunId(runId) &&
    ORIGIN_KINDS.includes(kind as OriginKind) &&
    (from === null || typeof from === 'string') &&
    (continued === null || kind === 'retry')
  )
    return { runId, kind: kind as OriginKind, from, ...(continued === null ? {} : { continue: continued }) };
  throw new CodedError(
    'admit/invalid',
    '`origin` must be {"runId":"…","kind":"retry" or "fork","from":"a stage" or null}, a retry also with `continue`',
  );
}

/** @throws CodedError `origin/unknown`, `origin/open`, `store/damaged` */
export async function readEarlier(
  { records, events, reader, placement, serverId }: ActivityDeps,
  { runId }: RunOrigin,
  newRunId: string,
): Promise<EarlierRecords> {
  const record =
    runId === newRunId ? null : ((await records.get(runId, 'admission')) as AdmissionRecord | null | undefined);
  if (record === null || record === undefined)
    throw new CodedError(
      'origin/unknown',
      `host ${placement.hostId} has no records of run ${quote(runId)}: it was pruned or refused, or it is on another host`,
    );
  if (record.hostId !== placement.hostId)
    throw new CodedError(
      'origin/unknown',
      `run ${quote(runId)} is on host ${record.hostId}, and this is host ${placement.hostId}, which has its outputs`,
    );
  // Access to one server gives no right to the outputs of another server's runs.
  if (record.serverId !== serverId)
    throw new CodedError('origin/unknown', `run ${quote(runId)} belongs to another Temporal server`);
  if ((await endOf(events, runId)) === null)
    throw new CodedError('origin/open', `run ${quote(runId)} has not ended: its outputs may still change`);
  return {
    wire: record.plan,
    input: record.input,
    ends: await readStageEnds(runId, reader.read(runId, 0, { output: false })),
    continued: record.continued ?? {},
    prepared: record.prepared ?? {},
    uploads: record.uploads ?? {},
    ...(record.limits === undefined ? {} : { limits: record.limits }),
  };
}

/**
 * Returns the stages that need not run again.
 * @throws CodedError `admit/invalid`, `origin/differs`
 */
export function reuseFrom(
  { kind, runId, from }: RunOrigin,
  run: { readonly plan: Plan; readonly input: InlineOrRef | null; readonly uploads?: UploadHashes },
  {
    input,
    ends,
    uploads,
    plan,
    saved,
  }: Pick<EarlierRecords, 'input' | 'ends' | 'uploads'> & Pick<EarlierRun, 'plan' | 'saved'>,
): Reuse {
  if (from !== null && !run.plan.stages.some(({ id }) => id === from))
    throw new CodedError('admit/invalid', `the plan has no stage ${quote(from)} to start from`);
  const own = ownStageOf(run.plan)(from ?? '');
  if (from !== null && own !== from)
    throw new CodedError('admit/invalid', `stage ${quote(from)} runs for each item of ${own}: start from ${own}`);
  const differing =
    kind === 'fork' && from !== null ? findDifferingBefore(run, { plan, input, uploads }, from) : new Map();
  for (const [stage, keys] of differing as ReadonlyMap<string, readonly string[]>)
    throw new CodedError(
      'origin/differs',
      `a fork of ${quote(runId)} cannot start from ${from}: stage ${stage} before it ${keys.length === 0 ? 'is not in that run' : `has another ${keys.join(', ')}`}`,
    );
  return reuseOf(run, { plan, input, uploads, ends, ...(saved === undefined ? {} : { saved }) }, from);
}

/**
 * Claims the outputs, so that no prune deletes them before the new run's records name them.
 * @throws CodedError `origin/output-gone`
 */
export async function claimGiven(
  { artifacts }: Pick<ActivityDeps, 'artifacts'>,
  { runId }: RunOrigin,
  given: ReadonlyMap<string, StageEnd>,
): Promise<Readonly<Record<string, GivenOutputs>>> {
  const claimed: [string, GivenOutputs][] = [];
  for (const [stage, { state, output, outputs, ranIn }] of given) {
    for (const [name, ref] of refsOf(output, outputs)) {
      if (await artifacts.claim(ref)) continue;
      throw new CodedError(
        'origin/output-gone',
        `${name === null ? 'the output' : `output ${name}`} of stage ${stage} of run ${quote(ranIn)} (artifact ${ref.sha256}) has been deleted: start from ${stage}`,
      );
    }
    claimed.push([
      stage,
      {
        output,
        outputs,
        ...(state === 'passed' ? { passed: true } : {}),
        ...(ranIn === runId ? {} : { ranIn }),
      },
    ]);
  }
  return createMapping(claimed);
}

function refsOf(
  output: DataRef | null,
  outputs: Readonly<Record<string, DataRef>>,
): readonly (readonly [name: string | null, ref: DataRef])[] {
  return [...(output === null ? [] : [[null, output] as const]), ...Object.entries(outputs)];
}

export function createGivenEvents(
  { origin, given = {} }: Pick<AdmissionRecord, 'origin' | 'given'>,
  atMs: number,
): readonly NewRunEvent[] {
  if (origin === undefined) return [];
  return Object.entries(given).map(([stage, { output, outputs, passed, ranIn }]) => ({
    id: EVENT_ID.given(stage),
    atMs,
    body: {
      type: 'stage-given',
      stage,
      runId: ranIn ?? origin.runId,
      outcome: passed === true ? 'passed' : 'succeeded',
      output,
      outputs,
    },
  }));
}
