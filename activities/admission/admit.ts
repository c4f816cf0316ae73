/** The first activity of each run. It checks every run, whatever client started it. */
import { pickEventIds } from '../../domain/run/run-trigger.ts';
import { CodedError, isCodedError } from '../../domain/errors/coded-error.ts';
import { type AnyErrorCode, retryOf } from '../../domain/errors/error-code.ts';
import { machineBytes, machinePlanOf, machineToWire } from '../../domain/pipeline/machine-plan.ts';
import { listSettled, type Reuse } from '../../domain/pipeline/reuse.ts';
import { listMockedStages, type MockRequest, findMocksToRepeat, withMocks } from '../../domain/plan-rules/mocks.ts';
import { selectAgentStages, listMockAgentStages, withMockAgents } from '../../domain/plan-rules/mock-agents.ts';
import { ownStageOf, ownStages } from '../../domain/plan/item-parts.ts';
import { readUploadHashes, type UploadHashes } from '../../domain/plan/name-uploads.ts';
import { CLIENT_MARK } from '../../domain/run/client-mark.ts';
import { type Plan, PLAN_LIMITS } from '../../domain/plan/plan.ts';
import { fromWire, countPlanBytes, type PlanWire, toWire } from '../../domain/plan/wire.ts';
import { waitOf } from '../../domain/plan/work.ts';
import { hostVariablesOf } from '../../domain/plan-rules/variables.ts';
import { describeUnsupported, findUnsupportedParts } from '../../domain/plan-rules/unsupported.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import type { AdmissionRecord } from './admission-record.ts';
import { assertCalledByRun, endOf } from './admitted-run.ts';
import { createUnsavedEvents, reuseWithCheckpoints, findUnsaved } from './earlier-checkpoints.ts';
import { claimGiven, createGivenEvents, type EarlierRecords, originIn, readEarlier } from './earlier-run.ts';
import { continueAgents } from './continued-agents.ts';
import type { Admission, AdmitRequest, HistoryLimit, Placement } from '../contract.ts';
import type { ActivityDeps } from '../deps.ts';
import type { Starter } from '../ports/starters.ts';
import { toActivityFailure } from '../failure.ts';
import { requireVariables } from '../attempt/host-variables.ts';
import { refuseBadSchemas } from '../attempt/output-check.ts';
import { behaviourFor, mayBeginWithCheckpoint, refuseNewer, removeNewer } from './plan-behaviour.ts';
import { refuseWritableMounts, selectAllowedRoots, resolveMounts, specFolderOf } from './mount-policy.ts';
import { findProvenKey, restrictToStart } from './proven-start.ts';
import { resolvePreparedSandboxes, selectPrepared } from './prepared-sandboxes.ts';
import { createFetchEvents, withRemoteAgentSkills } from './remote-skills.ts';
import { withStepMachineCodes } from './skill-policy.ts';
import { refuseRetention } from '../vm/retain-vm.ts';
import { refuseServices } from './service-policy.ts';
import { refuseRepositories } from './workspace-policy.ts';
import { assertRunId, inputOf, isGiven, mockAgentsIn, mockIn, planOf, hasNoMocks, hasNoPlan } from './run-request.ts';

/**
 * The server ends a workflow at 51,200 events or 50 MiB. After a run gave up, it may still cancel a thousand stages and
 * release as many VMs. That takes some 10,000 events and 10 MiB.
 */
export const HISTORY_LIMIT: HistoryLimit = { events: 36_000, bytes: 36 * 1024 * 1024 };

/** Record `refusal`: the reason why an execution was not admitted. A repeated `admit` throws it again. */
interface RefusalRecord {
  readonly executionId: string;
  readonly code: AnyErrorCode;
  readonly message: string;
}

