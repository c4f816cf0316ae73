/** Renders the saves that the agents of a retry with `--continue` get back, and their limits, before the retry starts. */
import type { ContinuingAgent } from '../../../domain/pipeline/continue.ts';
import { withLimits } from '../../../domain/plan-rules/agent-limits.ts';
import type { BudgetPlan, Plan } from '../../../domain/plan/plan.ts';
import { stageOfPlan } from '../../../domain/plan/item-parts.ts';
import type { ContinuedAgent } from '../../../domain/run/agent-saves.ts';
import { withoutPartial } from '../../../domain/run/partial-work.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { sumCounts } from '../../../domain/agent/budget.ts';
import { formatBytes } from '../../../domain/units/bytes.ts';
import { formatAge, formatDurationMs } from '../../../domain/units/duration.ts';
import type { ContinuedPlan } from '../../../app/start/continue-run.ts';
import type { Style } from '../text/style.ts';

/** Agents of one list; more are counted. */
const MOST_SHOWN = 20;

/** @param plan  without the new limits */
export function renderContinued(
  plan: Plan,
  { agents, changed }: ContinuedPlan,
  nowMs: number,
  style: Style,
): readonly string[] {
  const all = [...agents.values()];
  return [
    ...all
      .slice(0, MOST_SHOWN)
      .flatMap(({ name, agent }) => [
        `  continues: ${style.bold(sanitizeLine(name))}, ${backOf(agent, nowMs)}`,
        ...(agent.ended === null ? [] : [`    after: ${endOf(agent.ended)}`]),
      ]),
    ...(all.length > MOST_SHOWN ? [`  continues: ${all.length - MOST_SHOWN} more`] : []),
    ...limitLines(plan, all, withLimits(plan, changed)).map((line) => `  ${line}`),
    style.dim('  times and budgets count from zero, without the usage of the earlier run'),
  ];
}

function endOf({ code, message }: NonNullable<ContinuedAgent['ended']>): string {
  return `${sanitizeLine(withoutPartial(message))} (${sanitizeLine(code)})`;
}

function backOf(agent: ContinuedAgent, nowMs: number): string {
  const { turns, savedAtMs } = agent;
  const { leftOutCount } = filesOf(agent);
  const session =
    turns === null || turns === 0 ? 'its session' : `its session of ${formatCount(turns, 'turn', 'turns')}`;
  const left = leftOutCount === 0 ? [] : [`without ${formatCount(leftOutCount, 'ignored file', 'ignored files')}`];
  return `with ${[session, ...changesOf(agent), ...left].join(', ')}, saved ${formatAge(nowMs - savedAtMs)}`;
}

function changesOf(agent: ContinuedAgent): readonly string[] {
  const { changedFiles, deletedFiles, sizeBytes } = filesOf(agent);
  if (changedFiles === null) return [`${formatBytes(sizeBytes)} of files`];
  const deleted = deletedFiles === 0 ? [] : [formatCount(deletedFiles, 'deleted file', 'deleted files')];
  return [formatCount(changedFiles, 'changed file', 'changed files'), ...deleted];
}

function formatCount(count: number, one: string, many: string): string {
  return `${count} ${count === 1 ? one : many}`;
}

interface SavedFiles {
  /** Null: the save has whole folders, so that no count is known. */
  readonly changedFiles: number | null;
  readonly deletedFiles: number;
  readonly leftOutCount: number;
  readonly sizeBytes: number;
}

function filesOf({ folders }: ContinuedAgent): SavedFiles {
  const changes = folders.flatMap((folder) => (folder.changes === undefined ? [] : [folder.changes]));
  return {
    changedFiles: changes.length === 0 ? null : sumCounts(...changes.map(({ fileCount }) => fileCount)),
    deletedFiles: sumCounts(...changes.map(({ removedCount }) => removedCount)),
    leftOutCount: sumCounts(...changes.map(({ leftOutCount }) => leftOutCount)),
    sizeBytes: sumCounts(...folders.map(({ ref }) => ref.sizeBytes)),
  };
}

function limitLines(plan: Plan, agents: readonly ContinuingAgent[], next: Plan): readonly string[] {
  const ofStages = [...new Set(agents.map(({ stage }) => stage))].slice(0, MOST_SHOWN).flatMap((id) => {
    const limits = differences(limitsOf(plan, id), limitsOf(next, id));
    return limits.length === 0 ? [] : [`limits of ${sanitizeLine(id)}: ${limits.join(', ')}`];
  });
  const ofRun = differences(plan, next);
  return [...ofStages, ...(ofRun.length === 0 ? [] : [`limits of the run: ${ofRun.join(', ')}`])];
}

interface Limits {
  readonly timeoutMs?: number | undefined;
  readonly budget?: BudgetPlan | undefined;
}

function limitsOf(plan: Plan, id: string): Limits {
  const stage = stageOfPlan(plan, id);
  const budget = stage?.work.kind === 'agent' ? stage.work.budget : undefined;
  return { timeoutMs: stage?.timeoutMs, budget };
}

function differences(one: Limits, next: Limits): readonly string[] {
  const dollars = (usd: number): string => `$${usd}`;
  return [
    ...difference(one.timeoutMs, next.timeoutMs, formatDurationMs),
    ...difference(one.budget?.maxCostUsd, next.budget?.maxCostUsd, dollars),
    ...difference(one.budget?.maxTokens, next.budget?.maxTokens, (count) => formatCount(count, 'token', 'tokens')),
    ...difference(one.budget?.maxTurns, next.budget?.maxTurns, (count) => formatCount(count, 'turn', 'turns')),
  ];
}

function difference(one: number | undefined, next: number | undefined, write: (value: number) => string): string[] {
  if (next === undefined || one === next) return [];
  return [`${write(next)} (before: ${one === undefined ? 'none' : write(one)})`];
}

/** Fields of `--json` of a run whose agents continue; none of another run. */
export function toContinuedJson(continued: ContinuedPlan | null): {
  readonly continued?: readonly Readonly<Record<string, unknown>>[];
  readonly limits?: ContinuedPlan['changed'];
} {
  if (continued === null) return {};
  const agents = [...continued.agents.values()].map(({ name, agent }) => {
    const { runId, execKey, savedAtMs, sessionId, turns, ended } = agent;
    return {
      stage: name,
      runId,
      attempt: execKey,
      savedAt: new Date(savedAtMs).toISOString(),
      sessionId,
      turns,
      ...filesOf(agent),
      ended,
    };
  });
  return { continued: agents, limits: continued.changed };
}
