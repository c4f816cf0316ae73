/**
 * Decides who may call, and when: the workflow of a run that was admitted and has not ended, and the workflows of its
 * items.
 */
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { NewRunEvent, RunOutcome } from '../../domain/run/event.ts';
import { isSharedScope } from '../../domain/plan/scope.ts';
import {
  type AdmittedRun,
  assertCalledByRun,
  createAdmittedRuns,
  createCallers,
  endOf,
} from '../admission/admitted-run.ts';
import type { ApprovalRequest, AskRequest, RejectionRequest } from '../decisions/approvals.ts';
import { checkEvents } from './events.ts';
import { isOfItem } from './names.ts';
import {
  readApprovalRequest,
  readAskRequest,
  beginItemsRequest,
  withItemInput,
  endItemsRequest,
  evaluateRequest,
  findTimeRequest,
  finishRequest,
  withItem,
  readMockedRequest,
  readPartRequest,
  readRejectionRequest,
  readScopeRequest,
  readStageRequest,
} from './read-requests.ts';
import { type Fields, fieldsOf, createRefusal } from './values.ts';
import type { EvaluateRequest } from '../decisions/conditions.ts';
import type { FinishRequest } from '../contract.ts';
import type { ActivityDeps } from '../deps.ts';
import type { EndPartRequest } from '../items/end-part.ts';
import type { FindTimeRequest } from '../decisions/find-time.ts';
import { type BeginItemsRequest, createItemLists, type EndItemsRequest } from '../items/items.ts';
import type { MockedRequest } from '../attempt/mocked-stage.ts';
import type { ScopeRequest, StageRequest } from './requests.ts';
import { readResult } from '../attempt/record.ts';
import { quote } from '../../domain/units/quote.ts';

/** The work that a call of a stage requests: returning its mock, ending a part, or working in a VM. */
export type StageWork =
  | { readonly mocked: MockedRequest }
  | { readonly part: EndPartRequest }
  | { readonly inVm: StageRequest };

/**
 * Each method converts the arguments of an activity into a checked request.
 * @throws CodedError `call/refused`, `run/ended`
 */
export interface RunCalls {
  stage(call: unknown): Promise<StageWork>;
  evaluate(call: unknown): Promise<EvaluateRequest>;
  findTime(call: unknown): Promise<FindTimeRequest>;
  ask(call: unknown): Promise<AskRequest>;
  approval(call: unknown): Promise<ApprovalRequest>;
  rejection(call: unknown): Promise<RejectionRequest>;
  beginItems(call: unknown): Promise<BeginItemsRequest>;
  endItems(call: unknown): Promise<EndItemsRequest>;
  acquire(call: unknown): Promise<ScopeRequest>;
  release(call: unknown): Promise<ScopeRequest>;
  append(call: unknown): Promise<{ readonly runId: string; readonly events: readonly NewRunEvent[] }>;
  /**
   * Returns also `mayShowText`: true if the run's output cannot contain a value of a host variable. `ended` is the
   * stored outcome, after which all writes of the run are refused.
   */
  finish(call: unknown): Promise<FinishRequest & { readonly ended: RunOutcome | null; readonly mayShowText: boolean }>;
  /** Returns a run that was admitted here, for checks that do not depend on the caller. */
  getRun(runId: string): Promise<AdmittedRun>;
  /** Drops the caches of a run that has ended. */
  forget(runId: string): void;
}

type CallDeps = Pick<ActivityDeps, 'artifacts' | 'events' | 'records' | 'parentOf' | 'placement'>;
type ItemLists = ReturnType<typeof createItemLists>;

export function createRunCalls(deps: CallDeps): RunCalls {
  const runs = createAccess(deps);
  const lists = createItemLists(deps);
  return {
    forget(runId) {
      runs.forget(runId);
      lists.forget(runId);
    },
    getRun: runs.getRun,
    stage: createStageCall(runs, lists, deps.placement.hostId),
    ...decisionCalls(runs, lists),
    ...approvalCalls(runs, lists),
    ...itemCalls(runs, lists),
    ...vmCalls(runs, lists),
    ...logCalls(runs),
  };
}