export async function admit(deps: ActivityDeps, request: AdmitRequest): Promise<Admission> {
  try {
    const { runId, originalExecutionRunId } = request;
    const caller = assertCalledByRun(runId);
    assertRunId(runId);
    const executionId = typeof originalExecutionRunId === 'string' ? originalExecutionRunId : caller.executionId;
    const admission =
      (await readAdmission(deps, runId, executionId)) ??
      (await admitNew(deps, request, executionId)) ??
      // Another call created the record first, so its admission is the one of the run.
      (await readAdmission(deps, runId, executionId));
    if (admission === null) throw new Error(`the admission of run ${runId} was removed while it was read`);
    return admission;
  } catch (error) {
    throw toActivityFailure(error);
  }
}

/**
 * The records of a run belong to one execution of its workflow. Another execution with the same id gets neither its
 * results nor its folder.
 */
async function readAdmission(deps: ActivityDeps, runId: string, executionId: string): Promise<Admission | null> {
  const earlier = (await deps.records.get(runId, 'admission')) as AdmissionRecord | null | undefined;
  const hasEnded = (await endOf(deps.events, runId)) !== null;
  if (earlier === null || earlier === undefined) {
    if (!hasEnded) return null;
    const refusal = (await deps.records.get(runId, 'refusal')) as RefusalRecord | null | undefined;
    throw refusal?.executionId === executionId ? new CodedError(refusal.code, refusal.message) : idTaken(runId);
  }
  if (earlier.executionId !== executionId) throw idTaken(runId);
  const { plan, input, behaviour, recordsBoots, historyLimit } = earlier;
  // The call that wrote the admission may have died before it wrote the plan.
  await deps.records.create(runId, 'plan', plan);
  if (!hasEnded) await deps.events.append(runId, admissionEvents(deps, earlier));
  return {
    machine: machineOf(plan),
    ...placementOf(earlier),
    input,
    searchAttributes: deps.searchAttributes,
    behaviour,
    recordsBoots,
    historyLimit,
    ...nameDeployment(earlier),
    ...pickGiven(earlier),
  };
}

function nameDeployment({ trigger }: Pick<AdmissionRecord, 'trigger'>): Pick<Admission, 'deployment'> {
  return trigger === undefined ? {} : { deployment: trigger.deployment };
}

function pickGiven({ origin, given }: Pick<Admission, 'origin' | 'given'>): Pick<Admission, 'origin' | 'given'> {
  return { ...(origin === undefined ? {} : { origin }), ...(given === undefined ? {} : { given }) };
}

function placementOf({ hostId, hostQueue, storeQueue, leaseQueue }: Placement): Placement {
  return {
    hostId,
    hostQueue,
    ...(storeQueue === undefined ? {} : { storeQueue }),
    ...(leaseQueue === undefined ? {} : { leaseQueue }),
  };
}

function machineOf(plan: PlanWire): Admission['machine'] {
  return machineToWire(machinePlanOf(fromWire(plan)));
}

function idTaken(runId: string): CodedError {
  return new CodedError(
    'run/id-taken',
    `run ${runId} already exists: an earlier workflow had this id, and its records are kept`,
  );
}

/** Returns null if another call has admitted the run in the meantime. */
async function admitNew(deps: ActivityDeps, request: AdmitRequest, executionId: string): Promise<Admission | null> {
  try {
    return await admitRun(deps, request, executionId);
  } catch (error) {
    await recordRefusal(deps, request.runId, executionId, error);
    throw error;
  }
}

/** @param repeated  the run whose folders a retry uses; null: another run, or none */
async function listUploads(
  { marks }: Pick<ActivityDeps, 'marks'>,
  runId: string,
  repeated: EarlierRecords | null,
): Promise<UploadHashes> {
  const mark = ((await marks.get(runId, CLIENT_MARK)) ?? {}) as { readonly uploads?: unknown };
  return { ...repeated?.uploads, ...readUploadHashes(mark.uploads) };
}

