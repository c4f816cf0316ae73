/** Renders the tokens and the cost of agents, for a stage and for a run. */
import { type AgentTotals, agentTotals } from '../../../app/json/agent-totals.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import type { RunView, StageView } from '../../../store/run-view.ts';

const MOST_NAMES = 8;

/** `12,345 in, 678 out · $0.0123`; `at least …` or `unknown` for an agent that was cut off. */
export function renderTotals({
  inputTokens,
  outputTokens,
  costUsd,
  isIncomplete = false,
}: Omit<AgentTotals, 'isIncomplete'> & Partial<AgentTotals>): string {
  if (isIncomplete && inputTokens + outputTokens === 0) return 'unknown';
  const least = isIncomplete ? 'at least ' : '';
  const tokens = `${least}${inputTokens.toLocaleString('en-US')} in, ${outputTokens.toLocaleString('en-US')} out`;
  return costUsd === null ? tokens : `${tokens} · ${renderCost(costUsd)}`;
}

export function renderCost(costUsd: number): string {
  return `$${costUsd.toFixed(costUsd >= 1 ? 2 : 4)}`;
}

/** For the line of a stage. */
export function agentNotes(stage: StageView, { mockAgents }: Pick<RunView, 'mockAgents'>): readonly string[] {
  const totals = agentTotals({ stages: [stage] });
  return [
    ...(mockAgents.includes(stage.id) ? ['mock agent'] : []),
    ...(totals === null ? [] : [`tokens ${renderTotals(totals)}`]),
  ];
}

export function mockAgentsText({ mockAgents }: Pick<RunView, 'mockAgents'>): string {
  const shown = mockAgents.slice(0, MOST_NAMES).map(sanitizeLine).join(', ');
  return mockAgents.length > MOST_NAMES ? `${shown} and ${mockAgents.length - MOST_NAMES} more` : shown;
}
