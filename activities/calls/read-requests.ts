/**
 * Reads the requests in calls. A request contains data of the run's records, and only checked values of the call. A
 * call that the run's workflow cannot have sent is refused. All functions throw CodedError `call/refused`.
 */
import { attemptsOfItem, listsOfStage, listsWithin, mostItems, stageAt } from '../../domain/pipeline/item-plan.ts';
import { isReachable, lastAttempt, lastGeneration } from '../../domain/pipeline/reach.ts';
import type { StagePlan } from '../../domain/plan/plan.ts';
import { createInputPredicate, readToDecide } from '../../domain/plan/condition.ts';
import { isSavedEachStep, isSharedScope } from '../../domain/plan/scope.ts';
import { answeringOf, approvalOf, commandOf, mockOf, partOf, waitOf } from '../../domain/plan/work.ts';
import { ANSWER_LIMITS } from '../../domain/run/approval-answer.ts';
import { seriesOf } from '../../domain/run/agent-saves.ts';
import { isHostId } from '../../domain/run/host.ts';
import type { InstancePath } from '../../domain/run/instance.ts';
import { type VmIdentity, formatVmKey } from '../../domain/run/vm-key.ts';
import type { VmLease } from '../../domain/run/vm-lease.ts';
import { isDateMs } from '../../domain/units/time.ts';
import { type AdmittedRun } from '../admission/admitted-run.ts';
import type { ApprovalRequest, AskRequest, RejectionRequest } from '../decisions/approvals.ts';
import { checkEvents } from './events.ts';
import {
  readAttempt,
  instanceIn,
  isAttempt,
  isOfItem,
  keyOf,
  readOptionalPath,
  readPath,
  readScope,
  scopeOf,
  readStage,
  stageOf,
} from './names.ts';
import {
  checkEnds,
  checkMerge,
  checkOutcome,
  checkUpstream,
  type Fields,
  fieldsOf,
  inputOf,
  createRefusal,
} from './values.ts';
import type { EvaluateRequest } from '../decisions/conditions.ts';
import type { FinishRequest, UpstreamOutputs } from '../contract.ts';
import type { EndPartRequest } from '../items/end-part.ts';
import type { FindTimeRequest } from '../decisions/find-time.ts';
import type { BeginItemsRequest, EndItemsRequest } from '../items/items.ts';
import type { MockedRequest } from '../attempt/mocked-stage.ts';
import type { ScopeRequest, StageItem, StageRequest } from './requests.ts';
import { quote } from '../../domain/units/quote.ts';

/** Returns null for a stage that is not mocked. */
export function readMockedRequest(run: AdmittedRun, call: Fields): MockedRequest | null {
  const stage = readStage(run, call);
  const mock = mockOf(stage.work);
  if (mock === null) return null;
  const { attempt, generation, lease } = call;
  const instance = instanceIn(run, stage, call);
  if (!isAttempt(attempt, lastAttempt(stage)) || generation !== 0 || lease !== null)
    throw createRefusal(run, `stage ${stage.id} is mocked, without a VM, and has no attempt ${quote(attempt)}`);
  return {
    runId: run.runId,
    stage: stage.id,
    instance,
    outputSchema: stage.outputSchema,
    mock,
    attempt,
    execKey: keyOf(stage.id, instance, attempt),
    events: checkEvents(run, call['events']),
  };
}