async function admitRun(given: ActivityDeps, request: AdmitRequest, executionId: string): Promise<Admission | null> {
  const { runId } = request;
  const provenKey = await findProvenKey(given, request);
  const deps = restrictToStart(given, () => provenKey);
  const behaviour = behaviourFor(request.behaviour);
  const origin = originIn(request.origin);
  const earlier = origin === null ? null : await readEarlier(deps, origin, runId);
  const starter = await deps.starters.starterOf(runId);
  const baseDir = specFolderOf(starter);
  const isRepeated = hasNoPlan(request) && origin?.kind === 'retry';
  const said = await planOf(deps, isRepeated ? { plan: earlier?.wire } : request, baseDir);
  const before = earlier === null ? null : fromWire(earlier.wire);
  if (!isRepeated) refuseSaidMocks(said, origin?.kind === 'retry' && hasNoMocks(request) ? before : null);
  const kept = before === null ? null : findMocksToRepeat(before, said);
  const hasPlayed = before !== null && listMockAgentStages(before).length > 0;
  const isPlayed = mockAgentsIn(request.mockAgents) ?? hasPlayed;
  const mocked = applyMocks(removeNewer(said, behaviour), mockIn(request.mock) ?? kept);
  const asked = withDeclaredKeys(applyMockAgents(mocked, isPlayed, isGiven(request.mockAgents)));
  refuseTooLarge(asked);
  refuseNewer(asked, behaviour);
  refuseLongWaits(asked, deps.now());
  refuseUnsupported(asked);
  const { plan: fetched, skills: fetchedSkills } = await withRemoteAgentSkills(deps.fetchSkill, asked);
  const written = await withStepMachineCodes(deps, fetched, starter);
  const input = isGiven(request.input) ? await inputOf(deps, request.input) : (earlier?.input ?? null);
  const prepared = await resolvePreparedSandboxes(written, selectPrepared(deps.prepared, starter));
  const uploads = await listUploads(deps, runId, origin?.kind === 'retry' ? earlier : null);
  const reuse =
    origin === null || earlier === null
      ? null
      : await reuseWithCheckpoints(
          deps,
          origin,
          { runId, plan: written, input, prepared, uploads },
          earlier,
          mayBeginWithCheckpoint(behaviour),
        );
  const { plan, continued } =
    origin === null || earlier === null || reuse === null
      ? { plan: written, continued: {} }
      : await continueAgents(deps, origin, written, { reuse, earlier });
  refuseTooLarge(plan);
  await refuseBadSchemas(deps, plan);
  refuseServices(plan.scopes, deps.servicePolicy, starter);
  refuseRetention(plan.scopes, deps.allowsRetention);
  await refuseRepositories(deps, runId, plan);
  refuseWritableMounts(starter, plan.scopes);
  const mounts = await resolveMounts(plan, selectAllowedRoots(starter, deps.mountPolicy), baseDir);
  const reused = reuse?.given ?? NOTHING_GIVEN;
  // Stages that are taken over do not read their variables again, unless their VM may lose their files.
  const ownOf = ownStageOf(plan);
  const settled = reuse === null ? NOTHING_SETTLED : listSettled(plan, reuse);
  const left = plan.stages.filter(({ id }) => !settled.has(ownOf(id)));
  await requireVariables(deps, runId, { hostVariables: plan.hostVariables, stages: left });
  const taken = origin === null ? {} : { origin, given: await claimGiven(deps, origin, reused) };
  const unsaved = reuse === null ? {} : findUnsaved(plan, reuse);
  const wire = toWire(plan);
  const admission = {
    ...placementOf(deps.placement),
    input,
    behaviour,
    recordsBoots: request.recordsBoots === true,
    historyLimit: deps.historyLimit ?? HISTORY_LIMIT,
    ...taken,
  };
  const record = {
    plan: wire,
    ...admission,
    serverId: deps.serverId,
    executionId,
    ...startIn(request, deps.now()),
    ...pickTrigger(starter),
    mounts,
    ...(Object.keys(prepared).length === 0 ? {} : { prepared }),
    ...(Object.keys(uploads).length === 0 ? {} : { uploads }),
    ...continued,
    ...(Object.keys(unsaved).length === 0 ? {} : { unsaved }),
    ...(fetchedSkills.length === 0 ? {} : { fetchedSkills }),
    ...(provenKey === null ? {} : { provenKey }),
  } satisfies AdmissionRecord;
  // The plan's wait for the disk covers both names.
  if (!(await deps.records.create(runId, 'admission', record, { lasts: false }))) return null;
  await deps.records.put(runId, 'plan', wire);
  await deps.events.append(runId, admissionEvents(deps, record));
  return {
    machine: machineOf(wire),
    ...admission,
    ...nameDeployment(record),
    searchAttributes: deps.searchAttributes,
  };
}

