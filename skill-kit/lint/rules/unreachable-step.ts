import { diagnoseAlone } from '../../../domain/step-machine/diagnose.ts';
import { findReachable } from '../../../domain/step-machine/graph.ts';
import type { Rule } from '../rule.ts';

export const unreachableStep = {
  code: 'unreachable-step',
  severity: 'warning',
  about: 'no transition leads from the entry to the step',
  remedy: 'Add a transition to it from a reachable step, or remove it.',
  check: {
    skill({ definition, edges, insight }, tell) {
      const { steps, entry } = definition;
      if (!Object.hasOwn(steps, entry)) return;
      const reached = findReachable(edges, [entry]);
      const mayLeadAnywhere = [...reached].some(
        (step) => typeof steps[step]!.config.next === 'function' && insight.targetsOf(step)?.isComplete !== true,
      );
      // A name that does not exist was meant for some step: which one is not known.
      const isMisnamed = diagnoseAlone(definition).some(
        ({ rule, step }) => rule === 'unknown-target' && step !== undefined && reached.has(step),
      );
      if (mayLeadAnywhere || isMisnamed) return;
      for (const step of Object.keys(steps))
        if (!reached.has(step)) tell(`No transition leads from "${entry}" to step "${step}".`, { step });
    },
  },
} as const satisfies Rule;
