/**
 * From a call to what is done about it. Whoever reaches the server can put anything into a call, so only ids are taken from it,
 * what they name comes from the run's records, and what the run's workflow cannot have sent is refused.
 */
import { CodedError } from '../domain/errors/coded-error.ts';
import { attemptsOfItem, listsOfStage, listsWithin, mostItems, stageAt } from '../domain/pipeline/item-plan.ts';
import { isReachable, lastAttempt, lastGeneration } from '../domain/pipeline/reach.ts';
import type { StagePlan } from '../domain/plan/plan.ts';
import { stageOfPlan } from '../domain/plan/item-parts.ts';
import { handsOnInput, readToDecide } from '../domain/plan/condition.ts';
import { answeringOf, approvalOf, commandOf, mockOf, partOf, waitOf } from '../domain/plan/work.ts';
import { attemptText } from '../domain/run/attempt.ts';
import { type InstancePath, readInstance } from '../domain/run/instance.ts';
import { ANSWER_LIMITS } from '../domain/run/approval-answer.ts';
import type { NewRunEvent, RunOutcome } from '../domain/run/event.ts';
import { isHostId } from '../domain/run/host.ts';
import { type VmIdentity, vmKeyText } from '../domain/run/vm-key.ts';
import type { VmLease } from '../domain/run/vm-lease.ts';
import { isDateMs } from '../domain/units/time.ts';
import {
  type AdmittedRun,
  assertCalledByRun,
  createAdmittedRuns,
  createCallers,
  endOf,
  quoted,
} from './admitted-run.ts';
import type { ApprovalRequest, AskRequest, RejectionRequest } from './approvals.ts';
import { checkedEvents } from './call-events.ts';
import {
  checkedEnds,
  checkedMerge,
  checkOutcome,
  checkedUpstream,
  type Fields,
  fieldsOf,
  inputOf,
} from './call-values.ts';
import type { EvaluateRequest } from './conditions.ts';
import type { FinishRequest, UpstreamOutputs } from './contract.ts';
import type { ActivityDeps } from './deps.ts';
import type { EndPartRequest } from './end-part.ts';
import type { FindTimeRequest } from './find-time.ts';
import { type BeginItemsRequest, createItemLists, type EndItemsRequest } from './items.ts';
import type { AdmittedScope, ScopeRequest, StageRequest } from './requests.ts';
import type { MockedRequest } from './mocked-stage.ts';
import { readResult } from './stage-record.ts';

/** What a call of a stage asks for: to give what the stage is mocked with, to end a part, or to work in a VM. */
export type StageWork =
  | { readonly mocked: MockedRequest }
  | { readonly part: EndPartRequest }
  /** `behaviour`: that of the run. */
  | { readonly inVm: StageRequest & { readonly behaviour: number } };

/** Each makes what an activity works with of what it was called with. @throws CodedError `call/refused`, `run/ended` */
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
  /** `ended`: the outcome that stands already; nothing is to be written any more. */
  finish(call: unknown): Promise<FinishRequest & { readonly ended: RunOutcome | null }>;
  /** The run has ended. */
  forget(runId: string): void;
}

