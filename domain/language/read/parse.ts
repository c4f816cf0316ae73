import type { Diagnostic } from '../../errors/diagnostic.ts';
import { otherKeys } from '../grammar/other-keys.ts';
import { checkGroups, readKeys } from '../grammar/read.ts';
import { PART, PIPELINE, SECTION_KINDS, SPEC, WORKFLOW } from '../grammar/spec-table.ts';
import type { PlanKind } from '../../plan/plan.ts';
import { readAgent, readShell, readStages } from './parse-stage.ts';
import { Problems } from '../text/diagnostics.ts';
import { type MapReader, readEntries, readList, readMap, readName } from '../grammar/reader.ts';
import { readSource } from '../text/source.ts';
import type { PartSpec, SectionSpec, Spec } from './spec.ts';
import { quote } from '../../units/quote.ts';

const {
  api_version,
  kind: KIND,
  name: NAME,
  parts: _parts,
  workflow: _workflow,
  pipeline: _pipeline,
  agent: _agent,
  ...COMMON
} = SPEC.keys;
const { workflow: _partWorkflow, pipeline: _partPipeline, agent: _partAgent, ...OF_PART } = PART.keys;
const { steps: _steps, ...OF_WORKFLOW } = WORKFLOW.keys;
const { boxes: _boxes, ...OF_PIPELINE } = PIPELINE.keys;

/**
 * Reads a spec's text, YAML or JSON, and reports every mistake in it at once.
 *
 * @param file  the name of the text in diagnostics: a path or a word like `<stdin>`
 * @returns `spec` is null if the text is not a document, or its kind cannot be read. With errors, it may still be there
 * without the broken values, so that `compilePlan` can find further mistakes.
 */
export function parseSpec(
  text: string,
  file: string,
): { readonly spec: Spec | null; readonly diagnostics: readonly Diagnostic[] } {
  const problems = new Problems(file);
  const root = readMap(readSource(text, problems, file.endsWith('.json')), 'the spec', problems);
  const spec = root === null ? null : readSpec(root, file, problems);
  return { spec, diagnostics: problems.list() };
}

function readSpec(root: MapReader, file: string, problems: Problems): Spec | null {
  const { kind: written, name } = readKeys(root, { api_version, kind: KIND, name: NAME }, { kind: null, of: SPEC.of });
  // An unsupported kind has keys that this build does not know.
  if (written === null && isUnsupportedKind(root)) return null;
  const kind = written?.value ?? guessKind(root);
  if (kind !== null) root.required('kind', `kind: ${kind}`);
  const common = readKeys(root, COMMON, { kind, of: SPEC.of });
  for (const other of SECTION_KINDS)
    if (root.has(other) && kind !== null && other !== kind)
      problems.error(
        'spec/bad-value',
        root.keyAt(other),
        `a spec of kind ${kind} cannot have a section \`${other}\``,
        `remove it, or write \`kind: ${other}\``,
      );
  const named = name ?? { value: 'unnamed', at: root.at };
  const section = readSection(root, kind, named, problems);
  const bodies = readParts(root, problems);
  root.finish(otherKeys(SPEC));
  if (kind === null || section === null) return null;
  return {
    file,
    kind,
    name: named,
    ...common,
    sectionAt: root.keyAt(kind === 'sandbox' ? 'kind' : kind),
    ...section,
    parts: partSpecs(bodies, file, problems),
    gaps: problems.gaps(),
  };
}

/** Only a whole spec has triggers and notifications. */
const NO_EVENTS = { on: [], notify: [], lateAfterMs: null, waitingAfterMs: null } as const;

type PartBody = Omit<
  Spec,
  'file' | 'name' | 'maxParallel' | 'timeoutMs' | 'graceMs' | 'budget' | keyof typeof NO_EVENTS | 'parts' | 'gaps'
>;

interface NamedBody {
  readonly name: Spec['name'];
  readonly body: PartBody | null;
}