/** Finds the run of a call. @throws CodedError `call/refused` for a caller without permission, `run/ended` */
interface RunAccess {
  /** Allows only the run's own workflow. */
  ofRun(call: Fields): Promise<AdmittedRun>;
  /** Allows the run's own workflow and the workflows of its items. */
  ofRunOrItems(call: Fields): Promise<AdmittedRun>;
  /** Allows the run's own workflow; for a call of an item also the workflows of its items. */
  ofNamed(call: Fields): Promise<AdmittedRun>;
  /** Does the same as `ofNamed`, and refuses runs that have ended. */
  open(call: Fields): Promise<AdmittedRun>;
  /** Returns the outcome of the run; null while it has not ended. */
  endOf(run: AdmittedRun): Promise<RunOutcome | null>;
  /**
   * Returns true if the run has ended and has this result.
   * @throws CodedError `run/ended` if the run has ended without this result
   */
  isResultFinal(run: AdmittedRun, execKey: string): Promise<boolean>;
  getRun(runId: string): Promise<AdmittedRun>;
  forget(runId: string): void;
}

function createAccess({ events, records, parentOf }: CallDeps): RunAccess {
  const runs = createAdmittedRuns(records);
  const callers = createCallers(parentOf);
  const requireRun = async (runId: string): Promise<AdmittedRun> => {
    const run = await runs.get(runId);
    // No workflow has the id of this run, so any workflow could use it.
    if (run.command !== null)
      throw createRefusal(run, 'it is of a command, which an activity of another workflow drives');
    return run;
  };
  const access: RunAccess = {
    async ofRun(call) {
      assertCalledByRun(call['runId']);
      return requireRun(call['runId'] as string);
    },
    async ofRunOrItems(call) {
      await callers.check(call['runId']);
      return requireRun(call['runId'] as string);
    },
    ofNamed: (call) => (isOfItem(call) ? access.ofRunOrItems(call) : access.ofRun(call)),
    async open(call) {
      return refuseEnded(access, await access.ofNamed(call));
    },
    endOf: ({ runId }) => endOf(events, runId),
    async isResultFinal(run, execKey) {
      const end = await access.endOf(run);
      if (end === null) return false;
      if ((await readResult(events, run.runId, execKey)) === null) throw createEndedError(run, end);
      return true;
    },
    getRun: (runId) => runs.get(runId),
    forget: runs.forget,
  };
  return access;
}

async function refuseEnded(runs: RunAccess, run: AdmittedRun): Promise<AdmittedRun> {
  const end = await runs.endOf(run);
  if (end !== null) throw createEndedError(run, end);
  return run;
}

/** After a reset of an ended run, the call returns the recorded result. Nothing runs again, and no event is written. */
async function withoutRewriting<T extends StageRequest | MockedRequest | EndPartRequest>(
  runs: RunAccess,
  run: AdmittedRun,
  request: T,
): Promise<T> {
  return (await runs.isResultFinal(run, request.execKey)) ? { ...request, events: [] } : request;
}

function createStageCall(runs: RunAccess, lists: ItemLists, hostId: string): RunCalls['stage'] {
  return async (value) => {
    const call = fieldsOf(value, 'a call of a stage');
    const run = await runs.ofRunOrItems(call);
    const mocked = readMockedRequest(run, call);
    if (mocked !== null) {
      await lists.itemOf(run.runId, mocked.instance);
      return { mocked: await withoutRewriting(runs, run, mocked) };
    }
    const part = readPartRequest(run, call);
    if (part !== null) {
      if (part.instance.length === 0) assertCalledByRun(run.runId);
      await lists.itemOf(run.runId, part.instance);
      return { part: await withoutRewriting(runs, run, part) };
    }
    const checked = readStageRequest(run, call);
    const request = withItem(checked, await lists.itemOf(run.runId, checked.instance));
    refuseElsewhere(run, request, hostId);
    return { inVm: await withoutRewriting(runs, run, request) };
  };
}

