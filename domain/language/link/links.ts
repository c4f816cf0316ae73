/** Links the stages of a spec, depending on its kind. */
import type { OutputPlan } from '../../plan/plan.ts';
import { linkPipeline } from './pipeline.ts';
import { findSources, findStage, type Linking, openLinking, refuseBoth, takenOf } from './sources.ts';
import { type LinkResult, type Links, NO_LINKS, outputOf, type Expressions, unique } from './linked.ts';
import type { Problems } from '../text/diagnostics.ts';
import type { Spec } from '../read/spec.ts';
import { quote } from '../../units/quote.ts';

export function linkStages(spec: Spec, reads: Expressions, problems: Problems): LinkResult {
  switch (spec.kind) {
    case 'workflow':
      return linkWorkflow(spec, reads, problems);
    case 'pipeline':
      return linkPipeline(spec, reads, problems);
    case 'agent':
    case 'sandbox':
      return { links: [NO_LINKS], output: outputOf(spec, 0) };
  }
}

function linkWorkflow(spec: Spec, reads: Expressions, problems: Problems): LinkResult {
  const linking = openLinking(spec, 'step', reads, problems);
  const links = spec.stages.map((step, index): Links => {
    const what = `\`depends_on\` of step ${quote(step.name.value)}`;
    const named = step.dependsOn.flatMap((name) => findStage(name, what, 'edges', linking) ?? []);
    const sources = findSources(step, index, linking);
    const { onFailure, stdin, items, inputs, workspace } = sources;
    const dependsOn = unique([...named, ...takenOf(sources)]);
    refuseBoth(step, dependsOn, onFailure, linking);
    if (step.finally === true) return { ...NO_LINKS, inputs };
    const isFirst = dependsOn.length === 0 && onFailure.length === 0;
    return { dependsOn, onFailure, input: { kind: isFirst ? 'run-input' : 'none' }, stdin, items, inputs, workspace };
  });
  return { links, output: workflowOutput(links, linking) };
}

function workflowOutput(links: readonly Links[], linking: Linking): OutputPlan | null {
  const { spec, names, problems } = linking;
  if (spec.output !== null) return outputOf(spec, findStage(spec.output, '`output_step`', null, linking));
  const needed = new Set(links.flatMap(({ dependsOn }) => dependsOn));
  const exceptional = findStepsAfterFailure(links);
  const leaves = spec.stages
    .map((_, index) => index)
    .filter((index) => !needed.has(index) && !exceptional.has(index) && !names.last.has(index));
  // Without a leaf, all steps are in a cycle, which is reported as a cycle.
  if (leaves.length <= 1) return outputOf(spec, leaves[0] ?? null);
  const shown = leaves.slice(0, 8).map((index) => quote(spec.stages[index]!.name.value));
  problems.error(
    'spec/output-needed',
    spec.sectionAt,
    `${leaves.length} steps have no dependents, so each could be the result: ${shown.join(', ')}${leaves.length > 8 ? ', …' : ''}`,
    'name one in `output_step`, or add a step that depends on them',
  );
  return null;
}

/** Returns steps that run only after a failure: they have no output in a run that succeeds. */
function findStepsAfterFailure(links: readonly Links[]): ReadonlySet<number> {
  const found = new Set(links.flatMap(({ onFailure }, index) => (onFailure.length > 0 ? [index] : [])));
  const queue = [...found];
  const after = links.map((): number[] => []);
  links.forEach(({ dependsOn }, index) => dependsOn.forEach((earlier) => after[earlier]!.push(index)));
  for (let at = 0; at < queue.length; at += 1)
    for (const next of after[queue[at]!]!) {
      if (found.has(next)) continue;
      found.add(next);
      queue.push(next);
    }
  return found;
}
