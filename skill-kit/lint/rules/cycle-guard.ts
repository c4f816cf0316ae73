import { IMPLICIT_MAX_VISITS } from '../../../domain/step-machine/facts.ts';
import { findComponents, type Edges } from '../../../domain/step-machine/graph.ts';
import type { Rule } from '../rule.ts';

const LIMIT = `the implicit limit of ${IMPLICIT_MAX_VISITS} visits applies.`;

export const cycleGuard = {
  code: 'cycle-guard',
  severity: 'warning',
  about:
    'steps form a cycle and none of them has `maxVisits`: the implicit limit of 10 visits applies to each, and the session fails when a step would exceed it',
  remedy: 'Give one of them maxVisits, and onMaxVisits with the step that follows then.',
  check: {
    // One limit in a circle bounds the whole circle.
    skill({ definition: { steps }, edges }, tell) {
      const open = Object.keys(steps).filter((step) => steps[step]!.config.maxVisits === undefined);
      const isOpen = new Set(open);
      const unbounded: Edges = new Map(
        open.map((step) => [step, edges.get(step)!.filter((target) => isOpen.has(target))]),
      );
      for (const members of findComponents(unbounded)) {
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
    ? `Step ${names} leads to itself without maxVisits; ${LIMIT}`
    : `Steps ${names} lead to each other without maxVisits; ${LIMIT}`;
}
