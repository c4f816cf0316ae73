import { PLAN_LIMITS, type PlanKind } from '../plan/plan.ts';
import { readKeys } from './grammar/read.ts';
import { STAGE } from './grammar/stage-table.ts';
import type { Problems } from './problems.ts';
import { readMap } from './reader.ts';
import type { StageSpec } from './spec.ts';
import { quote, type TreeNode } from './tree.ts';

const { name: NAME, run: RUN, ...REST } = STAGE.keys;

/** Steps of a workflow or boxes of a pipeline. */
export function readStages(items: readonly TreeNode[], kind: PlanKind, problems: Problems): readonly StageSpec[] {
  const over = items[PLAN_LIMITS.stages];
  if (over !== undefined)
    problems.error(
      'spec/too-large',
      over.at,
      `the spec has ${items.length} ${kind === 'workflow' ? 'steps' : 'boxes'}; a run carries at most ${PLAN_LIMITS.stages}`,
      'split the spec into several',
    );
  return items.slice(0, PLAN_LIMITS.stages).flatMap((item, index) => readStage(item, kind, index, problems) ?? []);
}

/** Null when it is no mapping. */
function readStage(node: TreeNode, kind: PlanKind, index: number, problems: Problems): StageSpec | null {
  const noun = kind === 'workflow' ? 'step' : 'box';
  const map = readMap(node, `${noun} ${index + 1}`, problems);
  if (map === null) return null;
  const { name } = readKeys(map, { name: NAME }, { kind });
  if (name !== null) map.what = `${noun} ${quote(name.value)}`;
  // An agent's box has no command; the one report about its prompt is enough.
  const { run } = map.has('run') || !asksForAgent(node) ? readKeys(map, { run: RUN }, { kind }) : { run: null };
  const rest = readKeys(map, REST, { kind });
  map.finish(STAGE.unsupported);
  // A name that cannot be used is still told from others by its place.
  return { ...rest, name: name ?? { value: `#${index + 1}`, at: map.at }, run };
}

function asksForAgent(node: TreeNode): boolean {
  return node.kind === 'map' && node.entries.has('prompt');
}
