/**
 * From a call to what is done about it. Whoever reaches the server can put anything into a call, so only ids are taken from it,
 * what they name comes from the run's records, and what the run's workflow cannot have sent is refused.
 */
import { CodedError } from '../domain/errors/coded-error.ts';
import { execKeyOf } from '../domain/pipeline/draft.ts';
import { planIndex } from '../domain/pipeline/plan-index.ts';
import { isReachable, lastGeneration } from '../domain/pipeline/reach.ts';
import type { StagePlan } from '../domain/plan/plan.ts';
import type { NewRunEvent, RunOutcome } from '../domain/run/event.ts';
import { isHostId } from '../domain/run/host.ts';
import { vmKeyText } from '../domain/run/vm-key.ts';
import type { VmLease } from '../domain/run/vm-lease.ts';
import { type AdmittedRun, assertCalledByRun, createAdmittedRuns, endOf, quoted } from './admitted-run.ts';
import { checkedEvents } from './call-events.ts';
import { checkedMerge, checkedOutcome, checkedUpstream, type Fields, fieldsOf } from './call-values.ts';
import type { FinishRequest } from './contract.ts';
import type { ActivityDeps } from './deps.ts';
import type { AdmittedScope, ScopeRequest, StageRequest } from './requests.ts';
import { readResult } from './stage-record.ts';

/** Each makes what an activity works with of what it was called with. @throws CodedError `call/refused`, `run/ended` */
export interface RunCalls {
  stage(call: unknown): Promise<StageRequest>;
  acquire(call: unknown): Promise<ScopeRequest>;
  release(call: unknown): Promise<ScopeRequest>;
  append(call: unknown): Promise<{ readonly runId: string; readonly events: readonly NewRunEvent[] }>;
  /** `ended`: the outcome that stands already; nothing is to be written any more. */
  finish(call: unknown): Promise<FinishRequest & { readonly ended: RunOutcome | null }>;
  /** The run has ended. */
  forget(runId: string): void;
}

