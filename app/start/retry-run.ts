/** Retries a run for a caller of the API, or shows what a retry would use and run again. */
import { createRunId } from '../../client/runs/new-id.ts';
import type { Diagnostic } from '../../domain/errors/diagnostic.ts';
import { listSettled } from '../../domain/pipeline/reuse.ts';
import type { ContinueRequest } from '../../domain/run/origin.ts';
import type { UploadStore } from '../../store/uploads.ts';
import { type Caller, requireRun } from '../access/authenticate.ts';
import type { AdmissionRecord } from '../../activities/admission/admission-record.ts';
import { type PlanWire, toWire } from '../../domain/plan/wire.ts';
import { type ContinuedJson, toContinuedJson } from '../json/continued-json.ts';
import { type OriginJson, toOriginJson } from '../json/origin-json.ts';
import type { Machine } from '../machine.ts';
import { readClientMark } from '../runs/client-mark.ts';
import type { CompileNotice } from './compile-run.ts';
import { selectHostVariables } from './host-variables.ts';
import { createSecretsError, readConfinedStarter } from './token-rules.ts';
import { type PreparedRerun, prepareRerun } from './prepare-rerun.ts';
import type { LimitOptions } from './run-limits.ts';
import type { PutFacts } from './start-keyed.ts';
import { mayHaveStarted, startRun, waitUntilAdmitted } from './start-run.ts';
import { refuseRunId, SpecRefusal, startOnce } from './start-spec.ts';

export interface RetryRequest {
  /** The whole id of the earlier run, which the store has. */
  readonly earlier: string;
  /** The stage from which everything runs again; null: the first stage that has no result to use. */
  readonly from: string | null;
  /** Values of parameters; null: the values of the earlier run. */
  readonly params: Readonly<Record<string, string>> | null;
  /** The input of the first stages; null: the input of the earlier run. */
  readonly input: string | null;
  /** Null: a generated id. */
  readonly runId: string | null;
  /** The only variables that the run may read. */
  readonly variables: Readonly<Record<string, string>>;
  /** Agents continue their saved sessions; null: none does. */
  readonly continue: ContinueRequest | null;
  readonly limits: LimitOptions;
}

export interface StartedRetry extends OriginJson {
  readonly runId: string;
  readonly diagnostics: readonly Diagnostic[];
}

interface RetryTools {
  readonly uploads: UploadStore;
  readonly onProgress: (line: string) => void;
  /** Whether the call waits for the admission of the run. */
  readonly isAwaited: boolean;
  /** Called when nothing refuses the start. Absent: nothing is called. */
  readonly putFacts?: PutFacts<OriginJson>;
}

/** A retry as it would start. */
export interface ShownRetry extends OriginJson, Partial<ContinuedJson> {
  /** Another token started the earlier run, so the caller has not written its spec. */
  readonly isOfOtherToken: boolean;
}

/** Starts nothing. @throws what a retry would throw before its start */
export async function showRetry(request: RetryRequest, caller: Caller, machine: Machine): Promise<ShownRetry> {
  return await describePrepared(
    (await prepare(request, restrictToCaller(machine, caller, null))).prepared,
    caller,
    machine,
  );
}

/** Like `showRetry`, with the plan that runs, without new limits of agents that continue. */
export async function showRetryPlan(
  request: RetryRequest,
  caller: Caller,
  machine: Machine,
): Promise<ShownRetry & { readonly plan: PlanWire }> {
  const { prepared } = await prepare(request, restrictToCaller(machine, caller, null));
  return { ...(await describePrepared(prepared, caller, machine)), plan: toWire(prepared.compiled.plan) };
}

async function describePrepared(prepared: PreparedRerun, caller: Caller, machine: Machine): Promise<ShownRetry> {
  return {
    ...toOriginJson(prepared),
    ...toContinuedJson(prepared.continued),
    isOfOtherToken: await isOfOtherToken(prepared.origin.runId, caller, machine),
  };
}

/** The most retries of retries that are looked at. */
const MOST_EARLIER = 100;

/** A retry repeats the spec of its origin, so the starter of each run before it counts. */
async function isOfOtherToken(runId: string, caller: Caller, machine: Machine): Promise<boolean> {
  const stores = await machine.stores();
  const own = caller.kind === 'token' ? caller.token.name : null;
  let at = runId;
  for (let looked = 0; looked < MOST_EARLIER; looked += 1) {
    const admission = (await stores.records.get(at, 'admission')) as AdmissionRecord | null | undefined;
    // The run was pruned, and nothing shows who started it.
    if (admission === null || admission === undefined) return true;
    const { starter } = (await readClientMark(at, stores)) ?? {};
    if (starter !== undefined && (starter.kind !== 'token' || starter.name !== own)) return true;
    if (admission.origin?.kind !== 'retry') return false;
    at = admission.origin.runId;
  }
  return true;
}