export function readStageRequest(run: AdmittedRun, call: Fields): StageRequest {
  const stage = readStage(run, call);
  const work = commandOf(stage.work) ?? answeringOf(stage.work);
  if (work === null || stage.scope === null) throw createRefusal(run, `stage ${stage.id} does not run in a VM`);
  const scope = scopeOf(run, stage.scope);
  const { attempt, generation } = call;
  const instance = instanceIn(run, stage, call);
  const isShared = isSharedScope(scope);
  if (
    typeof attempt !== 'number' ||
    typeof generation !== 'number' ||
    !isReachable(stage, isShared, attempt, generation)
  )
    throw createRefusal(
      run,
      `stage ${stage.id} has no attempt ${quote(attempt)} in a VM of generation ${quote(generation)}`,
    );
  const upstream = readUpstream(run, stage, instance, call['upstream']);
  // For a stage with items, the item replaces the input of the run.
  const input = stage.each === undefined ? inputOf(run, stage.input, upstream) : ({ kind: 'run-input' } as const);
  const execKey = keyOf(stage.id, instance, attempt);
  const series = seriesOf(execKey);
  const continued = series !== null && Object.hasOwn(run.continued, series) ? run.continued[series] : undefined;
  return {
    runId: run.runId,
    stage: { ...stage, work, input },
    ...(run.plan.budget === undefined ? {} : { runBudget: run.plan.budget }),
    ...(continued === undefined ? {} : { continued }),
    scope,
    generation,
    lease: leaseOf(run, call['lease'], { runId: run.runId, scope: scope.id, instance, generation }, isShared),
    instance,
    item: null,
    execKey,
    attempt,
    input: stage.each === undefined && input.kind === 'run-input' ? run.input : null,
    upstream,
    hostVariables: run.plan.hostVariables,
    events: checkEvents(run, call['events']),
  };
}

/** Adds the item, which is the input of an item's own command and of the first stages of a part. */
export function withItem(request: StageRequest, item: StageItem | null): StageRequest {
  const { each, input } = request.stage;
  if (item === null || (each === undefined && input.kind !== 'run-input')) return { ...request, item };
  return { ...request, item, input: { kind: 'inline', text: item.text } };
}

/** Returns null for a stage that does not end a part. */
export function readPartRequest(run: AdmittedRun, call: Fields): EndPartRequest | null {
  const stage = readStage(run, call);
  const part = partOf(stage.work);
  if (part === null) return null;
  const { lease, generation } = call;
  const instance = instanceIn(run, stage, call);
  const attempt = readAttempt(run, stage, call);
  if (lease !== null || generation !== 0) throw createRefusal(run, `stage ${stage.id} ends a part once and has no VM`);
  return {
    runId: run.runId,
    stage: stage.id,
    instance,
    attempt,
    execKey: keyOf(stage.id, instance, attempt),
    part,
    outputSchema: stage.outputSchema,
    upstream: readUpstream(run, stage, instance, call['upstream']),
    events: checkEvents(run, call['events']),
  };
}

export function evaluateRequest(run: AdmittedRun, call: Fields): EvaluateRequest {
  const stage = readStage(run, call);
  const { id, when: own, input, loop } = stage;
  // For a stage with items, the condition decides whether the items run at all.
  const instance = readOptionalPath(run, stage, call);
  if (instance.at(-1)?.part === id) throw createRefusal(run, `the items of stage ${id} have no condition`);
  const when = loop?.until ?? own;
  if (when === null) throw createRefusal(run, `stage ${id} has no condition`);
  const carried = loop === undefined && createInputPredicate(run.plan)(id) ? input : null;
  const upstream = checkEnds(run, id, readToDecide({ input }, when, carried !== null), carried, call['upstream']);
  const handsOn = carried === null ? null : inputOf(run, carried, upstream);
  return {
    runId: run.runId,
    stage: id,
    instance,
    when,
    handsOn,
    runInput: handsOn?.kind === 'run-input' ? run.input : null,
    upstream,
    events: checkEvents(run, call['events']),
  };
}

/** Sets the input that a skipped box in an item passes on: the item, instead of the run's input. */
export function withItemInput(request: EvaluateRequest, item: StageItem | null): EvaluateRequest {
  if (item === null || request.handsOn?.kind !== 'run-input') return request;
  return { ...request, runInput: { kind: 'inline', text: item.text } };
}

