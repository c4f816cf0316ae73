/** The stages of a plan by part and by VM. */
import type { Plan, ScopePlan, StagePlan } from '../../../domain/plan/plan.ts';
import { partOf } from '../../../domain/plan/work.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { listOf } from './plan-facts.ts';

export interface PlanGroup {
  /** The title of a part's group; empty for the plan itself. */
  readonly title: string;
  readonly scopes: readonly { readonly scope: ScopePlan; readonly stages: readonly StagePlan[] }[];
  /** Stages without a VM. */
  readonly outside: readonly StagePlan[];
  /** Parts within this one. */
  readonly parts: readonly PlanGroup[];
}

interface Part {
  readonly end: StagePlan;
  readonly source: string;
  readonly stages: ReadonlySet<string>;
}

function titleOf({ end, source }: Part): string {
  const { loop } = end;
  const list = listOf(end);
  if (list !== null) return `part ${end.id}: ${sanitizeLine(source)}, ${list}`;
  if (loop === undefined) return `part ${end.id}: ${sanitizeLine(source)}`;
  return `loop ${end.id}: at most ${loop.maxVisits} ${loop.maxVisits === 1 ? 'visit' : 'visits'}`;
}

export function groupsOf(plan: Plan): PlanGroup {
  const parts = plan.stages.flatMap((end): Part[] => {
    const part = partOf(end.work);
    return part === null ? [] : [{ end, source: part.source, stages: new Set([...part.stages, end.id]) }];
  });
  // A part within another has fewer stages, also in a plan that the compiler did not make. So no part is within itself.
  const smallestFirst = [...parts].sort((a, b) => a.stages.size - b.stages.size);
  const ownerOf = new Map(
    plan.stages.map(({ id }) => [id, smallestFirst.find(({ stages }) => stages.has(id)) ?? null]),
  );
  const outerOf = new Map(
    parts.map((part) => [
      part,
      smallestFirst.find(({ stages }) => stages.size > part.stages.size && stages.has(part.end.id)) ?? null,
    ]),
  );
  const inVm = (id: string, stages: readonly StagePlan[]): readonly StagePlan[] =>
    stages.filter(({ scope }) => scope === id);
  const groupOf = (owner: Part | null): PlanGroup => {
    const own = plan.stages.filter(({ id }) => ownerOf.get(id) === owner);
    return {
      title: owner === null ? '' : titleOf(owner),
      scopes: plan.scopes.flatMap((scope) => {
        const stages = inVm(scope.id, own);
        return stages.length === 0 ? [] : [{ scope, stages }];
      }),
      outside: own.filter(({ scope }) => scope === null),
      parts: parts.filter((part) => outerOf.get(part) === owner).map(groupOf),
    };
  };
  return groupOf(null);
}