export function createRunCalls({
  artifacts,
  events,
  records,
  parentOf,
  placement: { hostId },
}: Pick<ActivityDeps, 'artifacts' | 'events' | 'records' | 'parentOf' | 'placement'>): RunCalls {
  const runs = createAdmittedRuns(records);
  const callers = createCallers(parentOf);
  const lists = createItemLists({ artifacts, records });

  async function runNamed(runId: string): Promise<AdmittedRun> {
    const run = await runs.get(runId);
    // No workflow has its id, so that anybody's may take it.
    if (run.command !== null) throw refused(run, 'it is of a command, which an activity of another workflow drives');
    return run;
  }

  async function runOf(call: Fields): Promise<AdmittedRun> {
    assertCalledByRun(call['runId']);
    return runNamed(call['runId'] as string);
  }

  /** Of what is done for items as well. */
  async function runOrItemsOf(call: Fields): Promise<AdmittedRun> {
    await callers.check(call['runId']);
    return runNamed(call['runId'] as string);
  }

  const callerOf = (call: Fields): typeof runOf => (isOfItem(call) ? runOrItemsOf : runOf);

  async function openRunOf(call: Fields, of = runOf): Promise<AdmittedRun> {
    const run = await of(call);
    const end = await endOf(events, run.runId);
    if (end !== null) throw ended(run, end);
    return run;
  }

  /** A reset of a run that has ended is told what stands; nothing runs and nothing more is written. */
  async function withoutRewriting<T extends StageRequest | MockedRequest | EndPartRequest>(
    run: AdmittedRun,
    request: T,
  ): Promise<T> {
    const end = await endOf(events, run.runId);
    if (end === null) return request;
    if ((await readResult(events, run.runId, request.execKey)) === null) throw ended(run, end);
    return { ...request, events: [] };
  }

  async function inVm(run: AdmittedRun, call: Fields): Promise<StageRequest & { readonly behaviour: number }> {
    const checked = stageRequest(run, call);
    const item = await lists.itemOf(run.runId, checked.instance);
    const request = {
      ...checked,
      item,
      input: item !== null && isGivenItem(checked) ? { kind: 'inline' as const, text: item.text } : checked.input,
      behaviour: run.behaviour,
    };
    refuseElsewhere(run, request, hostId);
    return await withoutRewriting(run, request);
  }

  return {
    forget(runId) {
      runs.forget(runId);
      lists.forget(runId);
    },
    async stage(value) {
      const call = fieldsOf(value, 'a call of a stage');
      const run = await runOrItemsOf(call);
      const mocked = mockedRequest(run, call);
      if (mocked !== null) {
        await lists.itemOf(run.runId, mocked.instance);
        return { mocked: await withoutRewriting(run, mocked) };
      }
      const part = partIn(run, call);
      if (part === null) return { inVm: await inVm(run, call) };
      if (part.instance.length === 0) assertCalledByRun(run.runId);
      await lists.itemOf(run.runId, part.instance);
      return { part: await withoutRewriting(run, part) };
    },
    async evaluate(value) {
      const call = fieldsOf(value, 'a call to decide a stage');
      const run = await openRunOf(call, callerOf(call));
      const request = evaluateRequest(run, call);
      const item = await lists.itemOf(run.runId, request.instance);
      if (item === null || request.handsOn?.kind !== 'run-input') return request;
      return { ...request, runInput: { kind: 'inline', text: item.text } };
    },
    async findTime(value) {
      const call = fieldsOf(value, 'a call to find the time of a wait');
      const run = await openRunOf(call, isOfItem(call) ? runOrItemsOf : runOf);
      const request = findTimeRequest(run, call);
      await lists.itemOf(run.runId, request.instance);
      return request;
    },
    async ask(value) {
      const call = fieldsOf(value, 'a call to ask');
      const run = await openRunOf(call, callerOf(call));
      const request = askRequest(run, call);
      const item = await lists.itemOf(run.runId, request.instance);
      return { ...request, item };
    },
    async approval(value) {
      const call = fieldsOf(value, 'a call to keep an answer');
      return approvalRequest(await openRunOf(call, callerOf(call)), call);
    },
    async rejection(value) {
      const call = fieldsOf(value, 'a call to check an answer');
      const { runId, approval } = questionIn(await openRunOf(call, callerOf(call)), call);
      return { runId, approval, fields: call['fields'] };
    },
    async beginItems(value) {
      const call = fieldsOf(value, 'a call to begin items');
      const run = await openRunOf(call, isOfItem(call) ? runOrItemsOf : runOf);
      const request = itemsIn(run, call);
      await lists.itemOf(run.runId, request.instance);
      return {
        ...request,
        upstream: takenIn(run, stageOf(run, request.stage), request.instance, call['upstream']),
        events: checkedEvents(run, call['events']),
      };
    },
    async endItems(value) {
      const call = fieldsOf(value, 'a call to end items');
      const run = await (isOfItem(call) ? runOrItemsOf : runOf)(call);
      const request = { ...itemsIn(run, call), cancelled: call['cancelled'] === true };
      const end = await endOf(events, run.runId);
      if (end !== null && (await readResult(events, run.runId, request.execKey)) === null) throw ended(run, end);
      return request;
    },
    async acquire(value) {
      const call = fieldsOf(value, 'a call for a VM');
      const run = await openRunOf(call, callerOf(call));
      const request = scopeRequest(run, call);
      await lists.itemOf(run.runId, request.instance);
      if (request.scope.stages.length === 1)
        throw refused(run, `the VM of scope ${quoted(request.scope.id)} belongs to its only stage`);
      return request;
    },
    // Ending a VM is right whatever has become of the run.
    async release(value) {
      const call = fieldsOf(value, 'a call to end a VM');
      return scopeRequest(await runOrItemsOf(call), call);
    },
    async append(value) {
      const call = fieldsOf(value, 'a call to append events');
      const run = await openRunOf(call, runOrItemsOf);
      return { runId: run.runId, events: checkedEvents(run, call['events']) };
    },
    async finish(value) {
      const call = fieldsOf(value, 'a call to finish a run');
      const run = await runOf(call);
      const outcome = checkOutcome(run, call['outcome']);
      const merge = checkedMerge(run, call['merge']);
      return {
        runId: run.runId,
        outcome,
        merge,
        events: checkedEvents(run, call['events']),
        ended: await endOf(events, run.runId),
      };
    },
  };
}