function decisionCalls(runs: RunAccess, lists: ItemLists): Pick<RunCalls, 'evaluate' | 'findTime'> {
  return {
    async evaluate(value) {
      const call = fieldsOf(value, 'a call to decide a stage');
      const run = await runs.open(call);
      const request = evaluateRequest(run, call);
      return withItemInput(request, await lists.itemOf(run.runId, request.instance));
    },
    async findTime(value) {
      const call = fieldsOf(value, 'a call to find the time of a wait');
      const run = await runs.open(call);
      const request = findTimeRequest(run, call);
      return { ...request, item: await lists.itemOf(run.runId, request.instance) };
    },
  };
}

function approvalCalls(runs: RunAccess, lists: ItemLists): Pick<RunCalls, 'ask' | 'approval' | 'rejection'> {
  return {
    async ask(value) {
      const call = fieldsOf(value, 'a call to ask');
      const run = await runs.open(call);
      const request = readAskRequest(run, call);
      return { ...request, item: await lists.itemOf(run.runId, request.instance) };
    },
    async approval(value) {
      const call = fieldsOf(value, 'a call to keep an answer');
      return readApprovalRequest(await runs.open(call), call);
    },
    async rejection(value) {
      const call = fieldsOf(value, 'a call to check an answer');
      return readRejectionRequest(await runs.open(call), call);
    },
  };
}

function itemCalls(runs: RunAccess, lists: ItemLists): Pick<RunCalls, 'beginItems' | 'endItems'> {
  return {
    async beginItems(value) {
      const call = fieldsOf(value, 'a call to begin items');
      const run = await runs.open(call);
      const request = beginItemsRequest(run, call);
      await lists.itemOf(run.runId, request.instance);
      return request;
    },
    async endItems(value) {
      const call = fieldsOf(value, 'a call to end items');
      const run = await runs.ofNamed(call);
      const request = endItemsRequest(run, call);
      await runs.isResultFinal(run, request.execKey);
      return request;
    },
  };
}

function vmCalls(runs: RunAccess, lists: ItemLists): Pick<RunCalls, 'acquire' | 'release'> {
  return {
    async acquire(value) {
      const call = fieldsOf(value, 'a call for a VM');
      const run = await runs.open(call);
      const request = readScopeRequest(run, call);
      await lists.itemOf(run.runId, request.instance);
      if (!isSharedScope(request.scope))
        throw createRefusal(run, `the VM of scope ${quote(request.scope.id)} belongs to its only stage`);
      return request;
    },
    // A VM may always be ended, whatever the state of its run.
    async release(value) {
      const call = fieldsOf(value, 'a call to end a VM');
      return readScopeRequest(await runs.ofRunOrItems(call), call);
    },
  };
}

function logCalls(runs: RunAccess): Pick<RunCalls, 'append' | 'finish'> {
  return {
    async append(value) {
      const call = fieldsOf(value, 'a call to append events');
      const run = await refuseEnded(runs, await runs.ofRunOrItems(call));
      return { runId: run.runId, events: checkEvents(run, call['events']) };
    },
    async finish(value) {
      const call = fieldsOf(value, 'a call to finish a run');
      const run = await runs.ofRun(call);
      return { ...finishRequest(run, call), ended: await runs.endOf(run), mayShowText: mayShowText(run) };
    },
  };
}

/**
 * Refuses a stage whose VM is on another host. A VM is found or created only by its key, so this host would create a
 * second VM with the same key.
 * @throws CodedError `host/elsewhere`
 */
function refuseElsewhere(run: AdmittedRun, { lease, execKey }: StageRequest, hostId: string): void {
  const host = lease?.host ?? run.hostId;
  if (host === hostId) return;
  throw new CodedError(
    'host/elsewhere',
    `run ${run.runId}: the VM of ${execKey} is on host ${quote(host)}, but the call reached host ${hostId}`,
  );
}

/** Returns false if the output can contain secrets: Voidbox redacts printed output, but not files. */
function mayShowText({ plan: { hostVariables, output, stages } }: AdmittedRun): boolean {
  if (hostVariables.length === 0) return true;
  const givers = new Set(output.kind === 'stage' ? [output.stage] : output.stages);
  return stages.every(
    ({ id, outputFile, work }) => !givers.has(id) || (outputFile === null && work.kind === 'command'),
  );
}

function createEndedError({ runId }: AdmittedRun, { state }: RunOutcome): CodedError {
  return new CodedError('run/ended', `run ${runId} has already ended (${state}); a reset runs nothing again`);
}
