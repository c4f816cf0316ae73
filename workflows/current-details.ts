/** The run's board in the Temporal UI: a markdown table of its stages. */
import type { Plan } from '../domain/plan/plan.ts';
import type { RunState, StagePhase } from '../domain/pipeline/state.ts';

/** A board longer than this is not read; what runs and what failed comes first. */
const MOST_ROWS = 60;

const ORDER: Readonly<Record<StagePhase, number>> = { failed: 0, running: 1, backoff: 2, ready: 3, cancelled: 4, waiting: 5, succeeded: 6, skipped: 7 };

export function stageTable(plan: Plan, state: RunState): string {
  const counts = new Map<StagePhase, number>();
  for (const { phase } of state.stages) counts.set(phase, (counts.get(phase) ?? 0) + 1);
  const summary = [...counts]
    .sort(([a], [b]) => ORDER[a] - ORDER[b])
    .map(([phase, count]) => `${count} ${phase}`)
    .join(', ');
  const shown = firstOf(state, plan.stages.length);
  const rows = shown.map((index) => {
    const { phase, attempt } = state.stages[index]!;
    return `| ${plan.stages[index]!.id} | ${phase} | ${attempt === 0 ? '' : attempt} |`;
  });
  const rest = plan.stages.length - shown.length;
  return [`**${plan.name}**: ${summary}`, '', '| stage | state | attempt |', '|---|---|---|', ...rows, ...(rest > 0 ? ['', `and ${rest} more`] : [])].join(
    '\n',
  );
}

/** Stages that need a look before others, each kind in the plan's order. One pass: it is made anew with each workflow task. */
function firstOf(state: RunState, count: number): readonly number[] {
  if (count <= MOST_ROWS) return state.stages.map((_, index) => index);
  const byPhase = Object.keys(ORDER).map((): number[] => []);
  state.stages.forEach(({ phase }, index) => {
    const same = byPhase[ORDER[phase]]!;
    if (same.length < MOST_ROWS) same.push(index);
  });
  return byPhase.flat().slice(0, MOST_ROWS);
}
