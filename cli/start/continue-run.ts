/** `voidbox retry RUN --continue`: its options, and which agents of the earlier run continue. */
import { InvalidArgumentError } from 'commander';
import type { Command } from 'commander';
import { type Continuing, continuingIn } from '../../domain/pipeline/continue.ts';
import type { Reuse } from '../../domain/pipeline/reuse.ts';
import { changedLimits, type ChangedLimits, isLimit, LIMIT_RANGES } from '../../domain/plan-rules/agent-limits.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { readAttemptSeries } from '../../domain/run/agent-saves.ts';
import type { AgentLimits, ContinueRequest } from '../../domain/run/origin.ts';
import { parseDurationMs } from '../../domain/units/duration.ts';
import { CliError, usageError } from '../cli-error.ts';
import type { CliContext } from '../context.ts';
import { continueRemedies } from './continue-remedies.ts';
import { EXIT } from '../exit-code.ts';
import type { RecordedRun } from '../runs/recorded-run.ts';
import { shownRunId, typedCommand } from '../runs/run-id.ts';

export interface ContinueOptions {
  readonly continue?: boolean;
  readonly fresh?: readonly string[];
  readonly agentTimeout?: number;
  readonly maxCostUsd?: number;
  readonly maxTokens?: number;
  readonly maxTurns?: number;
}

export interface ContinuedPlan {
  readonly agents: Continuing['agents'];
  /** The limits that the options change; without stages: no change. */
  readonly changed: ChangedLimits;
}

export function addContinueOptions(command: Command): void {
  command
    .option(
      '--continue',
      'agents that did not succeed continue their saved sessions and files, with their limits counted from zero',
    )
    .option(
      '--fresh <stage>',
      'with --continue: the agent of this stage, or of one item (`fixes[1].work`), starts from its beginning; repeatable',
      (stage: string, before?: readonly string[]) => [...(before ?? []), stage],
    )
    .option(
      '--agent-timeout <duration>',
      'with --continue: time limit of each agent that continues: 90s, 2h',
      parseTimeout,
    )
    .option(
      '--max-cost-usd <dollars>',
      'with --continue: most cost of each agent that continues',
      limitOf('maxCostUsd'),
    )
    .option('--max-tokens <number>', 'with --continue: most tokens of each agent that continues', limitOf('maxTokens'))
    .option('--max-turns <number>', 'with --continue: most calls of the model, likewise', limitOf('maxTurns'));
}

function parseTimeout(text: string): number {
  const ms = parseDurationMs(text);
  if (isLimit('timeoutMs', ms)) return ms;
  throw new InvalidArgumentError('It must be a number with s, m, h or d, such as 90s or 2h, from 1s to 7d.');
}

function limitOf(name: keyof typeof LIMIT_RANGES): (text: string) => number {
  return (text) => {
    const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
    if (isLimit(name, value)) return value;
    const { min, max, integer } = LIMIT_RANGES[name];
    throw new InvalidArgumentError(`It must be a ${integer ? 'whole ' : ''}number from ${min} to ${max}.`);
  };
}

/** Returns the request of the options; null if the agents do not continue. @throws CliError for options that need `--continue` */
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
  throw usageError(
    '`--fresh`, `--agent-timeout`, `--max-cost-usd`, `--max-tokens` and `--max-turns` of `retry` are for agents that continue',
    `Add --continue, or change the limits in the spec and start a fork: ${typedCommand('fork', typedRun, { names: 'FILE' })}`,
  );
}

/** @throws CliError what admission would refuse, before anything is started */
export async function continuedPlan(
  { runId, continued }: RecordedRun,
  { plan, reuse }: { readonly plan: Plan; readonly reuse: Reuse },
  request: ContinueRequest,
  context: CliContext,
): Promise<ContinuedPlan> {
  const { reader } = await context.stores();
  const attempts = await readAttemptSeries(runId, reader.read(runId, 0, { output: false }));
  const continuing = continuingIn(plan, reuse, { attempts, continued }, request);
  const { agents, problems } = continuing;
  if (problems.length > 0) throw cannotContinue(runId, continuing, request);
  return { agents, changed: changedLimits(plan, new Set([...agents.values()].map(({ stage }) => stage)), request) };
}

function cannotContinue(runId: string, continuing: Continuing, request: ContinueRequest): CliError {
  return new CliError(
    EXIT.usage,
    'origin/no-save',
    `run ${shownRunId(runId)} cannot be continued: ${continuing.problems.join('; ')}`,
    continueRemedies(runId, continuing, request).join('\n'),
  );
}
