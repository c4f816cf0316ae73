import { type Plan, PLAN_LIMITS } from '../../plan/plan.ts';
import { isSharedScope } from '../../plan/scope.ts';
import { commandOf, partOf } from '../../plan/work.ts';
import { findInstanceProblem } from '../../run/instance.ts';
import { countTakenOutputs, writableIn } from './list-limits.ts';

/** Checks that each item has a VM of its own, and is the input of its command. */
export function findItemProblems(checked: Plan): readonly string[] {
  const shared = new Set(checked.scopes.flatMap((each) => (isSharedScope(each) ? [each.id] : [])));
  return checked.stages.flatMap((stage) => {
    const { id, each: items, work, scope, input, outputs } = stage;
    if (items === undefined || partOf(work) !== null) return [];
    const taken = countTakenOutputs(stage);
    const instance = findInstanceProblem([{ part: id, item: PLAN_LIMITS.items - 1 }]);
    return [
      ...(commandOf(work) !== null ? [] : [`stage ${id} runs for each item and is not a command`]),
      ...(scope !== null && shared.has(scope) ? [`stage ${id} runs for each item and shares its VM`] : []),
      ...(input.kind === 'none' ? [] : [`stage ${id} runs for each item and has another input than the item`]),
      ...(outputs.length === 0 ? [] : [`stage ${id} runs for each item and has named outputs`]),
      ...(writableIn(checked.scopes, scope) === undefined
        ? []
        : [`stage ${id} runs for each item and has a writable mount`]),
      ...(taken <= PLAN_LIMITS.itemInputs
        ? []
        : [`stage ${id} runs for each item and takes ${taken} outputs; at most ${PLAN_LIMITS.itemInputs} are allowed`]),
      ...(instance === null ? [] : [`stage ${id} runs for each item: ${instance}`]),
    ];
  });
}
