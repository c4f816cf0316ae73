/** Which agents of an earlier run continue in a retry. */
import { type Continuation, continuingIn } from '../../domain/pipeline/continue.ts';
import type { Reuse } from '../../domain/pipeline/reuse.ts';
import { findChangedLimits, type ChangedLimits } from '../../domain/plan-rules/agent-limits.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { readAttemptSeries } from '../../domain/run/agent-saves.ts';
import type { AgentLimits, ContinueRequest } from '../../domain/run/origin.ts';
import { AppError, createUsageError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { continueRemedies } from './continue-remedies.ts';
import type { RecordedRun } from '../runs/recorded-run.ts';
import { formatRunId, renderCommand } from '../runs/run-id.ts';

export interface ContinueOptions {
  readonly continue?: boolean;
  readonly fresh?: readonly string[];
  readonly agentTimeout?: number;
  readonly maxCostUsd?: number;
  readonly maxTokens?: number;
  readonly maxTurns?: number;
}

export interface ContinuedPlan {
  readonly agents: Continuation['agents'];
  /** The limits that the options change; without stages: no change. */
  readonly changed: ChangedLimits;
}

/** Returns the request of the options; null if the agents do not continue. @throws AppError for options that need `--continue` */
export function continueRequest(
  { continue: isAsked = false, fresh, agentTimeout, maxCostUsd, maxTokens, maxTurns }: ContinueOptions,
  typedRun: string,
): ContinueRequest | null {
  const limits: AgentLimits = {
    ...(agentTimeout === undefined ? {} : { timeoutMs: agentTimeout }),
    ...(maxCostUsd === undefined ? {} : { maxCostUsd }),
    ...(maxTokens === undefined ? {} : { maxTokens }),
    ...(maxTurns === undefined ? {} : { maxTurns }),
  };
  if (isAsked) return { ...limits, ...(fresh === undefined ? {} : { fresh }) };
  if (fresh === undefined && Object.keys(limits).length === 0) return null;
  throw createUsageError(
    '`--fresh`, `--agent-timeout`, `--max-cost-usd`, `--max-tokens` and `--max-turns` of `retry` apply only to agents that continue',
    `Add --continue, or change the limits in the spec and start a fork: ${renderCommand('fork', typedRun, { names: 'FILE' })}`,
  );
}

/** @throws AppError for everything that admission would refuse, before anything is started */
export async function planContinuation(
  { runId, continued }: RecordedRun,
  { plan, reuse }: { readonly plan: Plan; readonly reuse: Reuse },
  request: ContinueRequest,
  context: Machine,
): Promise<ContinuedPlan> {
  const { reader } = await context.stores();
  const attempts = await readAttemptSeries(runId, reader.read(runId, 0, { output: false }));
  const continuing = continuingIn(plan, reuse, { attempts, continued }, request);
  const { agents, problems } = continuing;
  if (problems.length > 0) throw cannotContinue(runId, continuing, request);
  return { agents, changed: findChangedLimits(plan, new Set([...agents.values()].map(({ stage }) => stage)), request) };
}

function cannotContinue(runId: string, continuing: Continuation, request: ContinueRequest): AppError {
  return new AppError(
    'usage',
    'origin/no-save',
    `run ${formatRunId(runId)} cannot be continued: ${continuing.problems.join('; ')}`,
    continueRemedies(runId, continuing, request).join('\n'),
  );
}
