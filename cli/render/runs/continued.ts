/** Renders the saves that the agents of a retry with `--continue` get back, and their limits, before the retry starts. */
import { withLimits } from '../../../domain/plan-rules/agent-limits.ts';
import type { BudgetPlan, Plan } from '../../../domain/plan/plan.ts';
import { stageOfPlan } from '../../../domain/plan/item-parts.ts';
import { withoutPartial } from '../../../domain/run/partial-work.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { formatBytes } from '../../../domain/units/bytes.ts';
import { formatAge, formatDurationMs } from '../../../domain/units/duration.ts';
import type { ContinuedAgentJson, ContinuedJson } from '../../../app/json/continued-json.ts';
import type { Style } from '../text/style.ts';

/** Agents of one list; more are counted. */
const MOST_SHOWN = 20;

/** @param plan  without the new limits */
export function renderContinued(
  plan: Plan,
  { continued, limits }: ContinuedJson,
  nowMs: number,
  style: Style,
): readonly string[] {
  return [
    ...continued
      .slice(0, MOST_SHOWN)
      .flatMap((agent) => [
        `  continues: ${style.bold(sanitizeLine(agent.stage))}, ${backOf(agent, nowMs)}`,
        ...(agent.ended === null ? [] : [`    after: ${endOf(agent.ended)}`]),
      ]),
    ...(continued.length > MOST_SHOWN ? [`  continues: ${continued.length - MOST_SHOWN} more`] : []),
    ...limitLines(plan, limits).map((line) => `  ${line}`),
    style.dim('  times and budgets count from zero, without the usage of the earlier run'),
  ];
}

function endOf({ code, message }: NonNullable<ContinuedAgentJson['ended']>): string {
  return `${sanitizeLine(withoutPartial(message))} (${sanitizeLine(code)})`;
}

function backOf(agent: ContinuedAgentJson, nowMs: number): string {
  const { turns, savedAt, leftOutCount } = agent;
  const session =
    turns === null || turns === 0 ? 'its session' : `its session of ${formatCount(turns, 'turn', 'turns')}`;
  const left = leftOutCount === 0 ? [] : [`without ${formatCount(leftOutCount, 'ignored file', 'ignored files')}`];
  return `with ${[session, ...changesOf(agent), ...left].join(', ')}, saved ${formatAge(nowMs - Date.parse(savedAt))}`;
}

function changesOf({ changedFiles, deletedFiles, sizeBytes }: ContinuedAgentJson): readonly string[] {
  if (changedFiles === null) return [`${formatBytes(sizeBytes)} of files`];
  const deleted = deletedFiles === 0 ? [] : [formatCount(deletedFiles, 'deleted file', 'deleted files')];
  return [formatCount(changedFiles, 'changed file', 'changed files'), ...deleted];
}

function formatCount(count: number, one: string, many: string): string {
  return `${count} ${count === 1 ? one : many}`;
}

function limitLines(plan: Plan, changed: ContinuedJson['limits']): readonly string[] {
  const next = withLimits(plan, changed);
  const ofStages = Object.keys(changed.stages)
    .slice(0, MOST_SHOWN)
    .flatMap((id) => {
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
