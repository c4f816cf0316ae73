/** Reads admitted runs from their records, which are the only source of what their activities do. */
import { Context } from '@temporalio/activity';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { type MachinePlan, machinePlanOf } from '../../domain/pipeline/machine-plan.ts';
import { itemPlanOf, listsOf } from '../../domain/pipeline/item-plan.ts';
import { agentPartsOf } from '../../domain/agent/agent-cli.ts';
import { planIndex } from '../../domain/pipeline/plan-index.ts';
import type { Plan, ScopePlan } from '../../domain/plan/plan.ts';
import { fromWire } from '../../domain/plan/wire.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { ContinuedAgent } from '../../domain/run/agent-saves.ts';
import type { RunOutcome } from '../../domain/run/event.ts';
import type { AdmissionRecord, CommandCaller } from './admission-record.ts';
import { namePreparedSandbox } from './prepared-sandboxes.ts';
import type { InlineOrRef } from '../contract.ts';
import { INSTANCE_LIMITS } from '../../domain/run/instance.ts';
import type { ParentExecution, ParentOf } from '../deps.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { RunRecords } from '../ports/run-records.ts';
import type { AdmittedScope } from '../calls/requests.ts';
import { quote } from '../../domain/units/quote.ts';

export interface AdmittedRun {
  readonly runId: string;
  /** The id of the host that owns the run. */
  readonly hostId: string;
  readonly plan: Plan;
  /** The plan as the run machine sees it. */
  readonly machine: MachinePlan;
  /** The scopes in the plan's order. */
  readonly scopes: readonly AdmittedScope[];
  readonly input: InlineOrRef | null;
  /** The saves that agents of a retry resume, by series of attempts; empty: every agent starts from its beginning. */
  readonly continued: Readonly<Record<string, ContinuedAgent>>;
  /** The hash of the key that its request proved; null: it proved none. */
  readonly provenKey: string | null;
  /** The activity that drives a run of one command; null for other runs. */
  readonly command: CommandCaller | null;
}

export interface AdmittedRuns {
  /** @throws CodedError `call/refused` when the run was not admitted on this host */
  get(runId: string): Promise<AdmittedRun>;
  /** Drops the cached run: it has ended, so no further call is expected. */
  forget(runId: string): void;
}

/** The most stages of the plans that are cached: a plan of 2,000 stages holds some 2 MB. */
const MOST_KEPT_STAGES = 20_000;

export function createAdmittedRuns(records: RunRecords, mostKeptStages = MOST_KEPT_STAGES): AdmittedRuns {
  /** The cached runs in the order of their last use. */
  const kept = new Map<string, AdmittedRun>();
  let stages = 0;
  const forget = (runId: string): void => {
    stages -= kept.get(runId)?.plan.stages.length ?? 0;
    kept.delete(runId);
  };
  return {
    forget,
    async get(runId) {
      const run = kept.get(runId) ?? (await readAdmitted(records, runId));
      forget(runId);
      kept.set(runId, run);
      stages += run.plan.stages.length;
      for (const oldest of kept.keys()) {
        if (stages <= mostKeptStages || oldest === runId) break;
        forget(oldest);
      }
      return run;
    },
  };
}

async function readAdmitted(records: RunRecords, runId: string): Promise<AdmittedRun> {
  const record = (await records.get(runId, 'admission')) as AdmissionRecord | null | undefined;
  if (record === null || record === undefined)
    throw new CodedError('call/refused', `no run ${quote(runId)} was admitted on this host`);
  try {
    const plan = fromWire(record.plan);
    const machine = machinePlanOf(plan);
    // Throws for a plan whose parts do not fit each other.
    planIndex(machine);
    for (const { stage } of listsOf(machine)) planIndex(itemPlanOf(stage));
    return {
      runId,
      hostId: record.hostId,
      plan,
      machine,
      scopes: plan.scopes.map((scope) => resolveScope(scope, plan.stages, record)),
      input: record.input,
      continued: record.continued ?? {},
      provenKey: record.provenKey ?? null,
      command: record.command ?? null,
    };
  } catch (error) {
    throw new CodedError('call/refused', `the record of run ${quote(runId)}'s admission is damaged: ${String(error)}`, {
      cause: error,
    });
  }
}

