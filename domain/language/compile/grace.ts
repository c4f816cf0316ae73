import { GRACE_MS } from '../../plan/defaults.ts';
import { type Plan, PLAN_LIMITS, type StagePlan } from '../../plan/plan.ts';
import type { InlinedPart } from './inline-part.ts';
import type { Problems } from '../text/diagnostics.ts';
import type { Spec } from '../read/spec.ts';

/** Returns the time for the stages with `finally`; an empty object without such stages. */
export function compileGrace(
  spec: Spec,
  stages: readonly StagePlan[],
  used: readonly (InlinedPart | null)[],
  problems: Problems,
): Pick<Plan, 'graceMs'> {
  const last = stages.filter((stage) => stage.finally === true);
  const own = spec.stages.filter((stage) => stage.finally === true);
  if (last.length === 0 && own.length === 0) return {};
  if (own.length === spec.stages.length)
    problems.error(
      'spec/bad-value',
      own[0]!.name.at,
      'every stage has `finally`, so no stage runs before them',
      'remove `finally` from a stage, or add stages without it',
    );
  if (last.length > PLAN_LIMITS.finallyStages)
    problems.error(
      'spec/too-large',
      spec.sectionAt,
      `${last.length} stages have \`finally\`${own.length === last.length ? '' : ', including stages of parts'}; at most ${PLAN_LIMITS.finallyStages} are allowed`,
      'combine some of them into one stage',
    );
  // Each part has its own time: the longest is enough for the stages that had it.
  const longest = Math.max(own.length === 0 ? 0 : GRACE_MS, ...used.map((part) => part?.graceMs ?? 0));
  return { graceMs: spec.graceMs ?? longest };
}