/** Null for a stage whose work is done. @throws CodedError `call/refused` */
function mockedRequest(run: AdmittedRun, call: Fields): MockedRequest | null {
  const stage = stageOf(run, idIn(run, call, 'stage'));
  const mock = mockOf(stage.work);
  if (mock === null) return null;
  const { attempt, generation, lease } = call;
  const instance = instanceIn(run, stage, call);
  if (
    typeof attempt !== 'number' ||
    !Number.isSafeInteger(attempt) ||
    attempt < 1 ||
    attempt > lastAttempt(stage) ||
    generation !== 0 ||
    lease !== null
  )
    throw refused(run, `stage ${stage.id} is mocked, without a VM, and has no attempt ${quoted(attempt)}`);
  return {
    runId: run.runId,
    stage: stage.id,
    instance,
    outputSchema: stage.outputSchema,
    mock,
    attempt,
    execKey: keyOf(stage.id, instance, attempt),
    events: checkedEvents(run, call['events']),
  };
}

function stageRequest(run: AdmittedRun, call: Fields): StageRequest {
  const stage = stageOf(run, idIn(run, call, 'stage'));
  const work = commandOf(stage.work) ?? answeringOf(stage.work);
  if (work === null || stage.scope === null) throw refused(run, `stage ${stage.id} does not run in a VM`);
  const scope = scopeOf(run, stage.scope);
  const { attempt, generation } = call;
  if (
    isWhole(run, call, 'stage') &&
    (idIn(run, call, 'scope') !== stage.scope || call['execKey'] !== keyOf(stage.id, [], Number(attempt)))
  )
    throw refused(
      run,
      `stage ${stage.id} is in scope ${stage.scope}, and its command is not ${quoted(call['execKey'])}`,
    );
  const instance = isWhole(run, call, 'stage') ? [] : instanceIn(run, stage, call);
  const isShared = scope.stages.length > 1;
  if (
    typeof attempt !== 'number' ||
    typeof generation !== 'number' ||
    !isReachable(stage, isShared, attempt, generation)
  )
    throw refused(
      run,
      `stage ${stage.id} has no attempt ${quoted(attempt)} in a VM of generation ${quoted(generation)}`,
    );
  const upstream = takenIn(run, stage, instance, call['upstream']);
  // An item is what the run's input is to a first stage.
  const input = stage.each === undefined ? inputOf(run, stage.input, upstream) : ({ kind: 'run-input' } as const);
  return {
    runId: run.runId,
    stage: { ...stage, work, input },
    ...(run.plan.budget === undefined ? {} : { runBudget: run.plan.budget }),
    scope,
    generation,
    mountsAreResolved: run.mountsAreResolved,
    lease: leaseOf(run, call['lease'], { runId: run.runId, scope: scope.id, instance, generation }, isShared),
    instance,
    item: null,
    execKey: keyOf(stage.id, instance, attempt),
    attempt,
    input: stage.each === undefined && input.kind === 'run-input' ? run.input : null,
    upstream,
    hostVariables: run.plan.hostVariables,
    events: checkedEvents(run, call['events']),
  };
}

