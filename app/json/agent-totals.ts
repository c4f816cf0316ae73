/** The tokens and the cost of the agents of a run or a stage. */
import type { RunView } from '../../store/run-view.ts';

export interface AgentTotals {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Null: no stream reports a cost. */
  readonly costUsd: number | null;
  /** An agent was interrupted before its stream reported its whole usage, so the figures are minimums. */
  readonly isIncomplete: boolean;
}

/** Sums the usage of all agents; null if no agent has reported usage. */
export function agentTotals({ stages }: Pick<RunView, 'stages'>): AgentTotals | null {
  const used = stages.map(({ usage }) => usage).filter(({ turns }) => turns !== undefined);
  if (used.length === 0) return null;
  const sum = (name: string): number => used.reduce((total, usage) => total + (usage[name] ?? 0), 0);
  const isPriced = used.some(({ costUsd }) => costUsd !== undefined);
  return {
    inputTokens: sum('inputTokens'),
    outputTokens: sum('outputTokens'),
    costUsd: isPriced ? sum('costUsd') : null,
    isIncomplete: sum('partlyCounted') > 0,
  };
}