/**
 * Resolves a scope for the launch of its VM. Mounts and prepared sandboxes use the paths of admission, so a link or
 * a name that changed later leads nowhere else. The layers and the image of its agents are added.
 */
function resolveScope(
  scope: ScopePlan,
  stages: Plan['stages'],
  record: Pick<AdmissionRecord, 'mounts' | 'prepared'>,
): AdmittedScope {
  const mounts = scope.sandbox.mounts.map(({ source, ...mount }) => ({
    ...mount,
    hostPath: record.mounts[source.path] ?? source.path,
  }));
  const { layers, image } = agentPartsOf(scope, stages);
  const { prepared: _, ...sandbox } = scope.sandbox;
  const text = namePreparedSandbox(scope.sandbox);
  const from = text === null ? undefined : record.prepared?.[text];
  return {
    ...scope,
    sandbox: {
      ...sandbox,
      mounts,
      ...(from === undefined ? {} : { from }),
      ...(layers.length === 0 ? {} : { layers }),
      ...(image === undefined ? {} : { image }),
    },
  };
}

/** Returns the outcome in the run's last event; null while the run has no terminal event. */
export async function endOf(events: EventLog, runId: string): Promise<RunOutcome | null> {
  const last = await events.find(runId, EVENT_ID.runFinished);
  return last?.body.type === 'run-finished' ? last.body.outcome : null;
}

/**
 * Checks that the workflow that scheduled this activity has the run's id: the server gives that id to only one open
 * workflow. An activity that a client schedules without a workflow has no workflow id.
 * @returns the id of the workflow's execution, which a reset changes
 * @throws CodedError `call/refused`
 */
export function assertCalledByRun(runId: unknown): { readonly executionId: string } {
  const { workflowExecution } = Context.current().info;
  if (typeof runId === 'string' && workflowExecution?.workflowId === runId)
    return { executionId: workflowExecution.runId };
  const caller =
    workflowExecution === undefined
      ? 'a client, without a workflow,'
      : `the workflow ${quote(workflowExecution.workflowId)}`;
  throw new CodedError(
    'call/refused',
    `${caller} asked for work of ${typeof runId === 'string' ? `run ${quote(runId)}` : 'no run'}, which only that run's own workflow may do`,
  );
}

/** The prefix of the workflow ids of windows, which execute the items of a stage. */
export const ITEMS_ID_PREFIX = 'items/';
const MOST_KNOWN_WINDOWS = 5_000;

export interface Callers {
  /**
   * @throws CodedError `call/refused` unless the caller is the run's own workflow, or a window that descends from it
   */
  check(runId: unknown): Promise<void>;
}

/**
 * Asks the server once for each execution that is not the run's own. The answer is proof, because only a workflow
 * itself can start children.
 */
export function createCallers(parentOf: ParentOf): Callers {
  const known = new Map<string, ParentExecution>();
  const parentIn = async ({ workflowId, executionId }: ParentExecution): Promise<ParentExecution | null> => {
    const parent = known.get(executionId) ?? (await parentOf(workflowId, executionId));
    if (parent === null) return null;
    if (known.size >= MOST_KNOWN_WINDOWS) known.clear();
    known.set(executionId, parent);
    return parent;
  };
  /** Follows the parents up to the greatest depth of nested lists. */
  const isBelow = async (runId: string, child: ParentExecution): Promise<boolean> => {
    let at: ParentExecution | null = child;
    for (let depth = 0; depth < INSTANCE_LIMITS.depth; depth += 1) {
      at = await parentIn(at);
      if (at?.workflowId === runId) return true;
      if (at?.workflowId.startsWith(ITEMS_ID_PREFIX) !== true) return false;
    }
    return false;
  };
  return {
    async check(runId) {
      const { workflowExecution } = Context.current().info;
      if (workflowExecution?.workflowId.startsWith(ITEMS_ID_PREFIX) !== true || typeof runId !== 'string')
        return void assertCalledByRun(runId);
      const { workflowId, runId: executionId } = workflowExecution;
      // Nearly all calls of items return here.
      if (known.get(executionId)?.workflowId === runId) return;
      if (!(await isBelow(runId, { workflowId, executionId }))) assertCalledByRun(runId);
    },
  };
}