/** @throws CodedError `call/refused` */
function partIn(run: AdmittedRun, call: Fields): EndPartRequest | null {
  const stage = stageOf(run, idIn(run, call, 'stage'));
  const part = partOf(stage.work);
  if (part === null) return null;
  const { attempt, lease, generation } = call;
  const instance = instanceIn(run, stage, call);
  if (typeof attempt !== 'number' || !(attempt <= lastAttempt(stage)) || keyOf(stage.id, instance, attempt) === '')
    throw refused(run, `stage ${stage.id} has no attempt ${quoted(attempt)}`);
  if (lease !== null || generation !== 0) throw refused(run, `stage ${stage.id} ends a part once and has no VM`);
  return {
    runId: run.runId,
    stage: stage.id,
    instance,
    attempt,
    execKey: keyOf(stage.id, instance, attempt),
    part,
    outputSchema: stage.outputSchema,
    upstream: takenIn(run, stage, instance, call['upstream']),
    events: checkedEvents(run, call['events']),
  };
}

/** @throws CodedError `call/refused` */
function evaluateRequest(run: AdmittedRun, call: Fields): EvaluateRequest {
  const stage = stageOf(run, idIn(run, call, 'stage'));
  const { id, when: own, input, loop } = stage;
  // Of a stage with items, whether they are done at all.
  const instance = stage.of === undefined && !isOfItem(call) ? [] : pathIn(run, stage, call);
  if (instance.at(-1)?.part === id) throw refused(run, `the items of stage ${id} have no condition`);
  const when = loop?.until ?? own;
  if (when === null) throw refused(run, `stage ${id} has no condition`);
  const carried = loop === undefined && handsOnInput(run.plan)(id) ? input : null;
  const upstream = checkedEnds(run, id, readToDecide({ input }, when, carried !== null), carried, call['upstream']);
  const handsOn = carried === null ? null : inputOf(run, carried, upstream);
  return {
    runId: run.runId,
    stage: id,
    instance,
    when,
    handsOn,
    runInput: handsOn?.kind === 'run-input' ? run.input : null,
    upstream,
    events: checkedEvents(run, call['events']),
  };
}

/** @throws CodedError `call/refused` */
function findTimeRequest(run: AdmittedRun, call: Fields): FindTimeRequest {
  const stage = stageOf(run, idIn(run, call, 'stage'));
  const { id, work, texts, retry, visits } = stage;
  const { attempt } = call;
  if (waitOf(work)?.until === undefined || texts === undefined)
    throw refused(run, `stage ${id} does not wait until a time that outputs say`);
  if (typeof attempt !== 'number' || !isAttemptOf({ retry, visits }, attempt))
    throw refused(run, `stage ${id} has no attempt ${quoted(attempt)}`);
  const instance = stage.of === undefined && !isOfItem(call) ? [] : pathIn(run, stage, call);
  return {
    runId: run.runId,
    stage: id,
    instance,
    texts,
    upstream: takenIn(run, stage, instance, call['upstream']),
    hostVariables: run.plan.hostVariables,
    events: checkedEvents(run, call['events']),
  };
}

function isAttemptOf(stage: Pick<StagePlan, 'retry' | 'visits'>, attempt: number): boolean {
  return Number.isSafeInteger(attempt) && attempt >= 1 && attempt <= lastAttempt(stage);
}

/** @throws CodedError `call/refused` */
export function askRequest(run: AdmittedRun, call: Fields): AskRequest {
  const { deadlineAtMs } = call;
  if (deadlineAtMs !== null && !(Number.isSafeInteger(deadlineAtMs) && isDateMs(deadlineAtMs)))
    throw refused(run, `a deadline is a time or null, the call names ${quoted(deadlineAtMs)}`);
  const stage = stageOf(run, idIn(run, call, 'stage'));
  const { texts } = stage;
  const question = questionIn(run, call);
  return {
    ...question,
    item: null,
    deadlineAtMs,
    made:
      texts === undefined
        ? null
        : {
            texts,
            upstream: takenIn(run, stage, question.instance, call['upstream']),
          },
    hostVariables: run.plan.hostVariables,
    events: checkedEvents(run, call['events']),
  };
}

