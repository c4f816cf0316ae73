/**
 * Retries with `continue`: parses the request, and selects the saves of the earlier run from which its agents continue.
 */
import { CodedError } from '../../domain/errors/coded-error.ts';
import { continuingIn } from '../../domain/pipeline/continue.ts';
import type { Reuse } from '../../domain/pipeline/reuse.ts';
import {
  findChangedLimits,
  type ChangedLimits,
  isLimit,
  joinLimits,
  LIMIT_RANGES,
  withLimits,
} from '../../domain/plan-rules/agent-limits.ts';
import type { DataRef, Plan } from '../../domain/plan/plan.ts';
import { type ContinuedAgent, readAttemptSeries, type SavedAgent } from '../../domain/run/agent-saves.ts';
import { type AgentLimits, type ContinueRequest, MOST_FRESH, type RunOrigin } from '../../domain/run/origin.ts';
import type { ActivityDeps } from '../deps.ts';
import { quote } from '../../domain/units/quote.ts';

const FRESH_CHARACTERS = 512;

/**
 * Parses `continue`; `true` means `{}`. Returns null if the agents do not continue.
 * @throws CodedError `admit/invalid`
 */
export function continueIn(value: unknown): ContinueRequest | null {
  if (value === undefined || value === null || value === false) return null;
  if (value === true) return {};
  const { fresh, ...limits } = value as Partial<Record<keyof ContinueRequest, unknown>>;
  const isList =
    Array.isArray(fresh) &&
    fresh.length <= MOST_FRESH &&
    fresh.every((name) => typeof name === 'string' && name.length <= FRESH_CHARACTERS);
  if (typeof value !== 'object' || Array.isArray(value) || (fresh !== undefined && !isList))
    throw new CodedError(
      'admit/invalid',
      '`continue` of `origin` must be true or {"fresh":["a stage"],"timeoutMs":n,"maxCostUsd":n,"maxTokens":n,"maxTurns":n}',
    );
  return { ...(isList ? { fresh: fresh as readonly string[] } : {}), ...agentLimitsIn(limits) };
}

function agentLimitsIn(fields: Partial<Record<string, unknown>>): AgentLimits {
  const limits = Object.entries(fields).map(([name, value]) => {
    if (!Object.hasOwn(LIMIT_RANGES, name))
      throw new CodedError('admit/invalid', `\`continue\` of \`origin\` has no ${quote(name)}`);
    const limit = name as keyof AgentLimits;
    if (isLimit(limit, value)) return [limit, value] as const;
    const { min, max } = LIMIT_RANGES[limit];
    throw new CodedError('admit/invalid', `\`${limit}\` of \`continue\` must be a number from ${min} to ${max}`);
  });
  return Object.fromEntries(limits);
}

export interface ContinuedRun {
  /** The plan with the limits of the request. */
  readonly plan: Plan;
  /** Fields of the admission record. */
  readonly continued: {
    readonly continued?: Readonly<Record<string, ContinuedAgent>>;
    readonly limits?: ChangedLimits;
  };
}

export interface EarlierContinued {
  readonly continued: Readonly<Record<string, ContinuedAgent>>;
  readonly limits?: ChangedLimits;
}

/**
 * Claims the saves of the earlier run for a retry, so that no prune deletes them before the new run's records name
 * them.
 * @param reuse computed from plans without the limits of the request
 * @throws CodedError `origin/no-save`, `origin/output-gone`
 */
export async function continueAgents(
  { reader, artifacts }: Pick<ActivityDeps, 'reader' | 'artifacts'>,
  { runId, kind, continue: request }: RunOrigin,
  plan: Plan,
  { reuse, earlier }: { readonly reuse: Reuse; readonly earlier: EarlierContinued },
): Promise<ContinuedRun> {
  const kept = kind === 'retry' ? earlier.limits : undefined;
  if (request === undefined) return { plan, continued: kept === undefined ? {} : { limits: kept } };
  const attempts = await readAttemptSeries(runId, reader.read(runId, 0, { output: false }));
  const { agents, problems } = continuingIn(plan, reuse, { attempts, continued: earlier.continued }, request);
  if (problems.length > 0)
    throw new CodedError('origin/no-save', `a retry of ${quote(runId)} cannot continue: ${problems.join('; ')}`);
  for (const { name, agent } of agents.values()) await claimSave({ artifacts }, name, agent);
  const stages = new Set([...agents.values()].map(({ stage }) => stage));
  const changed = findChangedLimits(plan, stages, request);
  const limits = joinLimits(kept, changed);
  return {
    plan: withLimits(plan, changed),
    continued: {
      continued: Object.fromEntries([...agents].map(([series, { agent }]) => [series, agent])),
      ...(limits === undefined ? {} : { limits }),
    },
  };
}

async function claimSave(
  { artifacts }: Pick<ActivityDeps, 'artifacts'>,
  name: string,
  agent: ContinuedAgent,
): Promise<void> {
  for (const ref of refsOf(agent)) {
    if (await artifacts.claim(ref)) continue;
    throw new CodedError(
      'origin/output-gone',
      `what was saved of the agent of stage ${name} in run ${quote(agent.runId)} (artifact ${ref.sha256}) has been deleted: restart it with \`--fresh ${name}\``,
    );
  }
}

/** The artifacts of a save. */
function refsOf({ folders }: SavedAgent): readonly DataRef[] {
  return folders.flatMap(({ ref, changes }) => (changes?.removed === undefined ? [ref] : [ref, changes.removed]));
}
