import { PARENT_TARGET } from '../../../domain/step-machine/definition.ts';
import { splitTarget } from '../../../domain/step-machine/moves.ts';
import type { Rule } from '../rule.ts';

export const unknownTarget = {
  code: 'unknown-target',
  severity: 'error',
  about: '`next` (returned names included), `onMaxVisits`, `onExpiry`, `parallel` or `call` names what does not exist',
  remedy: 'Declare the step, register the sub-skill or the topic, or correct the name.',
  check: {
    // The builder reports literal targets (`domain/step-machine/diagnose.ts`); this rule checks targets that functions
    // return.
    step({ definition, step, config, insight }, tell) {
      if (typeof config.next !== 'function') return;
      for (const target of insight.targetsOf(step)?.names ?? []) {
        const [kind, name] = splitTarget(target);
        const known =
          kind === 'subskill' ? definition.subskills : kind === 'topic' ? definition.topics : definition.steps;
        if (target === 'self' || target === PARENT_TARGET || Object.hasOwn(known ?? {}, name)) continue;
        const why = kind === null ? 'does not exist in steps' : 'is not registered';
        tell(`Step "${step}" can return "${target}" from next, which ${why}.`, { step, target });
      }
    },
  },
} as const satisfies Rule;
