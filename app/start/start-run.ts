/** Starts a run: prepares this machine and the embedded stack, and writes the request and its permissions. */
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { InlineOrRef, RunRequest } from '../../activities/contract.ts';
import type { ArtifactStore } from '../../activities/ports/artifacts.ts';
import { isKnownEntry, rememberSkillPaths, skillPaths } from '../../client/embedded/skill-paths.ts';
import type { ClientMark, SourceRecord } from '../../client/runs/client-record.ts';
import { RunExistsError, UnknownStartError } from '../../client/runs/runs.ts';
import type { ServerLink } from '../../client/temporal/server-link.ts';
import { openStateFolder } from '../../client/vms/state-folder.ts';
import { readHostId } from '../../client/vms/this-host.ts';
import type { UploadHashes } from '../../domain/plan/name-uploads.ts';
import { type DataRef, type Plan, PLAN_LIMITS } from '../../domain/plan/plan.ts';
import { toWire } from '../../domain/plan/wire.ts';
import { approvalOf, skillOf } from '../../domain/plan/work.ts';
import { listMockedStages, type MockRequest } from '../../domain/plan-rules/mocks.ts';
import { listMockAgentStages } from '../../domain/plan-rules/mock-agents.ts';
import type { Reuse } from '../../domain/pipeline/reuse.ts';
import { quoteArgument } from '../../domain/security/typed-argument.ts';
import { readStartingTokens } from '../../domain/run/client-mark.ts';
import { describeOrigin, type RunOrigin } from '../../domain/run/origin.ts';
import type { KnownImage } from '../../setup/images/images.ts';
import { prepareAutoVmm } from '../../setup/auto-vmm.ts';
import { resolveHostPieces, resolveOptionalPieces } from '../../setup/resolve.ts';
import { entryNamed } from '../../skill-kit/bundle/find-entry.ts';
import type { Stores } from '../../store/stores.ts';
import { AppError, createEnvironmentError, createUsageError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { readClientMark } from '../runs/client-mark.ts';
import { openRunsLink } from '../server-link.ts';
import { refuseLostUploads } from '../uploads/lost-uploads.ts';
import { loginsTaken } from './agent-logins.ts';
import type { ContinuedPlan } from './continue-run.ts';
import type { MountPlace } from './load-spec.ts';
import { settleAddresses } from './plan-addresses.ts';
import { extrasOf } from './plan-extras.ts';
import { makeDisks } from './plan-images.ts';
import { settleMounts } from './plan-mounts.ts';
import { claimRunInput, storeRunInput, toStream } from './run-input.ts';
import { INPUT_RECORD, startClaimed, type UndoStep } from './start-claimed.ts';
import {
  type ConfinedStarter,
  createConfinedMark,
  readConfinedStarter,
  settleForStarter,
  createSecretsError,
} from './token-rules.ts';

/** How long `waitUntilAdmitted` waits; a worker needs a second or two to start. */
export const ADMISSION_MS = 10_000;
const ADMISSION_POLL_MS = 20;
/** The limit for an id in a summary. Temporal accepts 400 bytes for a summary. */
const MOST_ID_CHARACTERS = 40;

export interface StartRequest {
  /** The plan that runs. */
  readonly plan: Plan;
  /** The plan of the author; admission makes `plan` of it. */
  readonly written: Plan;
  /** The stages that return their `mock`; null: no stage, or the stages of the earlier run. */
  readonly mock: MockRequest | null;
  /** Whether the mock agent plays the agents; null: as in the earlier run. */
  readonly mockAgents: boolean | null;
  /** The source from which it was compiled; null: not known. */
  readonly source: SourceRecord | null;
  /** The earlier run that it comes from; null: no earlier run. */
  readonly from: StartFrom | null;
  readonly runId: string;
  /** Values of the variables that the plan names. */
  readonly hostVariables: Readonly<Record<string, string>>;
  /** The spec's folder: the worker of this machine lets the run mount from it. */
  readonly baseDir: string;
  /** The places in the spec that name folders and files of this machine, by full path. */
  readonly places: ReadonlyMap<string, MountPlace>;
  /** Their disks are made if the cache does not have them. */
  readonly images: readonly KnownImage[];
  /** Folders that this run may mount and work in, absolute. */
  readonly allowMounts: readonly string[];
  /** Repositories of the network that it may fetch, as HOST/PATH. */
  readonly allowGit: readonly string[];
  /** The bytes of the first stages' input; null: they get no input. */
  readonly input: Uint8Array | null;
  /** The artifact that is the input instead of `input`; absent or null: none is. */
  readonly inputRef?: DataRef | null;
  /** The uploads that its plan names by their folders. Absent: none. */
  readonly uploads?: UploadHashes;
  /** The token or the deployment that starts it; absent: the owner of the state folder. */
  readonly starter?: ConfinedStarter | null;
  /** The person may be asked for permissions that the request lacks. */
  readonly mayAsk: boolean;
  /**
   * Called when nothing refuses the start, before the server of the runs gets it. If the run does not start then, what
   * it returns is called. Absent: nothing is called.
   */
  readonly beforeStart?: BeforeStart;
}

export type BeforeStart = () => Promise<UndoStep | void>;

export interface StartFrom {
  readonly origin: RunOrigin;
  /** As the command line computes it; admission decides. */
  readonly reuse: Reuse;
  /** The agents that continue; null: none does. */
  readonly continued: ContinuedPlan | null;
  /** The plan and the input equal the origin's, so the request names neither. */
  readonly isSamePlan: boolean;
}

/**
 * Starts a run, and first everything that the machine and the stack lack for it.
 * @returns the connection over which the run can be followed
 * @throws AppError if a run has the id, or if this machine refuses something in the plan; nothing is left of the run
 * then. With the code `cli/start-unknown` its files stay, because the run may have started.
 */
export async function startRun(
  {
    plan,
    written,
    mock,
    mockAgents,
    source,
    from,
    runId,
    hostVariables,
    baseDir,
    places,
    images,
    allowMounts,
    allowGit,
    input,
    inputRef = null,
    uploads = {},
    starter = null,
    mayAsk,
    beforeStart,
  }: StartRequest,
  context: Machine,
  onProgress: (line: string) => void,
): Promise<ServerLink> {
  const { env } = context;
  openStateFolder(env.stateDir);
  const stores = await context.stores();
  try {
    // Mistakes in the command are reported before anything is fetched or started.
    if (await stores.index.has(runId)) throw new RunExistsError(runId);
    if (from?.isSamePlan !== true) refuseLongPlan(written, env.temporalConfigured);
    await stores.inspector.refuseSetAside(runId);
    // Another spec, as a fork has, gets no permission of the earlier one.
    const origin = from === null ? null : await readClientMark(from.origin.runId, stores);
    const earlier = from?.origin.kind === 'retry' ? origin : null;
    const confined = chooseStarter(starter, earlier);
    if (from !== null) refuseLostUploads(plan, env.stateDir, from.origin.runId);
    const startedBy = listFurtherStarters(confined, starter, origin);
    const allow = [...new Set([...allowMounts, ...(earlier?.allow ?? [])])];
    // On your own Temporal server the worker's host has the pieces and the mounts, not the host that starts the run.
    let mark: ClientMark = confined === null ? { baseDir } : createConfinedMark(confined);
    if (confined !== null) await settleForStarter(plan, confined);
    // The values of this process are its user's.
    const isRepeated = confined !== null && confined !== starter && 'deployment' in confined;
    if (isRepeated && context.readDeploymentSecrets === undefined)
      throw createSecretsError(from?.origin.runId ?? runId);
    if (!env.temporalConfigured) {
      if (confined === null) {
        await settleMounts({ plan, baseDir, allow, cwd: context.cwd, places }, env);
        const addresses = { plan, baseDir, allow: [...allowGit, ...(earlier?.allowGit ?? [])], mayAsk };
        mark = { baseDir, allow, allowGit: await settleAddresses(addresses, context) };
      }
      // Mocked stages need nothing of this machine.
      if (plan.scopes.some((scope) => scope.sandbox.mode !== 'mock'))
        await resolveHostPieces(env, { install: true, onProgress });
      await resolveOptionalPieces(env, extrasOf(plan), { install: true, onProgress });
      if (plan.scopes.some(({ sandbox }) => sandbox.mode === 'auto')) await prepareAutoVmm(env, onProgress);
      loadSkills(plan, context);
    }
    await makeDisks(images, env, onProgress);
    for (const { owner, file } of confined === null ? loginsTaken(hostVariables, env) : [])
      onProgress(`agents use the login of ${owner} on this machine (${file}), without its refresh token`);
    const link = await openRunsLink(context, { start: true, onProgress });
    if (link === null)
      throw createEnvironmentError('cli/no-server', 'the server of the embedded stack does not answer');
    // A fork compiles the text again, and starts relative paths there.
    const isNamed = typeof source?.path === 'string' && dirname(source.path) !== baseDir;
    const hasUploads = Object.keys(uploads).length > 0;
    const isMarked = confined !== null || isNamed || hasUploads || startedBy.length > 0 || needsMark(plan);
    // If no worker has ever used this state folder, no worker would read the variables or delete them.
    const hasWorker = !env.temporalConfigured || readHostId(env.stateDir) !== null;
    const start = {
      runId,
      makeRequest: () => requestOf({ written, mock, mockAgents, from, runId, input, inputRef }, stores, context),
      summary: summaryOf(plan, from),
      // With a configured server the run may live on another host, and this record would never be removed.
      source: env.temporalConfigured ? null : source,
      mark: isMarked
        ? { ...mark, ...(startedBy.length === 0 ? {} : { startedBy }), ...(hasUploads ? { uploads } : {}) }
        : null,
      variables: hasWorker ? hostVariables : {},
      beforeStart,
      isHere: hasWorker || isMarked || beforeStart !== undefined,
    };
    await startClaimed(start, link.client(), stores);
    return link;
  } catch (error) {
    if (error instanceof RunExistsError) throw createExistsError(error);
    if (error instanceof UnknownStartError) throw createUnknownError(error);
    throw error;
  }
}

/** Creates the error of a start whose id is taken. */
export function createExistsError(cause: RunExistsError): AppError {
  return new AppError('usage', 'cli/usage', cause.message, null, cause);
}

function createUnknownError(cause: UnknownStartError): AppError {
  const { runId, message } = cause;
  const remedy = `Look for it: voidbox status ${quoteArgument(runId)}. If no run has the id, start it again.`;
  return new AppError('environment', 'cli/start-unknown', message, remedy, cause);
}

/** Whether the server may have started the run whose start failed: files that it needs stay. */
export function mayHaveStarted(error: unknown): boolean {
  return error instanceof AppError && error.code === 'cli/start-unknown';
}

/** Returns the id that is taken; null for another error. */
export function findTakenId(error: unknown): string | null {
  return error instanceof AppError && error.cause instanceof RunExistsError ? error.cause.runId : null;
}

/**
 * A retry of a run of a token or of a deployment keeps its limits, also if the owner retries it: the spec, or its values,
 * are not the owner's.
 */
function chooseStarter(starter: ConfinedStarter | null, earlier: Partial<ClientMark> | null): ConfinedStarter | null {
  const from = readConfinedStarter(earlier ?? {});
  if (from === null) return starter;
  // A token repeats another one's run under its own name, with the files of that run.
  return starter === null || 'deployment' in from ? from : { ...starter, folder: from.folder };
}

/** Lists the tokens that started the run or the run that it continues, besides the token of the mark. */
function listFurtherStarters(
  confined: ConfinedStarter | null,
  starter: ConfinedStarter | null,
  earlier: Partial<ClientMark> | null,
): readonly string[] {
  const own = starter !== null && 'name' in starter ? [starter.name] : [];
  const names = new Set([...(readStartingTokens(earlier) ?? []), ...own]);
  if (confined !== null && 'name' in confined) names.delete(confined.name);
  return [...names];
}

/**
 * Checks for folders of this host, for addresses that are fetched as this user, and for questions that the starter may
 * not answer. The worker uses the first two only for runs of its own user.
 */
function needsMark({ scopes, stages }: Plan): boolean {
  return (
    scopes.some((scope) => scope.sandbox.mounts.length > 0) ||
    stages.some(
      ({ workspace, work }) =>
        (workspace !== undefined && workspace.from.kind !== 'stage') || approvalOf(work)?.selfApproval === false,
    )
  );
}

/** The embedded worker runs only code of skills that its user has named, for example in a spec that is run. */
function skillEntriesOf({ stages }: Plan): readonly string[] {
  const paths = stages.flatMap(({ work }) => skillOf(work)?.source.path ?? []);
  return [...new Set(paths.map(entryNamed))];
}

/**
 * Adds the step machines of the plan to those that the embedded worker loads. With further ones the stack restarts.
 * @throws AppError in a process of the stack, which would end with the restart
 */
function loadSkills(plan: Plan, { env, stackLink }: Machine): void {
  const entries = skillEntriesOf(plan);
  if (stackLink === undefined) return rememberSkillPaths(env.stateDir, entries, 'add');
  const missing = entries.filter((entry) => !isKnownEntry(env.stateDir, entry));
  if (missing.length === 0) return;
  const folders = [...skillPaths(env.stateDir), ...missing].map(quoteArgument).join(' ');
  throw createEnvironmentError(
    'api/skill-not-loaded',
    `the embedded stack has not loaded ${missing.length === 1 ? 'the step machine' : 'the step machines'} ${missing.join(', ')}`,
    `Load it: voidbox up --skills ${folders}`,
  );
}

function summaryOf(plan: Plan, from: StartFrom | null): string {
  const { name, stages } = plan;
  const mocked = listMockedStages(plan).length;
  const agents = listMockAgentStages(plan).length;
  const note = `${mocked === 0 ? '' : `, ${mocked} mocked`}${agents === 0 ? '' : ', mock agents'}`;
  const summary = `voidbox: ${name} (${stages.length} ${stages.length === 1 ? 'stage' : 'stages'}${note})`;
  if (from === null) return summary;
  const runId = [...from.origin.runId].slice(0, MOST_ID_CHARACTERS).join('');
  return `${summary}, ${describeOrigin({ ...from.origin, runId })}`;
}

/**
 * Builds the argument of the workflow. The records of the run name a large input or plan from here on. Without this,
 * `prune --artifacts-now` could delete it before admission names it.
 */
export async function requestOf(
  {
    written,
    mock,
    mockAgents,
    from,
    runId,
    input,
    inputRef = null,
  }: Pick<StartRequest, 'written' | 'mock' | 'mockAgents' | 'from' | 'runId' | 'input' | 'inputRef'>,
  { artifacts, records }: Stores,
  context: Machine,
): Promise<RunRequest> {
  const { env } = context;
  const planPart = from?.isSamePlan === true ? {} : await planPartOf(written, artifacts);
  const read = inputRef === null ? await storeInput(input, artifacts) : await claimRunInput(inputRef, artifacts);
  const refs = [
    ...(planPart.planRef === undefined ? [] : [planPart.planRef]),
    ...(read?.kind === 'ref' ? [read.ref] : []),
  ];
  // With a configured server the run may live on another host, and this record would never be removed.
  if (refs.length > 0 && !env.temporalConfigured) await records.put(runId, INPUT_RECORD, refs);
  return {
    ...planPart,
    ...(planPart.plan === undefined ? { name: written.name } : {}),
    ...(read === null ? {} : { input: read }),
    ...(from === null ? {} : { origin: from.origin }),
    ...(mock === null ? {} : { mock }),
    ...(mockAgents === true ? { mockAgents } : {}),
  };
}

async function storeInput(input: Uint8Array | null, artifacts: ArtifactStore): Promise<InlineOrRef | null> {
  return input === null ? null : await storeRunInput(input, artifacts);
}

/** Stores a plan that is too large for the history where the worker of this machine finds it. */
async function planPartOf(plan: Plan, artifacts: ArtifactStore): Promise<Pick<RunRequest, 'plan' | 'planRef'>> {
  const wire = toWire(plan);
  const json = Buffer.from(JSON.stringify(wire));
  if (json.byteLength <= PLAN_LIMITS.inlinePlanBytes) return { plan: wire };
  return { planRef: await artifacts.put(toStream(json), 'application/json') };
}

/** @throws AppError for a plan that cannot be sent to another machine */
function refuseLongPlan(plan: Plan, isElsewhere: boolean): void {
  const bytes = isElsewhere ? Buffer.byteLength(JSON.stringify(toWire(plan))) : 0;
  if (bytes > PLAN_LIMITS.inlinePlanBytes)
    throw createUsageError(
      `the plan has ${bytes} bytes; a plan sent to another machine may have at most ${PLAN_LIMITS.inlinePlanBytes}: keep long texts in mounted files`,
    );
}

/** Waits for the first event of a run, which the worker stores at admission: until then, other commands do not know the run. */
export async function waitUntilAdmitted(runId: string, link: ServerLink, context: Machine): Promise<void> {
  // With your own server, a command may be on another host than the worker. A service is on the same one.
  const isOwnService = context.stackLink !== undefined && context.env.temporalConfigured;
  if (!link.isEmbedded && !isOwnService) return;
  const { index } = await context.stores();
  const untilMs = Date.now() + ADMISSION_MS;
  while (!(await index.has(runId)) && Date.now() < untilMs) await sleep(ADMISSION_POLL_MS);
}