export function findTimeRequest(run: AdmittedRun, call: Fields): FindTimeRequest {
  const stage = readStage(run, call);
  const { id, work, texts } = stage;
  if (waitOf(work)?.until === undefined || texts === undefined)
    throw createRefusal(run, `stage ${id} does not wait until a time that outputs say`);
  readAttempt(run, stage, call);
  const instance = readOptionalPath(run, stage, call);
  return {
    runId: run.runId,
    stage: id,
    instance,
    texts,
    item: null,
    upstream: readUpstream(run, stage, instance, call['upstream']),
    hostVariables: run.plan.hostVariables,
    events: checkEvents(run, call['events']),
  };
}

export function readAskRequest(run: AdmittedRun, call: Fields): AskRequest {
  const { deadlineAtMs } = call;
  if (deadlineAtMs !== null && !(Number.isSafeInteger(deadlineAtMs) && isDateMs(deadlineAtMs)))
    throw createRefusal(run, `a deadline is a time or null, the call names ${quote(deadlineAtMs)}`);
  const stage = readStage(run, call);
  const { texts } = stage;
  const question = questionIn(run, call);
  return {
    ...question,
    item: null,
    deadlineAtMs,
    // A message that reads only its item uses no outputs, so its call has no `upstream`.
    made:
      texts === undefined
        ? null
        : { texts, upstream: readUpstream(run, stage, question.instance, call['upstream'] ?? {}) },
    hostVariables: run.plan.hostVariables,
    events: checkEvents(run, call['events']),
  };
}

export function readApprovalRequest(run: AdmittedRun, call: Fields): ApprovalRequest {
  const { by, comment, timedOut, atMs, fields } = call;
  if (!isNote(by, ANSWER_LIMITS.byCharacters) || !isNote(comment, ANSWER_LIMITS.commentCharacters))
    throw createRefusal(run, '`by` and `comment` of an answer are short texts or null');
  if (typeof timedOut !== 'boolean' || !isDateMs(atMs))
    throw createRefusal(run, 'an answer says when it came, and whether a deadline stands for it');
  const { attempt: _attempt, ...question } = questionIn(run, call);
  return { ...question, by, comment, timedOut, fields, atMs };
}

export function readRejectionRequest(run: AdmittedRun, call: Fields): RejectionRequest {
  // A workflow of an earlier behaviour sends neither, so its answer proves nothing.
  const { by = null, comment = null, fields } = call;
  if (!isNote(by, ANSWER_LIMITS.byCharacters) || !isNote(comment, ANSWER_LIMITS.commentCharacters))
    throw createRefusal(run, '`by` and `comment` of an answer are short texts or null');
  const { attempt: _attempt, ...question } = questionIn(run, call);
  return { ...question, by, comment, fields };
}

/** Returns the question of the stage and the attempt that a call names. */
function questionIn(
  run: AdmittedRun,
  call: Fields,
): Omit<AskRequest, 'deadlineAtMs' | 'made' | 'item' | 'hostVariables' | 'events'> {
  const stage = readStage(run, call);
  const { id, work } = stage;
  const approval = approvalOf(work);
  if (approval === null) throw createRefusal(run, `stage ${id} asks nothing`);
  const attempt = readAttempt(run, stage, call);
  const instance = stage.of === undefined && !isOfItem(call) ? [] : instanceIn(run, stage, call);
  return { runId: run.runId, stage: id, instance, execKey: keyOf(id, instance, attempt), attempt, approval };
}

function isNote(value: unknown, mostCharacters: number): value is string | null {
  return value === null || (typeof value === 'string' && value.length <= mostCharacters);
}

/**
 * Reads the outputs that a stage uses in this instance. A stage that ends a part uses different data within an item
 * than before the first item.
 */
