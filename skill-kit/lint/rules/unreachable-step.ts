import { reachable } from '../../../domain/step-machine/graph.ts';
import type { Rule } from '../rule.ts';

export const unreachableStep = {
  code: 'unreachable-step',
  severity: 'warning',
  about: 'no way leads from the entry to the step',
  remedy: 'Lead to it from a step that is reached, or remove it.',
  check: {
    skill({ definition: { steps, entry }, edges, insight }, tell) {
      if (!Object.hasOwn(steps, entry)) return;
      const reached = reachable(edges, [entry]);
      const mayLeadAnywhere = [...reached].some(
        (step) => typeof steps[step]!.config.next === 'function' && insight.targetsOf(step)?.isComplete !== true,
      );
      if (mayLeadAnywhere) return;
      for (const step of Object.keys(steps))
        if (!reached.has(step)) tell(`No way leads from "${entry}" to step "${step}".`, { step });
    },
  },
} as const satisfies Rule;