/** Any workflow may have sent the request, so a time that cannot be its start is left out. */
function startIn({ startedAtMs }: AdmitRequest, nowMs: number): Pick<AdmissionRecord, 'startedAtMs'> {
  const isStart = startedAtMs !== undefined && Number.isSafeInteger(startedAtMs) && startedAtMs > 0;
  return isStart && startedAtMs <= nowMs ? { startedAtMs } : {};
}

/** A retry or fork of the run has the rights of the deployment, and is no delivery. */
function pickTrigger(starter: Starter): Pick<AdmissionRecord, 'trigger'> {
  if (starter.kind !== 'deployment') return {};
  const { name, version, delivery } = starter;
  return { trigger: { deployment: name, version, delivery, ...pickEventIds(starter) } };
}

const NOTHING_GIVEN: Reuse['given'] = new Map();
const NOTHING_SETTLED: ReadonlySet<string> = new Set();

function refuseTooLarge(plan: Plan): void {
  const bytes = countPlanBytes(plan);
  const limit = PLAN_LIMITS.planBytes;
  if (bytes > limit)
    throw new CodedError('run/too-large', `the plan has ${bytes} bytes; a run can have at most ${limit}: split it`);
  const held = machineBytes(machinePlanOf(plan));
  if (held > PLAN_LIMITS.machineBytes)
    throw new CodedError(
      'run/too-large',
      `the names and edges of the plan's stages have ${held} bytes; a workflow can hold at most ${PLAN_LIMITS.machineBytes}: split it, or use fewer dependencies`,
    );
}

/**
 * Rejects a plan that itself declares mocks: a reader of a plan assumes that its work runs, so only the request may
 * mock a run.
 * @param before the plan of the run that is retried: a client may send it with other limits. Its mocks remain those of
 * the retry.
 */
function refuseSaidMocks(plan: Plan, before: Plan | null): void {
  const mocked = new Set(before === null ? [] : listMockedStages(before));
  const [played] = before !== null && listMockAgentStages(before).length > 0 ? [] : listMockAgentStages(plan);
  if (played !== undefined)
    throw new CodedError(
      'admit/invalid',
      `the plan itself uses the mock agent for stage ${played}: set \`mockAgents: true\` in the request instead`,
    );
  const stage = listMockedStages(plan).find((id) => !mocked.has(id));
  if (stage !== undefined)
    throw new CodedError(
      'admit/invalid',
      `the plan itself mocks stage ${stage}: put the work and a \`mock\` into the stage, and name the stage in \`mock\` of the request`,
    );
}

/** @param isDemanded true if the request itself sets `mockAgents`; then the plan must have an agent */
function applyMockAgents(plan: Plan, isPlayed: boolean, isDemanded: boolean): Plan {
  if (!isPlayed) return plan;
  const made = withMockAgents(plan);
  if ('plan' in made) return made.plan;
  if (!isDemanded) return plan;
  throw new CodedError('admit/invalid', `\`mockAgents\` has no effect: ${made.problem}`);
}

/** Adds the keys of agents whose plan does not name them, so that every stage redacts them in its output. */
function withDeclaredKeys(plan: Plan): Plan {
  const hostVariables = [...new Set([...plan.hostVariables, ...hostVariablesOf(plan.stages)])];
  return { ...plan, hostVariables };
}

