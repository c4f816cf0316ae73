import type { Diagnostic } from '../errors/diagnostic.ts';
import { readKeys } from './grammar/read.ts';
import { PIPELINE, SPEC, WORKFLOW } from './grammar/spec-table.ts';
import type { PlanKind } from '../plan/plan.ts';
import { readStages } from './parse-stage.ts';
import { Problems } from './problems.ts';
import { type MapReader, readList, readMap } from './reader.ts';
import { readSource } from './source.ts';
import type { SectionSpec, Spec, StageSpec } from './spec.ts';

const { api_version, kind: KIND, name: NAME, workflow: _workflow, pipeline: _pipeline, ...COMMON } = SPEC.keys;
const { steps: _steps, ...OF_WORKFLOW } = WORKFLOW.keys;
const { boxes: _boxes, ...OF_PIPELINE } = PIPELINE.keys;

/**
 * Reads a spec's text, YAML or JSON, and reports every mistake in it at once.
 *
 * @param file  how diagnostics name the text: a path or a word like `<stdin>`
 * @returns `spec` is null when the text is no document, or of no kind that can be read further. It may be
 *   there beside errors, with the broken values left out, so that `compilePlan` can find what else is wrong.
 */
export function parseSpec(
  text: string,
  file: string,
): { readonly spec: Spec | null; readonly diagnostics: readonly Diagnostic[] } {
  const problems = new Problems(file);
  const root = readMap(readSource(text, problems), 'the spec', problems);
  const spec = root === null ? null : readSpec(root, file, problems);
  return { spec, diagnostics: problems.list() };
}

function readSpec(root: MapReader, file: string, problems: Problems): Spec | null {
  const head = readKeys(root, { api_version, kind: KIND, name: NAME }, { kind: null, of: SPEC.of });
  // What a kind's own keys are is unknown with it; more reports would only be noise.
  if (head.kind === null) return null;
  const kind = head.kind.value;
  const common = readKeys(root, COMMON, { kind, of: SPEC.of });
  const other = kind === 'workflow' ? 'pipeline' : 'workflow';
  if (root.has(other))
    problems.error(
      'spec/bad-value',
      root.keyAt(other),
      `a spec of kind ${kind} has a section \`${other}\``,
      `take it out, or write \`kind: ${other}\``,
    );
  const map = readMap(root.required(kind), `\`${kind}\``, problems);
  root.finish(SPEC.unsupported);
  if (map === null) return null;
  const section = kind === 'workflow' ? readWorkflow(map, problems) : readPipeline(map, problems);
  return {
    file,
    kind,
    name: head.name ?? { value: 'unnamed', at: root.at },
    ...common,
    sectionAt: root.keyAt(kind),
    ...section,
  };
}

function readWorkflow(map: MapReader, problems: Problems): SectionSpec {
  const stages = readFilledStages(map, 'steps', 'workflow', problems);
  const { output } = readKeys(map, OF_WORKFLOW, { kind: 'workflow' });
  map.finish();
  return { stages, output, pipelineStages: null };
}

function readPipeline(map: MapReader, problems: Problems): SectionSpec {
  const stages = readFilledStages(map, 'boxes', 'pipeline', problems);
  const rest = readKeys(map, OF_PIPELINE, { kind: 'pipeline' });
  map.finish();
  return { stages, ...rest };
}

function readFilledStages(map: MapReader, key: string, kind: PlanKind, problems: Problems): readonly StageSpec[] {
  const node = map.required(key);
  const what = `\`${key}\` of ${map.what}`;
  const items = readList(node, what, problems);
  if (node?.kind === 'list' && items.length === 0)
    problems.error('spec/bad-value', node.at, `${what} is empty`, 'add at least one');
  return readStages(items, kind, problems);
}
