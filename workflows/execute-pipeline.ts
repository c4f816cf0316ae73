/** Runs a pipeline as a child of any workflow. */
import {
  ApplicationFailure,
  ChildWorkflowCancellationType,
  ChildWorkflowFailure,
  executeChild,
  ParentClosePolicy,
  proxyActivities,
  uuid4,
  WorkflowIdReusePolicy,
} from '@temporalio/workflow';
import type { CommandActivities } from '../activities/contract-command.ts';
import type { RunRequest } from '../activities/contract.ts';
import { PLAN_LIMITS, type DataRef, type Plan } from '../domain/plan/plan.ts';
import { countPlanBytes, toWire } from '../domain/plan/wire.ts';
import { type AnyErrorCode, toErrorCode } from '../domain/errors/error-code.ts';
import type { RunOutcome } from '../domain/run/event.ts';
import { runIdOf } from '../domain/run/new-run-id.ts';
import { ACTIVITY_OPTIONS } from './activity-options.ts';
import { workflowFailure } from './failure.ts';
import { RUN_WORKFLOW_TYPE } from './messages.ts';
import { summaryOf } from './summary.ts';

/** Short, because the host of the run has just written the output. */
const READ_LIMIT_MS = 300_000;

const { readOutput } = proxyActivities<CommandActivities>(ACTIVITY_OPTIONS.admit);

/** A plan, compiled outside of the workflow, or the text of a spec, which the run's first activity compiles. */
export type PipelineSource =
  | Plan
  | { readonly spec: string; readonly params?: Readonly<Record<string, string>>; readonly name?: string };

export interface ExecuteOptions {
  /** The run's id. An id that was used before is refused. Default: the plan's name, the time, and a random suffix. */
  readonly workflowId?: string;
  /** A task queue whose workers have `voidboxRun`; default: the queue of the parent. */
  readonly taskQueue?: string;
  /**
   * JSON, which the first stages find in `/workspace/input.json`. History contains it, so at most 1 MiB is accepted.
   */
  readonly input?: unknown;
  /** Reads the beginning of the output into the result. This needs a queue whose workers have the plugin. */
  readonly withText?: boolean;
  readonly memo?: Readonly<Record<string, unknown>>;
  /** One line that the Temporal UI shows for the run. */
  readonly summary?: string;
}

export interface PipelineResult {
  readonly runId: string;
  /** The result of the pipeline, in the artifact store of the host that ran it: `voidbox result RUN` there. */
  readonly output: DataRef | null;
  /** With `withText`: its first 2 KiB as text, and whether there is more. */
  readonly text?: string;
  readonly isTextCut?: boolean;
}

/**
 * Runs a pipeline to its end. If this workflow is cancelled, terminated or closed, the pipeline is cancelled, and its
 * VMs end.
 * @throws ChildWorkflowFailure when it fails (`pipelineFailure` returns the reason) or is cancelled
 */
export async function executePipeline(source: PipelineSource, options: ExecuteOptions = {}): Promise<PipelineResult> {
  const name = 'spec' in source ? (source.name ?? 'run') : source.name;
  const { workflowId = runIdOf(name, new Date(), uuid4().slice(0, 8)), taskQueue, memo } = options;
  const request = { ...buildRunRequest(source), ...input(options.input) };
  const outcome = await executeChild<(request: RunRequest) => Promise<RunOutcome>>(RUN_WORKFLOW_TYPE, {
    workflowId,
    args: [request],
    // The id of a run is the key of its records, so it cannot be used twice.
    workflowIdReusePolicy: WorkflowIdReusePolicy.REJECT_DUPLICATE,
    // A terminated run writes no end, and its VMs would run until a janitor finds them.
    parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
    cancellationType: ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
    staticSummary: summaryOf(options.summary ?? name),
    ...(taskQueue === undefined ? {} : { taskQueue }),
    ...(memo === undefined ? {} : { memo: { ...memo } }),
  });
  const { output } = outcome;
  const result = { runId: workflowId, output };
  if (options.withText !== true) return result;
  if (output === null) return { ...result, text: '', isTextCut: false };
  const { text, isCut } = await readOutput.executeWithOptions(
    {
      ...ACTIVITY_OPTIONS.admit,
      scheduleToCloseTimeout: READ_LIMIT_MS,
      summary: summaryOf(`read the output of ${name}`),
      ...(taskQueue === undefined ? {} : { taskQueue }),
    },
    [{ runId: workflowId, output }],
  );
  return { ...result, text, isTextCut: isCut };
}

function buildRunRequest(source: PipelineSource): RunRequest {
  if ('spec' in source) {
    const { spec, params } = source;
    return { spec, ...(params === undefined ? {} : { params }) };
  }
  const bytes = countPlanBytes(source);
  if (bytes <= PLAN_LIMITS.inlinePlanBytes) return { plan: toWire(source) };
  throw workflowFailure(
    'run/too-large',
    `the plan ${source.name} has ${bytes} bytes; as the argument of a child workflow it may have ${PLAN_LIMITS.inlinePlanBytes}: split it`,
  );
}

function input(value: unknown): Pick<RunRequest, 'input'> {
  return value === undefined ? {} : { input: { kind: 'inline', text: JSON.stringify(value) } };
}

export interface PipelineFailure {
  /** An error code from docs/reference/errors.md. */
  readonly code: AnyErrorCode;
  readonly message: string;
  /** The first stage that failed; null: the reason is not a stage. */
  readonly stage: string | null;
  /** Last lines of that stage's standard error. */
  readonly stderrTail: string;
}

/** Returns why a pipeline failed, from the error of `executePipeline`; null for all other errors, cancellations too. */
export function pipelineFailure(error: unknown): PipelineFailure | null {
  if (!(error instanceof ChildWorkflowFailure) || !(error.cause instanceof ApplicationFailure)) return null;
  const { type, message, details } = error.cause;
  const outcome = details?.[0] as Partial<RunOutcome> | null | undefined;
  return {
    code: toErrorCode(type),
    message,
    stage: outcome?.failedStage ?? null,
    stderrTail: outcome?.failure?.stderrTail ?? '',
  };
}