function approvalRequest(run: AdmittedRun, call: Fields): ApprovalRequest {
  const { by, comment, timedOut, atMs, fields } = call;
  if (!isNote(by, ANSWER_LIMITS.byCharacters) || !isNote(comment, ANSWER_LIMITS.commentCharacters))
    throw refused(run, '`by` and `comment` of an answer are short texts or null');
  if (typeof timedOut !== 'boolean' || !isDateMs(atMs))
    throw refused(run, 'an answer says when it came, and whether a deadline stands for it');
  const { runId, approval } = questionIn(run, call);
  return { runId, approval, by, comment, timedOut, fields, atMs };
}

/** Of the stage and the attempt that a call names. */
function questionIn(
  run: AdmittedRun,
  call: Fields,
): Omit<AskRequest, 'deadlineAtMs' | 'made' | 'item' | 'hostVariables' | 'events'> {
  const stage = stageOf(run, idIn(run, call, 'stage'));
  const { id, work, retry, visits } = stage;
  const approval = approvalOf(work);
  const { attempt } = call;
  if (approval === null) throw refused(run, `stage ${id} asks nothing`);
  if (typeof attempt !== 'number' || !isAttemptOf({ retry, visits }, attempt))
    throw refused(run, `stage ${id} has no attempt ${quoted(attempt)}`);
  const instance = stage.of === undefined && !isOfItem(call) ? [] : instanceIn(run, stage, call);
  return { runId: run.runId, stage: id, instance, execKey: keyOf(id, instance, attempt), attempt, approval };
}

function isNote(value: unknown, mostCharacters: number): value is string | null {
  return value === null || (typeof value === 'string' && value.length <= mostCharacters);
}

/**
 * A VM is found or made by its key alone: on a host that does not have it, a second one with the key would come to life.
 * @throws CodedError `host/elsewhere`
 */
function refuseElsewhere(run: AdmittedRun, { lease, execKey }: StageRequest, hostId: string): void {
  const host = lease?.host ?? run.hostId;
  if (host === hostId) return;
  throw new CodedError(
    'host/elsewhere',
    `run ${run.runId}: the VM of ${execKey} is on host ${quoted(host)}, the call came to host ${hostId}`,
  );
}

/** True for a call that names an item, whatever that is. */
function isOfItem({ instance }: Fields): boolean {
  return Array.isArray(instance) && instance.length > 0;
}

/** The item is what a command of its own finds as its input, and the first stages of a part. */
function isGivenItem({ stage }: StageRequest): boolean {
  return stage.each !== undefined || stage.input.kind === 'run-input';
}

/** Where the stage is done that a call names: of stages of items the item, of any other stage the run itself. */
function instanceIn(run: AdmittedRun, stage: StagePlan, call: Fields): InstancePath {
  const path = pathIn(run, stage, call);
  // What is done for each item is not done for the list.
  if (stageAt(run.machine, stage.id, path)?.each === undefined) return path;
  throw refused(run, `stage ${stage.id} has no instance ${quoted(call['instance'])}`);
}

/** Where the stage stands that a call names, also one with items. */
function pathIn(run: AdmittedRun, { id }: StagePlan, { item, instance }: Fields): InstancePath {
  if (item !== undefined && item !== 0) throw refused(run, `stage ${id} has no item ${quoted(item)}`);
  if (item === undefined && instance === undefined) throw refused(run, `the call for stage ${id} names no instance`);
  const path = instance === undefined ? [] : readInstance(instance);
  if (path !== null && stageAt(run.machine, id, path) !== null) return path;
  throw refused(run, `stage ${id} has no instance ${quoted(instance)}`);
}

/** What a stage takes where it stands: what ends a part takes other data within an item than before the first. */
function takenIn(
  run: AdmittedRun,
  stage: StagePlan,
  instance: InstancePath,
  value: unknown,
): Readonly<Record<string, UpstreamOutputs>> {
  const isCommandOfItem = stage.each !== undefined && partOf(stage.work) === null;
  // Each command of an item has what the stage takes before the first.
  const direct = isCommandOfItem ? undefined : stageAt(run.machine, stage.id, instance)?.takes;
  return checkedUpstream(run, stage, value, direct);
}