function applyMocks(plan: Plan, request: MockRequest | null): Plan {
  const made = withMocks(plan, request);
  if ('plan' in made) return made.plan;
  throw new CodedError('admit/invalid', made.problems.join('\n'));
}

/** Rejects a plan with parts that this build cannot execute to their end, whatever client sent it. */
function refuseUnsupported(plan: Plan): void {
  const parts = findUnsupportedParts(plan);
  if (parts.length > 0) throw new CodedError('admit/unsupported-work', describeUnsupported(parts));
}

function admissionEvents(deps: ActivityDeps, admission: AdmissionRecord): readonly NewRunEvent[] {
  const atMs = deps.now();
  return [
    createAdmissionEvent(admission, atMs),
    ...createFetchEvents(admission.fetchedSkills ?? [], atMs),
    ...createGivenEvents(admission, atMs),
    ...createUnsavedEvents(admission, atMs),
  ];
}

/** Admission checks the time, because the compiler of a spec has no clock. */
function refuseLongWaits({ stages }: Plan, nowMs: number): void {
  for (const { id, work } of stages) {
    const untilMs = waitOf(work)?.untilMs ?? null;
    if (untilMs !== null && untilMs - nowMs > PLAN_LIMITS.waitMs)
      throw new CodedError(
        'admit/invalid',
        `stage ${id} waits until ${new Date(untilMs).toISOString()}, more than ${PLAN_LIMITS.waitMs / 86_400_000} days from now: use an earlier time`,
      );
  }
}

export function createAdmissionEvent(
  { plan: wire, hostId, origin, trigger, startedAtMs }: AdmissionRecord,
  atMs: number,
): NewRunEvent {
  const plan = fromWire(wire);
  const mocked = listMockedStages(plan);
  const agents = selectAgentStages(plan);
  const mockAgents = listMockAgentStages(plan);
  return {
    id: EVENT_ID.runAdmitted,
    atMs,
    body: {
      type: 'run-admitted',
      name: plan.name,
      kind: plan.kind,
      hostId,
      stages: ownStages(plan).map(({ id, after }) => ({ id, dependsOn: after.map(({ stage }) => stage) })),
      outputStage: plan.output.kind === 'stage' ? plan.output.stage : null,
      ...(startedAtMs === undefined ? {} : { startedAtMs }),
      ...(origin === undefined ? {} : { origin }),
      ...(trigger === undefined ? {} : { trigger }),
      ...(mocked.length === 0 ? {} : { mocked }),
      ...(agents.length === 0 ? {} : { agents }),
      ...(mockAgents.length === 0 ? {} : { mockAgents }),
      ...(plan.budget === undefined ? {} : { budget: plan.budget }),
    },
  };
}

/** Writes a terminal event for a refused run too, because readers wait for one. */
async function recordRefusal(deps: ActivityDeps, runId: string, executionId: string, error: unknown): Promise<void> {
  if (!isCodedError(error) || retryOf(error.code) !== 'never') return;
  // Another call has admitted the run, so this call must not end it.
  if ((await deps.records.get(runId, 'admission').catch(() => null)) !== null) return;
  const outcome = {
    state: 'failed',
    failedStage: null,
    failure: { code: error.code, message: error.message, stderrTail: '' },
    output: null,
  } as const;
  try {
    await deps.records.put(runId, 'refusal', {
      executionId,
      code: error.code,
      message: error.message,
    } satisfies RefusalRecord);
    await deps.hostVariables.drop(runId);
    await deps.checkpoints?.dropRun(runId);
    await deps.events.append(runId, [
      { id: EVENT_ID.runFinished, atMs: deps.now(), body: { type: 'run-finished', outcome } },
    ]);
  } catch (failure) {
    // Readers of a damaged run see the damage instead.
    if (!isCodedError(failure) || failure.code !== 'store/damaged') throw failure;
  }
}
