import type { Rule } from '../rule.ts';

export const hostBranchingDensity = {
  code: 'host-branching-density',
  severity: 'warning',
  about: 'more than one step of a skill reads `host.toolsAvailable`',
  remedy: 'Use a primitive (act.*), which each host maps to its own tool.',
  check: {
    source({ sources, builders, insights }, tell) {
      for (const { steps } of builders) {
        const branching = steps.filter((step) => insights.promptOf(step)?.branchesOnHost === true);
        const [first, second] = branching;
        if (first === undefined || second === undefined) continue;
        const names = branching
          .map(({ name }) => (name === null ? 'one without a fixed name' : `"${name}"`))
          .join(', ');
        tell(
          sources.placeOf(second.nameNode),
          `${branching.length} steps look at host.toolsAvailable: ${names}.`,
          second.name === null ? {} : { step: second.name },
        );
      }
    },
  },
} as const satisfies Rule;