function readParts(root: MapReader, problems: Problems): readonly NamedBody[] {
  return readEntries(root.optional('parts'), '`parts`', problems).flatMap(([text, { keyAt, value }]): NamedBody[] => {
    const written = { kind: 'scalar', at: keyAt, value: text, text } as const;
    const name = readName(written, 'the name of a part', problems);
    const map = readMap(value, `part ${quote(text)}`, problems);
    const body = map === null ? null : readPart(map, { value: text, at: keyAt }, problems);
    return name === null ? [] : [{ name, body }];
  });
}

function readPart(map: MapReader, name: Spec['name'], problems: Problems): PartBody | null {
  const kind = guessKind(map);
  const common = readKeys(map, OF_PART, { kind });
  const isChosen = checkGroups(map, PART);
  const section = isChosen ? readSection(map, kind, name, problems) : null;
  map.finish(otherKeys(PART));
  if (kind === null || section === null) return null;
  return { kind, ...common, sectionAt: map.keyAt(kind), ...section };
}

function partSpecs(bodies: readonly NamedBody[], file: string, problems: Problems): readonly PartSpec[] {
  const gaps = problems.gaps();
  const parts: PartSpec[] = [];
  // Parts may use each other, so each gets all of them.
  for (const { name, body } of bodies)
    parts.push({
      name,
      spec:
        body === null
          ? null
          : {
              file,
              name,
              maxParallel: null,
              timeoutMs: null,
              graceMs: null,
              budget: null,
              ...NO_EVENTS,
              ...body,
              parts,
              gaps,
            },
    });
  return parts;
}

/** Returns null if there is no section, or it cannot be read. */
function readSection(
  root: MapReader,
  kind: PlanKind | null,
  name: Spec['name'],
  problems: Problems,
): SectionSpec | null {
  if (kind === null) for (const each of SECTION_KINDS) root.optional(each);
  if (kind === null) return null;
  if (kind === 'sandbox') return readShell(name, problems);
  const map = readMap(root.required(kind), `\`${kind}\``, problems);
  if (map === null) return null;
  switch (kind) {
    case 'workflow':
      return readWorkflow(map, problems);
    case 'pipeline':
      return readPipeline(map, problems);
    case 'agent':
      return readAgent(map, name);
  }
}

function isUnsupportedKind(root: MapReader): boolean {
  const node = root.optional('kind');
  return node?.kind === 'scalar' && (SPEC.keys.kind.type.unsupported.words as readonly unknown[]).includes(node.value);
}

/** Guesses a missing kind from the section that is there, so that the rest is checked too. */
function guessKind(root: MapReader): PlanKind | null {
  const [only, ...more]: readonly PlanKind[] = SECTION_KINDS.filter((kind) => root.has(kind));
  return more.length > 0 ? null : (only ?? null);
}

function readWorkflow(map: MapReader, problems: Problems): SectionSpec {
  const stages = readFilledStages(map, 'steps', 'workflow', problems);
  const own = readKeys(map, OF_WORKFLOW, { kind: 'workflow' });
  map.finish(otherKeys(WORKFLOW));
  return { ...stages, ...own, pipelineStages: null };
}

function readPipeline(map: MapReader, problems: Problems): SectionSpec {
  const stages = readFilledStages(map, 'boxes', 'pipeline', problems);
  const rest = readKeys(map, OF_PIPELINE, { kind: 'pipeline' });
  map.finish(otherKeys(PIPELINE));
  return { ...stages, ...rest, checkpoint: null };
}

function readFilledStages(
  map: MapReader,
  key: string,
  kind: PlanKind,
  problems: Problems,
): Pick<SectionSpec, 'stages' | 'lostNames'> {
  const node = map.required(key);
  const what = `\`${key}\` of ${map.what}`;
  const items = readList(node, what, problems);
  if (node?.kind === 'list' && items.length === 0)
    problems.error('spec/bad-value', node.at, `${what} is empty`, 'add at least one');
  if (items.length > 0) return readStages(items, kind, problems);
  return { stages: [], lostNames: { written: new Set(), hasMore: true } };
}