export function createRunCalls({
  events,
  records,
  placement: { hostId },
}: Pick<ActivityDeps, 'events' | 'records' | 'placement'>): RunCalls {
  const runs = createAdmittedRuns(records);

  async function runOf(call: Fields): Promise<AdmittedRun> {
    assertCalledByRun(call['runId']);
    return runs.get(call['runId'] as string);
  }

  async function openRunOf(call: Fields): Promise<AdmittedRun> {
    const run = await runOf(call);
    if ((await endOf(events, run.runId)) !== null) throw ended(run);
    return run;
  }

  return {
    forget: (runId) => runs.forget(runId),
    async stage(value) {
      const call = fieldsOf(value, 'a call of a stage');
      const run = await runOf(call);
      const request = stageRequest(run, call);
      refuseElsewhere(run, request, hostId);
      if ((await endOf(events, run.runId)) === null) return request;
      // A reset of a run that has ended is told what stands; nothing runs and nothing more is written.
      if ((await readResult(events, run.runId, request.execKey)) === null) throw ended(run);
      return { ...request, events: [] };
    },
    async acquire(value) {
      const call = fieldsOf(value, 'a call for a VM');
      const run = await openRunOf(call);
      const request = scopeRequest(run, call);
      if (request.scope.stages.length === 1)
        throw refused(run, `the VM of scope ${quoted(request.scope.id)} belongs to its only stage`);
      return request;
    },
    // Ending a VM is right whatever has become of the run.
    async release(value) {
      const call = fieldsOf(value, 'a call to end a VM');
      return scopeRequest(await runOf(call), call);
    },
    async append(value) {
      const call = fieldsOf(value, 'a call to append events');
      const run = await openRunOf(call);
      return { runId: run.runId, events: checkedEvents(run, call['events']) };
    },
    async finish(value) {
      const call = fieldsOf(value, 'a call to finish a run');
      const run = await runOf(call);
      const outcome = checkedOutcome(run, call['outcome']);
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

function stageRequest(run: AdmittedRun, call: Fields): StageRequest {
  const index = planIndex(run.machine);
  const stage = stageOf(run, idIn(run, call, 'stage'));
  if (stage.scope === null) throw refused(run, `stage ${stage.id} does nothing in a VM`);
  const scope = scopeOf(run, stage.scope);
  const { attempt, generation } = call;
  if (
    isWhole(run, call, 'stage') &&
    (idIn(run, call, 'scope') !== stage.scope || call['execKey'] !== keyOf(stage.id, Number(attempt)))
  )
    throw refused(
      run,
      `stage ${stage.id} is in scope ${stage.scope}, and its command is not ${quoted(call['execKey'])}`,
    );
  if (!isWhole(run, call, 'stage')) refuseItems(run, stage.id, call);
  const isShared = index.isShared(index.scopeById(scope.id)!);
  if (
    typeof attempt !== 'number' ||
    typeof generation !== 'number' ||
    !isReachable(stage, isShared, attempt, generation)
  )
    throw refused(
      run,
      `stage ${stage.id} comes to no attempt ${quoted(attempt)} in a VM of generation ${quoted(generation)}`,
    );
  return {
    runId: run.runId,
    stage,
    scope,
    generation,
    mountsAreResolved: run.mountsAreResolved,
    lease: leaseOf(run, call['lease'], scope, generation, isShared),
    instance: [],
    execKey: keyOf(stage.id, attempt),
    attempt,
    input: stage.input.kind === 'run-input' ? run.input : null,
    upstream: checkedUpstream(run, stage, call['upstream']),
    events: checkedEvents(run, call['events']),
  };
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

/** No plan of this build has parts, so that none of its stages is of an item. */
function refuseItems(run: AdmittedRun, stage: string, { item, instance }: Fields): void {
  if (item !== undefined && item !== 0) throw refused(run, `stage ${stage} has no item ${quoted(item)}`);
  if (instance !== undefined && !(Array.isArray(instance) && instance.length === 0))
    throw refused(run, `stage ${stage} has no instance ${quoted(instance)}`);
  if (item === undefined && instance === undefined) throw refused(run, `the call for stage ${stage} names no instance`);
}

function scopeRequest(run: AdmittedRun, call: Fields): ScopeRequest {
  const scope = scopeOf(run, idIn(run, call, 'scope'));
  const { generation } = call;
  const last = lastGeneration(scope, (id) => stageOf(run, id));
  if (typeof generation !== 'number' || !Number.isSafeInteger(generation) || generation < 0 || generation > last)
    throw refused(run, `scope ${scope.id} comes to no VM of generation ${quoted(generation)}: its last is ${last}`);
  return { runId: run.runId, scope, generation, mountsAreResolved: run.mountsAreResolved };
}

/** Empty for an attempt that is none. */
function keyOf(stage: string, attempt: number): string {
  return Number.isSafeInteger(attempt) && attempt > 0 ? execKeyOf(stage, attempt) : '';
}

function leaseOf(
  run: AdmittedRun,
  value: unknown,
  { id: scope }: AdmittedScope,
  generation: number,
  isShared: boolean,
): VmLease | null {
  const vmKey = vmKeyText({ runId: run.runId, scope, instance: [], generation });
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
  const stage = planIndex(run.machine).stageById(id);
  if (stage === undefined) throw refused(run, `its plan has no stage ${quoted(id)}`);
  return run.plan.stages[stage]!;
}

function scopeOf(run: AdmittedRun, id: string): AdmittedScope {
  const scope = planIndex(run.machine).scopeById(id);
  if (scope === undefined) throw refused(run, `its plan has no scope ${quoted(id)}`);
  return run.scopes[scope]!;
}

function refused({ runId }: AdmittedRun, why: string): CodedError {
  return new CodedError('call/refused', `run ${runId}: ${why}`);
}

function ended({ runId }: AdmittedRun): CodedError {
  return new CodedError('run/ended', `run ${runId} has ended: nothing more is done for it`);
}
