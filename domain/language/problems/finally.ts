import { type Plan, PLAN_LIMITS } from '../../plan/plan.ts';
import { isSharedScope } from '../../plan/scope.ts';
import { commandOf, mockOf } from '../../plan/work.ts';

/** Checks stages with `finally`: each runs after all others, without edges and in its own VM. */
export function findFinallyProblems(checked: Plan): readonly string[] {
  const last = new Set(checked.stages.flatMap((each) => (each.finally === true ? [each.id] : [])));
  if (last.size === 0) return checked.graceMs === undefined ? [] : ['graceMs is set, but no stage has `finally`'];
  const shared = new Set(checked.scopes.flatMap((each) => (isSharedScope(each) ? [each.id] : [])));
  const results = checked.output.kind === 'stage' ? [checked.output.stage] : checked.output.stages;
  return [
    ...(checked.graceMs === undefined ? ['graceMs is missing, although stages have `finally`'] : []),
    ...(last.size === checked.stages.length ? ['every stage has `finally`'] : []),
    ...(last.size > PLAN_LIMITS.finallyStages
      ? [`${last.size} stages have \`finally\`; at most ${PLAN_LIMITS.finallyStages} are allowed`]
      : []),
    ...results
      .filter((id) => last.has(id))
      .map((id) => `the run's output is the output of stage ${id}, which has \`finally\``),
    ...checked.stages.flatMap(({ id, after, work, scope, each: items, outputs, input, finally: isLast }) => [
      ...after
        .filter(({ stage: other }) => last.has(other))
        .map((edge) => `stage ${id} depends on ${edge.stage}, which has \`finally\``),
      ...(isLast !== true
        ? []
        : [
            ...(after.length === 0 ? [] : [`stage ${id} has \`finally\` and depends on others`]),
            ...((commandOf(work) ?? mockOf(work)) !== null && items === undefined && outputs.length === 0
              ? []
              : [`stage ${id} has \`finally\`, so it must be a command without named outputs and without \`each\``]),
            ...(scope !== null && shared.has(scope) ? [`stage ${id} has \`finally\` and shares its VM`] : []),
            ...(input.kind === 'none' || input.kind === 'run-input'
              ? []
              : [`stage ${id} has \`finally\` and takes its input from other stages`]),
          ]),
    ]),
  ];
}
