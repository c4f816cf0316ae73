/** Warns about an agent whose command line has no price for its model: the agent continues, and its cost is unknown. */
import type { AgentOutcome } from '../../../agents/stream.ts';
import { describeMissingPrice } from '../../../domain/agent/budget.ts';
import type { AgentWork } from '../../../domain/plan/plan.ts';
import { EVENT_ID } from '../../../domain/run/event-id.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import type { ActivityDeps } from '../../deps.ts';
import type { StageRequest } from '../../calls/requests.ts';

/** Warns once per attempt, whatever the number of its commands. */
export async function warnOfUnpricedModels(
  deps: Pick<ActivityDeps, 'events' | 'now'>,
  { runId, execKey, stage }: StageRequest,
  { llm, budget }: Pick<AgentWork, 'llm' | 'budget'>,
  { unpricedModels = [] }: Pick<AgentOutcome, 'unpricedModels'>,
): Promise<void> {
  if (unpricedModels.length === 0 || llm?.price !== undefined) return;
  const unlimited = budget?.maxCostUsd === undefined ? '' : ', so its `max_cost_usd` limits nothing';
  const message = `the cost of the agent of stage ${stage.id} is unknown${unlimited}: ${describeMissingPrice(unpricedModels)}`;
  await deps.events.append(runId, [
    {
      id: EVENT_ID.attempt(execKey, 'unpriced'),
      atMs: deps.now(),
      body: { type: 'notice', level: 'warning', message: sanitizeLine(message) },
    },
  ]);
}