/**
 * A token that retries a run of the owner gets its results, and no folder, repository or login of the owner.
 * @throws SpecRefusal, AppError
 */
export async function retryRun(
  request: RetryRequest,
  caller: Caller,
  tools: RetryTools,
  machine: Machine,
): Promise<StartedRetry> {
  const { runId: wanted } = request;
  refuseRunId(wanted);
  if (wanted !== null) requireRun(caller, wanted);
  const { prepared, diagnostics } = await prepare(request, restrictToCaller(machine, caller, null));
  const start = (id: string): Promise<Awaited<ReturnType<typeof startRun>>> =>
    startPrepared({ request, prepared, caller, runId: id }, tools, machine);
  const makeId = (): string => createRunId(prepared.plan.name, machine.now());
  const { runId, link } =
    wanted === null ? await startOnce(makeId, start) : { runId: wanted, link: await start(wanted) };
  if (tools.isAwaited) await waitUntilAdmitted(runId, link, machine);
  return { ...toOriginJson(prepared), runId, diagnostics };
}

interface PreparedStart {
  readonly request: RetryRequest;
  readonly prepared: PreparedRerun;
  readonly caller: Caller;
  readonly runId: string;
}

async function startPrepared(
  { request, prepared, caller, runId }: PreparedStart,
  { uploads, onProgress, putFacts }: Omit<RetryTools, 'isAwaited'>,
  machine: Machine,
): ReturnType<typeof startRun> {
  requireRun(caller, runId);
  const { compiled, plan, origin, reuse, continued, isSamePlan, confinedTo } = prepared;
  // A retry of a token's run uses the uploads of that run. Otherwise the folder stays empty.
  const folder = caller.kind === 'token' ? await uploads.makeFolder(runId) : null;
  const starter =
    caller.kind === 'token' && folder !== null
      ? { name: caller.token.name, allowGit: caller.token.allowGit, folder }
      : null;
  const context = restrictToCaller({ ...machine, confinedTo }, caller, folder);
  try {
    const variables = await chooseVariables(prepared, request, machine);
    return await startRun(
      {
        ...compiled,
        plan,
        from: { origin, reuse, continued, isSamePlan },
        runId,
        hostVariables: selectHostVariables(plan, listSettled(plan, reuse), context, variables),
        allowMounts: [],
        allowGit: [],
        input: request.input === null ? null : Buffer.from(request.input),
        starter,
        beforeStart: async () => await putFacts?.(toOriginJson(prepared)),
        mayAsk: false,
      },
      context,
      onProgress,
    );
  } catch (error) {
    if (folder !== null && !mayHaveStarted(error)) await uploads.dropFolder(folder);
    throw error;
  }
}

/**
 * A retry of a deployment's run gets the secrets of the deployment, and no variable of the request: its code may come
 * from a stranger.
 * @throws AppError `deploy/secrets-elsewhere`
 */
async function chooseVariables(
  { plan, origin }: PreparedRerun,
  { variables }: RetryRequest,
  machine: Machine,
): Promise<Readonly<Record<string, string>>> {
  const starter = readConfinedStarter((await readClientMark(origin.runId, await machine.stores())) ?? {});
  if (starter === null || !('deployment' in starter)) return variables;
  const { readDeploymentSecrets } = machine;
  if (readDeploymentSecrets === undefined) throw createSecretsError(origin.runId);
  return await readDeploymentSecrets(starter.deployment.name, plan.hostVariables);
}

/** A spec that a token compiles again reads nothing of this machine, also if the owner wrote it. */
const NOWHERE = '/dev/null/uploads';

function restrictToCaller(machine: Machine, caller: Caller, folder: string | null): Machine {
  return caller.kind === 'owner' ? machine : { ...machine, confinedTo: machine.confinedTo ?? folder ?? NOWHERE };
}

async function prepare(
  { earlier, from, params, input, variables, continue: agents, limits }: RetryRequest,
  machine: Machine,
): Promise<{ readonly prepared: PreparedRerun; readonly diagnostics: readonly Diagnostic[] }> {
  let diagnostics: readonly Diagnostic[] = [];
  const onNotice = (notice: CompileNotice): Promise<void> => {
    if (notice.kind !== 'diagnostics') return Promise.resolve();
    diagnostics = notice.diagnostics;
    return notice.isRefused ? Promise.reject(new SpecRefusal(diagnostics)) : Promise.resolve();
  };
  const prepared = await prepareRerun(
    {
      earlier,
      file: null,
      from,
      params,
      limits,
      continue: agents,
      hasInput: input !== null,
      images: { given: {}, allow: [] },
      onNotice,
    },
    { ...machine, env: { ...machine.env, variables } },
  );
  return { prepared, diagnostics };
}
