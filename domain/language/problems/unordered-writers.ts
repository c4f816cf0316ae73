import type { Plan, StagePlan } from '../../plan/plan.ts';
import { listStagesBefore } from '../../plan/work.ts';
import { contains } from '../text/paths.ts';
import type { Problems } from '../text/diagnostics.ts';
import type { Position } from '../text/tree.ts';
import { quote } from '../../units/quote.ts';

/**
 * Warns of stages that may run at the same time and can write to the same host folder. The success of one could copy
 * back half-written files of the other, or one finds the other's changes and fails. It warns once per folder.
 * @param at  returns the place of a stage in the text
 */
export function warnOfUnorderedWriters(plan: Plan, at: (stage: string) => Position, problems: Problems): void {
  if (plan.maxParallel === 1) return;
  const writers = writersOf(plan);
  if (writers.size === 0) return;
  const order = createOrder(plan.stages);
  if (order === null) return;
  // A stage with `finally` starts after all others have ended.
  const last = new Set(plan.stages.flatMap((stage) => (stage.finally === true ? [stage.id] : [])));
  for (const [hostPath, stages] of writers) {
    const pair = findFirstUnordered(stages, order, (id) => last.has(id));
    if (pair === null) continue;
    const [first, second] = pair;
    const what = plan.kind === 'workflow' ? 'steps' : 'boxes';
    problems.warning(
      'spec/unordered-writers',
      at(second),
      `${what} ${quote(first)} and ${quote(second)} may run at the same time, and both can write to the mount of ${hostPath}: when one ends, Voidbox also copies back files that the other is still writing`,
      'order them (`depends_on`, `stages`), give each its own folder, or mount it with `mode: ro` in the one that only reads it',
    );
  }
}

/** Returns the stages that can write to each host folder; a folder counts also for the folders below it. */
function writersOf(plan: Plan): ReadonlyMap<string, readonly string[]> {
  const folders = new Map<string, string[]>();
  // A scope also contains stages whose command could not be read; the plan does not.
  const readable = new Set(plan.stages.map(({ id }) => id));
  for (const scope of plan.scopes) {
    const stages = scope.stages.filter((stage) => readable.has(stage));
    for (const { source, mode } of scope.sandbox.mounts) {
      if (mode === 'rw') folders.set(source.path, [...(folders.get(source.path) ?? []), ...stages]);
    }
  }
  const all = [...folders];
  return new Map(
    all.map(([outer, own]) => [
      outer,
      [...own, ...all.flatMap(([inner, stages]) => (inner !== outer && contains(outer, inner) ? stages : []))],
    ]),
  );
}

function findFirstUnordered(
  stages: readonly string[],
  order: Order,
  isLast: (stage: string) => boolean,
): readonly [string, string] | null {
  for (const [index, second] of stages.entries()) {
    for (const first of stages.slice(0, index))
      if (
        first !== second &&
        isLast(first) === isLast(second) &&
        !order.isBefore(first, second) &&
        !order.isBefore(second, first)
      )
        return [first, second];
  }
  return null;
}

interface Order {
  /** True when the second stage starts only after the first has ended. */
  isBefore(first: string, second: string): boolean;
}

/** Returns null if stages wait for each other. It uses one bit per pair: 2,000 stages need half a MiB. */
function createOrder(stages: readonly StagePlan[]): Order | null {
  const indexes = new Map(stages.map((stage, index) => [stage.id, index]));
  const words = Math.ceil(stages.length / 32);
  const before = stages.map(() => new Uint32Array(words));
  const waiting = stages.map((stage) => stage.after.length);
  const dependents = stages.map((): number[] => []);
  for (const [index, stage] of stages.entries()) {
    for (const id of listStagesBefore(stage)) {
      const dependency = indexes.get(id);
      if (dependency === undefined) return null;
      dependents[dependency]!.push(index);
    }
  }
  const ready = stages.flatMap((_, index) => (waiting[index] === 0 ? [index] : []));
  for (let at = 0; at < ready.length; at += 1) {
    const done = ready[at]!;
    for (const next of dependents[done]!) {
      const bits = before[next]!;
      before[done]!.forEach((word, position) => (bits[position]! |= word));
      bits[done >>> 5]! |= 1 << (done & 31);
      waiting[next]! -= 1;
      if (waiting[next] === 0) ready.push(next);
    }
  }
  if (ready.length < stages.length) return null;
  return {
    isBefore(first, second) {
      const index = indexes.get(first)!;
      return ((before[indexes.get(second)!]![index >>> 5]! >>> (index & 31)) & 1) === 1;
    },
  };
}