function readUpstream(
  run: AdmittedRun,
  stage: StagePlan,
  instance: InstancePath,
  value: unknown,
): Readonly<Record<string, UpstreamOutputs>> {
  const isCommandOfItem = stage.each !== undefined && partOf(stage.work) === null;
  // Each command of an item uses the data that the stage uses before the first item.
  const direct = isCommandOfItem ? undefined : stageAt(run.machine, stage.id, instance)?.takes;
  return checkUpstream(run, stage, value, direct);
}

export function beginItemsRequest(run: AdmittedRun, call: Fields): BeginItemsRequest {
  const list = listIn(run, call);
  return {
    ...list,
    cancelled: false,
    upstream: readUpstream(run, stageOf(run, list.stage), list.instance, call['upstream']),
    events: checkEvents(run, call['events']),
  };
}

export function endItemsRequest(run: AdmittedRun, call: Fields): EndItemsRequest {
  return { ...listIn(run, call), cancelled: call['cancelled'] === true };
}

/** Refuses a call unless the stage has items, and the attempt belongs to a list of them. */
function listIn(run: AdmittedRun, call: Fields): Omit<EndItemsRequest, 'cancelled'> {
  const planned = readStage(run, call);
  const { id, each } = planned;
  const instance = isOfItem(call) ? readPath(run, planned, call) : [];
  const stage = stageAt(run.machine, id, instance);
  if (each === undefined || stage?.each === undefined) throw createRefusal(run, `stage ${id} is not done for items`);
  const attempt = readAttempt(run, planned, call, listsOfStage(stage));
  return {
    runId: run.runId,
    stage: id,
    instance,
    attempt,
    execKey: keyOf(id, instance, attempt),
    each,
    mostItems: mostItems(attemptsOfItem(stage), instance.length > 0, listsOfStage(stage)),
    lists: listsWithin(run.machine, id, instance),
  };
}

export function readScopeRequest(run: AdmittedRun, call: Fields): ScopeRequest {
  const scope = readScope(run, call);
  const { generation } = call;
  const last = lastGeneration(scope, (id) => stageOf(run, id));
  const first = stageOf(run, scope.stages[0]!);
  const isOfItems = first.each !== undefined || first.of !== undefined;
  if (!isOfItems && isOfItem(call)) throw createRefusal(run, `scope ${scope.id} is of no item`);
  const instance = isOfItems ? instanceIn(run, first, call) : [];
  if (typeof generation !== 'number' || !Number.isSafeInteger(generation) || generation < 0 || generation > last)
    throw createRefusal(run, `scope ${scope.id} has no VM of generation ${quote(generation)}: the last is ${last}`);
  const { resumes } = call;
  if (resumes !== undefined && (resumes !== true || !isSavedEachStep(scope)))
    throw createRefusal(run, `scope ${scope.id} has no checkpoints to resume from`);
  return { runId: run.runId, scope, generation, instance, ...(resumes === true ? { resumes } : {}) };
}

function leaseOf(run: AdmittedRun, value: unknown, identity: VmIdentity, isShared: boolean): VmLease | null {
  const { scope } = identity;
  const vmKey = formatVmKey(identity);
  const { vmKey: given, host } = value === null ? { vmKey: null } : fieldsOf(value, 'a lease');
  if (host !== undefined && !isHostId(host))
    throw createRefusal(run, `the lease of ${vmKey} names no host: ${quote(host)}`);
  if (given === (isShared ? vmKey : null)) return isShared ? { vmKey, ...(host === undefined ? {} : { host }) } : null;
  throw createRefusal(
    run,
    `scope ${scope} ${isShared ? `works in the VM ${vmKey}` : 'has the VM of its only stage'}, the call names ${given === null ? 'none' : quote(given)}`,
  );
}

export function finishRequest(run: AdmittedRun, call: Fields): FinishRequest {
  return {
    runId: run.runId,
    outcome: checkOutcome(run, call['outcome']),
    merge: checkMerge(run, call['merge']),
    events: checkEvents(run, call['events']),
  };
}
