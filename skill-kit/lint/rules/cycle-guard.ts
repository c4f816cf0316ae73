import { components, type Edges } from '../../../domain/step-machine/graph.ts';
import type { Rule } from '../rule.ts';

export const cycleGuard = {
  code: 'cycle-guard',
  severity: 'warning',
  about:
    'steps lead to each other in a circle and none of them has `maxVisits`, so that the session fails at the tenth visit',
  remedy: 'Give one of them maxVisits, and onMaxVisits to say where to go then.',
  check: {
    // One limit in a circle bounds the whole circle.
    skill({ definition: { steps }, edges }, tell) {
      const open = Object.keys(steps).filter((step) => steps[step]!.config.maxVisits === undefined);
      const isOpen = new Set(open);
      const unbounded: Edges = new Map(
        open.map((step) => [step, edges.get(step)!.filter((target) => isOpen.has(target))]),
      );
      for (const members of components(unbounded)) {
        if (members.length === 1 && !unbounded.get(members[0]!)!.includes(members[0]!)) continue;
        const inOrder = open.filter((step) => members.includes(step));
        const [step] = inOrder as [string, ...string[]];
        tell(messageOf(inOrder), { step });
      }
    },
  },
} as const satisfies Rule;

function messageOf(steps: readonly string[]): string {
  const names = steps.map((step) => `"${step}"`).join(', ');
  return steps.length === 1
    ? `Step ${names} leads to itself without maxVisits.`
    : `Steps ${names} lead to each other without maxVisits.`;
}
