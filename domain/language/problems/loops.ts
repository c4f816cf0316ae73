/** Checks loops in a plan from outside, so that the run machine ends them. */
import { PLAN_LIMITS, type Plan, type StagePlan } from '../../plan/plan.ts';
import { isSharedScope } from '../../plan/scope.ts';
import { partOf } from '../../plan/work.ts';

export function findLoopProblems({ stages, scopes }: Plan): readonly string[] {
  const byId = new Map(stages.map((stage) => [stage.id, stage]));
  const shared = new Set(scopes.flatMap((scope) => (isSharedScope(scope) ? scope.stages : [])));
  const around = new Map<string, StagePlan[]>();
  const problems: string[] = [];
  for (const stage of stages) {
    if (stage.loop === undefined) continue;
    const within = partOf(stage.work)?.stages ?? [];
    for (const id of within) around.set(id, [...(around.get(id) ?? []), stage]);
    problems.push(...endProblems(stage, within));
    for (const id of within) {
      if (shared.has(id)) problems.push(`stage ${id} is in the loop ${stage.id} and shares its VM`);
      if (byId.get(id)?.finally === true) problems.push(`stage ${id} is in the loop ${stage.id} and has \`finally\``);
      // A failure before the loop is allowed, because it stays the same in each visit.
      if (byId.get(id)?.after.some((edge) => edge.on === 'failure' && within.includes(edge.stage)) === true)
        problems.push(`stage ${id} is in the loop ${stage.id} and waits for a failure within it`);
    }
  }
  let done = 0;
  for (const { id, visits, again } of stages) {
    const loops = around.get(id) ?? [];
    const most = loops.reduce((product, { loop }) => product * loop!.maxVisits, 1);
    done += visits ?? 0;
    if ((visits ?? 1) !== most)
      problems.push(`stage ${id} may run in ${most} visits, but its \`visits\` is ${visits ?? 'missing'}`);
    for (const taken of again ?? [])
      if (!loops.some((loop) => loop.id === taken))
        problems.push(`stage ${id} takes the result of ${taken}, which is not a loop around it`);
  }
  if (done > PLAN_LIMITS.stageVisits)
    problems.push(
      `the stages of all loops may run ${done} times together; at most ${PLAN_LIMITS.stageVisits} are allowed`,
    );
  return problems;
}

function endProblems({ id, work, when, after }: StagePlan, within: readonly string[]): readonly string[] {
  const waits = new Set(after.map((edge) => edge.stage));
  return [
    ...(partOf(work)?.output.kind === 'stage'
      ? []
      : [`stage ${id} ends a loop and does not return the output of a stage`]),
    ...(when === null ? [] : [`stage ${id} ends a loop and has a condition of its own`]),
    ...within.filter((each) => !waits.has(each)).map((each) => `stage ${id} ends a loop and does not wait for ${each}`),
  ];
}
