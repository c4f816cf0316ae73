/** Reports names that a spec uses twice, and stages that wait for each other by name. */
import type { ScopePlan, StagePlan } from '../../plan/plan.ts';
import { findCycles, describeCycle } from '../link/graph.ts';
import type { LinkResult } from '../link/linked.ts';
import type { Problems } from '../text/diagnostics.ts';
import type { Spec } from '../read/spec.ts';
import { quote } from '../../units/quote.ts';

/** Reports stages of a part that have the name of one of the spec's own stages. */
export function refuseDoubles(
  spec: Spec,
  stages: readonly StagePlan[],
  scopes: readonly ScopePlan[],
  problems: Problems,
): void {
  const own = new Map(spec.stages.map(({ name }) => [name.value, name.at]));
  for (const list of [stages, scopes]) {
    const seen = new Set<string>();
    for (const { id } of list) {
      const at = seen.has(id) ? own.get(id) : undefined;
      seen.add(id);
      if (at !== undefined && id.includes('.') && !doubleNames(spec).has(id))
        problems.error(
          'spec/duplicate-name',
          at,
          `${quote(id)} is also the name of a stage of a part: the plan names them with the part's name and a dot`,
          'rename one of them',
        );
    }
  }
}

export function reportCycles(spec: Spec, linked: LinkResult, problems: Problems): void {
  const dependencies = linked.links.map((links) => (links === null ? [] : [...links.dependsOn, ...links.onFailure]));
  const name = (index: number): string => quote(spec.stages[index]!.name.value);
  const doubles = doubleNames(spec);
  const isBox = spec.kind === 'pipeline';
  for (const group of findCycles(dependencies)) {
    // If two steps have the same name, an edge may mean the other one.
    if (group.some((index) => doubles.has(spec.stages[index]!.name.value))) continue;
    const shown = describeCycle(group, dependencies, name);
    const message =
      group.length === 1
        ? `${isBox ? 'box' : 'step'} ${name(group[0]!)} waits for itself`
        : `${isBox ? 'boxes' : 'steps'} wait for each other: ${shown}`;
    problems.error(
      'spec/cycle',
      spec.stages[group[0]!]!.name.at,
      message,
      `remove one of the dependencies (${isBox ? '' : '`depends_on`, '}\`on_failure\`, \`stdin_from\`, \`inputs\`, \`workspace\`, \`when\` and outputs in placeholders are dependencies)`,
    );
  }
}

function doubleNames(spec: Spec): ReadonlySet<string> {
  const seen = new Set<string>();
  return new Set(spec.stages.flatMap(({ name: { value } }) => (seen.has(value) ? [value] : (seen.add(value), []))));
}
