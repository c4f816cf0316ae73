/**
 * The checkpoints of the run that another run retries or forks. The new run gets its own link to each that it uses, before its
 * admission is recorded, so that the earlier run may be deleted afterwards.
 */
import { isCodedError } from '../../domain/errors/coded-error.ts';
import { type FirstDisk, type Reuse, type SavedDisk, type SavedVm } from '../../domain/pipeline/reuse.ts';
import type { Plan, ScopePlan } from '../../domain/plan/plan.ts';
import type { UploadHashes } from '../../domain/plan/name-uploads.ts';
import { isSavedEachStep } from '../../domain/plan/scope.ts';
import { fromWire } from '../../domain/plan/wire.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import type { RunOrigin } from '../../domain/run/origin.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import type { InlineOrRef } from '../contract.ts';
import type { ActivityDeps } from '../deps.ts';
import type { TakenCheckpoint } from '../ports/step-checkpoints.ts';
import type { AdmissionRecord } from './admission-record.ts';
import { type EarlierRecords, reuseFrom } from './earlier-run.ts';
import { namePreparedSandbox } from './prepared-sandboxes.ts';

export interface NewRun {
  readonly runId: string;
  readonly plan: Plan;
  readonly input: InlineOrRef | null;
  /** The folder of each prepared sandbox, by its text in the plan. */
  readonly prepared: Readonly<Record<string, string>>;
  readonly uploads: UploadHashes;
}

/**
 * Decides which stages need not run again, and takes over the checkpoints with which their VMs begin. A checkpoint that
 * cannot be taken over does not count, and the decision is made again.
 * @param mayBegin  false: the workflow starts no first VM from a checkpoint
 * @throws CodedError `admit/invalid`, `origin/differs`
 */
export async function reuseWithCheckpoints(
  deps: Pick<ActivityDeps, 'checkpoints' | 'records'>,
  origin: RunOrigin,
  run: NewRun,
  earlier: EarlierRecords,
  mayBegin: boolean,
): Promise<Reuse> {
  const plan = fromWire(earlier.wire);
  if (!mayBegin) return reuseFrom(origin, run, { ...earlier, plan });
  let saved = await readSavedVms(deps, origin.runId, plan, { run, earlier });
  for (;;) {
    const reuse = reuseFrom(origin, run, { ...earlier, plan, saved });
    const failed = await takeOverAll(deps, origin.runId, run.runId, reuse.firstDisks);
    if (failed === null) return reuse;
    saved = removeCheckpoint(saved, failed);
  }
}

async function readSavedVms(
  { checkpoints }: Pick<ActivityDeps, 'checkpoints'>,
  runId: string,
  { scopes }: Plan,
  runs: { readonly run: NewRun; readonly earlier: EarlierRecords },
): Promise<ReadonlyMap<string, SavedVm>> {
  const saved = new Map<string, SavedVm>();
  for (const scope of scopes.filter(isSavedEachStep)) {
    if (checkpoints === undefined) saved.set(scope.id, makeUnsaved('this worker keeps no checkpoints'));
    else if (isOnOtherSandbox(scope, runs))
      saved.set(scope.id, makeUnsaved('its `snapshot` now names another prepared sandbox'));
    else saved.set(scope.id, await readSavedVm(checkpoints, runId, scope.id));
  }
  return saved;
}

function makeUnsaved(problem: string): SavedVm {
  return { checkpoints: [], problem };
}

/** The steps of the earlier run may have used files of the prepared sandbox that the new one does not have. */
function isOnOtherSandbox(
  { sandbox }: ScopePlan,
  { run, earlier }: { readonly run: NewRun; readonly earlier: EarlierRecords },
): boolean {
  const text = namePreparedSandbox(sandbox);
  return text !== null && earlier.prepared[text] !== run.prepared[text];
}

async function readSavedVm(
  checkpoints: NonNullable<ActivityDeps['checkpoints']>,
  runId: string,
  scope: string,
): Promise<SavedVm> {
  try {
    const { whole, problems } = await checkpoints.list({ runId, scope, instance: [] });
    const problem =
      problems.length === 0 ? `run ${runId} keeps no checkpoint of its VM on this host` : problems.join('; ');
    return { checkpoints: whole, problem };
  } catch (error) {
    if (!isCodedError(error)) throw error;
    return makeUnsaved(error.message);
  }
}

interface TakeOverFailure {
  readonly firstDisk: FirstDisk;
  readonly reason: string;
}

/** Returns the first that fails; null: all are taken over, or the run is admitted already. */
async function takeOverAll(
  { checkpoints, records }: Pick<ActivityDeps, 'checkpoints' | 'records'>,
  earlierId: string,
  runId: string,
  firstDisks: Reuse['firstDisks'],
): Promise<TakeOverFailure | null> {
  // The checkpoints of an admitted run are its own: this try of admission is late, and changes nothing.
  if (((await records.get(runId, 'admission')) ?? null) !== null) return null;
  // An earlier try of this admission may have taken others over.
  await checkpoints?.dropRun(runId);
  for (const [scope, firstDisk] of firstDisks) {
    const source = { runId: earlierId, scope: firstDisk.scope, instance: [] };
    const taken = [firstDisk.checkpoint, ...firstDisk.older].map(nameGivenWork);
    const reason = await checkpoints!.takeOver(source, { runId, scope, instance: [] }, taken);
    if (reason !== null) return { firstDisk, reason };
  }
  return null;
}

/** In the new run, the work on the disk is of no attempt. */
function nameGivenWork({ number, holds }: SavedDisk): TakenCheckpoint {
  const stages = new Set(holds.map(({ stage }) => stage));
  return { number, holds: [...stages].map((stage) => ({ stage, attempt: 0 })) };
}

function removeCheckpoint(
  saved: ReadonlyMap<string, SavedVm>,
  { firstDisk: { scope, checkpoint }, reason }: TakeOverFailure,
): ReadonlyMap<string, SavedVm> {
  const { checkpoints = [] } = saved.get(scope) ?? {};
  const left = checkpoints.filter(({ number }) => number !== checkpoint.number);
  return new Map([...saved, [scope, { checkpoints: left, problem: reason }]]);
}

/** Returns why scopes begin without a checkpoint, if stages of them run again only for this reason. */
export function findUnsaved({ scopes }: Plan, { again }: Reuse): Readonly<Record<string, string>> {
  return createMapping(
    scopes.flatMap(({ id, stages }) => {
      const because = stages.map((stage) => again.get(stage)).find((each) => each?.kind === 'shares-vm');
      return because?.kind === 'shares-vm' && because.unsaved !== undefined ? [[id, because.unsaved] as const] : [];
    }),
  );
}

export function createUnsavedEvents(
  { unsaved = {}, plan }: Pick<AdmissionRecord, 'unsaved' | 'plan'>,
  atMs: number,
): readonly NewRunEvent[] {
  const { scopes } = fromWire(plan);
  return Object.entries(unsaved).map(([id, reason]) => {
    const stages = scopes.find((scope) => scope.id === id)?.stages ?? [];
    const message = `the VM of ${stages[0]} starts without a checkpoint, so all ${stages.length} stages of it run: ${reason}`;
    return {
      id: EVENT_ID.noCheckpoint(id),
      atMs,
      body: { type: 'notice', level: 'info', message: sanitizeLine(message) },
    };
  });
}