/** @throws CodedError `call/refused` unless the stage has items and its attempt is one */
function itemsIn(run: AdmittedRun, call: Fields): EndItemsRequest {
  const planned = stageOf(run, idIn(run, call, 'stage'));
  const { id, each } = planned;
  const { attempt } = call;
  const instance = isOfItem(call) ? pathIn(run, planned, call) : [];
  const stage = stageAt(run.machine, id, instance);
  if (each === undefined || stage?.each === undefined) throw refused(run, `stage ${id} is not done for items`);
  if (typeof attempt !== 'number' || !(attempt <= listsOfStage(stage)) || keyOf(id, instance, attempt) === '')
    throw refused(run, `stage ${id} has no attempt ${quoted(attempt)}`);
  return {
    runId: run.runId,
    stage: id,
    instance,
    attempt,
    execKey: keyOf(id, instance, attempt),
    each,
    mostItems: mostItems(attemptsOfItem(stage), instance.length > 0, listsOfStage(stage)),
    lists: listsWithin(run.machine, id, instance),
    cancelled: false,
  };
}

function scopeRequest(run: AdmittedRun, call: Fields): ScopeRequest {
  const scope = scopeOf(run, idIn(run, call, 'scope'));
  const { generation } = call;
  const last = lastGeneration(scope, (id) => stageOf(run, id));
  const first = stageOf(run, scope.stages[0]!);
  const isOfItems = first.each !== undefined || first.of !== undefined;
  if (!isOfItems && isOfItem(call)) throw refused(run, `scope ${scope.id} is of no item`);
  const instance = isOfItems ? instanceIn(run, first, call) : [];
  if (typeof generation !== 'number' || !Number.isSafeInteger(generation) || generation < 0 || generation > last)
    throw refused(run, `scope ${scope.id} has no VM of generation ${quoted(generation)}: the last is ${last}`);
  return { runId: run.runId, scope, generation, instance, mountsAreResolved: run.mountsAreResolved };
}

/** Empty for an attempt that is none. */
function keyOf(stage: string, instance: InstancePath, attempt: number): string {
  return Number.isSafeInteger(attempt) && attempt > 0 ? attemptText({ stage, instance, attempt }) : '';
}

function leaseOf(run: AdmittedRun, value: unknown, identity: VmIdentity, isShared: boolean): VmLease | null {
  const { scope } = identity;
  const vmKey = vmKeyText(identity);
  const { vmKey: given, host } = value === null ? { vmKey: null } : fieldsOf(value, 'a lease');
  if (host !== undefined && !isHostId(host)) throw refused(run, `the lease of ${vmKey} names no host: ${quoted(host)}`);
  if (given === (isShared ? vmKey : null)) return isShared ? { vmKey, ...(host === undefined ? {} : { host }) } : null;
  throw refused(
    run,
    `scope ${scope} ${isShared ? `works in the VM ${vmKey}` : 'has the VM of its only stage'}, the call names ${given === null ? 'none' : quoted(given)}`,
  );
}

/** True for a call that carries whole stages and scopes, as workflows of behaviour 0 send them. */
function isWhole(run: AdmittedRun, call: Fields, what: 'stage' | 'scope'): boolean {
  const whole = typeof call[what] === 'object' && call[what] !== null;
  if (whole && run.behaviour > 0) throw refused(run, `its workflow names a ${what} by id, this call carries one`);
  return whole;
}

function idIn(run: AdmittedRun, call: Fields, what: 'stage' | 'scope'): string {
  const id = isWhole(run, call, what) ? fieldsOf(call[what], `a ${what}`)['id'] : call[what];
  if (typeof id === 'string') return id;
  throw refused(run, `the call names no ${what}`);
}

function stageOf(run: AdmittedRun, id: string): StagePlan {
  const stage = stageOfPlan(run.plan, id);
  if (stage === undefined) throw refused(run, `its plan has no stage ${quoted(id)}`);
  return stage;
}

function scopeOf(run: AdmittedRun, id: string): AdmittedScope {
  const scope = run.scopes.find((each) => each.id === id);
  if (scope === undefined) throw refused(run, `its plan has no scope ${quoted(id)}`);
  return scope;
}

function refused({ runId }: AdmittedRun, why: string): CodedError {
  return new CodedError('call/refused', `run ${runId}: ${why}`);
}

function ended({ runId }: AdmittedRun, { state }: RunOutcome): CodedError {
  return new CodedError('run/ended', `run ${runId} has already ended (${state}); a reset runs nothing again`);
}
