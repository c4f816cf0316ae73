/** `voidbox status`: what agents of items have used, and may take. */
import { listAgents } from '../../../store/item-agents.ts';
import type { ItemAgent, RunView } from '../../../store/run-view.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { renderTotals } from './agent-usage.ts';
import { budgetOfItem } from '../../../app/json/budget-json.ts';
import { renderBudget } from './budget.ts';
import { stateSign } from '../host/state-sign.ts';
import type { Style } from '../text/style.ts';
import { displayWidth, padEnd, truncate } from '../text/width.ts';

/** Renders one line for each agent, at most as many for each list as the view has. */
export function renderItemAgents(
  { stages }: Pick<RunView, 'stages'>,
  { style, width }: { readonly style: Style; readonly width: number },
): string[] {
  return stages.flatMap(({ id, items }) => {
    if (items?.agents === undefined) return [];
    const { attempts } = items.agents;
    const shown = listAgents(items.agents);
    const nameWidth = Math.min(Math.max(...shown.map(({ name }) => displayWidth(sanitizeLine(name)))), 40);
    const more = attempts - shown.length;
    return [
      '',
      ...shown.map((agent) => truncate(renderItemAgent(agent, nameWidth, style), width)),
      ...(more > 0
        ? [
            style.dim(
              `  … and ${more.toLocaleString('en-US')} more ${more === 1 ? 'attempt' : 'attempts'} of agents of ${sanitizeLine(id)}; those that are nearest to their limits are shown`,
            ),
          ]
        : []),
    ];
  });
}

function renderItemAgent(agent: ItemAgent, nameWidth: number, style: Style): string {
  const { name, state, attempt, used } = agent;
  const budget = budgetOfItem(agent);
  const notes = [
    `tokens ${renderTotals(used)}`,
    ...(budget === null ? [] : [`budget ${renderBudget(budget)}`]),
    ...(attempt === 1 ? [] : [`attempt ${attempt}`]),
  ].join(', ');
  return `${stateSign(state, style)} ${padEnd(truncate(sanitizeLine(name), nameWidth), nameWidth)}  ${style.dim(notes)}`;
}
