/** The run's board in the Temporal UI: a markdown table of its stages. */
import type { MachinePlan } from '../../domain/pipeline/machine-plan.ts';
import { flatRows, rowAt } from '../../domain/pipeline/rows.ts';
import type { RunState, StagePhase, StageState } from '../../domain/pipeline/state.ts';

/** A board longer than this is not read; what runs and what failed comes first. */
const MOST_ROWS = 60;

const ORDER: Readonly<Record<StagePhase, number>> = {
  failed: 0,
  asking: 1,
  running: 2,
  backoff: 3,
  ready: 4,
  cancelled: 5,
  waiting: 6,
  succeeded: 7,
  passed: 8,
  skipped: 9,
};

export function stageTable(plan: MachinePlan, state: RunState): string {
  const counts = new Map<StagePhase, number>();
  const stages = flatRows(state.stages);
  for (const { phase } of stages) counts.set(phase, (counts.get(phase) ?? 0) + 1);
  const summary = [...counts]
    .sort(([a], [b]) => ORDER[a] - ORDER[b])
    .map(([phase, count]) => `${count} ${phase}`)
    .join(', ');
  const shown = firstOf(stages);
  const rows = shown.map((index) => {
    const { phase, attempt } = rowAt(state.stages, index);
    return `| ${plan.stages[index]!.id} | ${phase} | ${attempt === 0 ? '' : attempt} |`;
  });
  const rest = plan.stages.length - shown.length;
  return [
    `**${plan.name}**: ${summary}`,
    '',
    '| stage | state | attempt |',
    '|---|---|---|',
    ...rows,
    ...(rest > 0 ? ['', `and ${rest} more`] : []),
  ].join('\n');
}

/** Stages that need a look before others, each kind in the plan's order. One pass: it is made anew with each workflow task. */
function firstOf(stages: readonly StageState[]): readonly number[] {
  if (stages.length <= MOST_ROWS) return stages.map((_, index) => index);
  const byPhase = Object.keys(ORDER).map((): number[] => []);
  stages.forEach(({ phase }, index) => {
    const same = byPhase[ORDER[phase]]!;
    if (same.length < MOST_ROWS) same.push(index);
  });
  return byPhase.flat().slice(0, MOST_ROWS);
}
