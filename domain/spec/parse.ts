import type { Diagnostic } from '../errors/diagnostic.ts';
import { PLAN_LIMITS } from '../plan/plan.ts';
import { readStage } from './parse-stage.ts';
import { readSandbox } from './parse-sandbox.ts';
import { Problems } from './problems.ts';
import { MapReader, readEntries, readFilledList, readList, readMap, readName, readNumber, readText, type UnsupportedKey } from './reader.ts';
import { readSource } from './source.ts';
import type { ParamSpec, PipelineStageSpec, Spec, StageSpec } from './spec.ts';
import { type Located, quote, type TreeNode } from './tree.ts';

const KINDS = ['workflow', 'pipeline'] as const;

/** Kinds that other versions have. */
const OTHER_KINDS = ['agent', 'sandbox', 'skill', 'chain'];

const UNUSED_KEYS: Readonly<Record<string, UnsupportedKey>> = {
  observe: { severity: 'warning', message: '`observe` has no effect yet', remedy: 'take it out' },
  llm: { severity: 'warning', message: '`llm` has no effect yet: stages are commands', remedy: 'take it out' },
  agent: { severity: 'error', message: 'the section `agent` is not supported yet', remedy: 'take it out; supported sections: workflow, pipeline' },
};

/**
 * Reads a spec's text, YAML or JSON, and reports every mistake in it at once.
 *
 * @param file  how diagnostics name the text: a path or a word like `<stdin>`
 * @returns `spec` is null when the text is no document, or of no kind that can be read further. It may be
 *   there beside errors, with the broken values left out, so that `compilePlan` can find what else is wrong.
 */
export function parseSpec(text: string, file: string): { readonly spec: Spec | null; readonly diagnostics: readonly Diagnostic[] } {
  const problems = new Problems(file);
  const root = readMap(readSource(text, problems), 'the spec', problems);
  const spec = root === null ? null : readSpec(root, file, problems);
  return { spec, diagnostics: problems.list() };
}

function readSpec(root: MapReader, file: string, problems: Problems): Spec | null {
  checkVersion(root, problems);
  const kind = readKind(root, problems);
  const name = readName(root.required('name'), '`name`', problems);
  // What a kind's own keys are is unknown with it; more reports would only be noise.
  if (kind === null) return null;
  const params = readParams(root.optional('params'), problems);
  const sandbox = readSandbox(root.optional('sandbox'), '`sandbox`', problems);
  const maxParallel = readNumber(root.optional('max_parallel'), '`max_parallel`', { min: 1, max: 1_000, integer: true, unit: 'stages' }, problems);
  const other = kind === 'workflow' ? 'pipeline' : 'workflow';
  if (root.has(other))
    problems.error('spec/bad-value', root.keyAt(other), `a spec of kind ${kind} has a section \`${other}\``, `take it out, or write \`kind: ${other}\``);
  const section = readMap(root.required(kind), `\`${kind}\``, problems);
  root.finish(UNUSED_KEYS);
  if (section === null) return null;
  const list = readFilledList(section, kind === 'workflow' ? 'steps' : 'boxes');
  const stages = readStages(list, kind, problems);
  const pipelineStages = kind === 'pipeline' ? readPipelineStages(section, problems) : null;
  const outputKey = kind === 'workflow' ? 'output_step' : 'output_box';
  const output = readText(section.optional(outputKey), `\`${outputKey}\``, problems);
  section.finish();
  return {
    file,
    kind,
    name: name ?? { value: 'unnamed', at: root.at },
    params,
    sandbox,
    maxParallel,
    stages,
    output,
    sectionAt: root.keyAt(kind),
    pipelineStages,
  };
}

function checkVersion(root: MapReader, problems: Problems): void {
  const version = readText(root.optional('api_version'), '`api_version`', problems);
  if (version !== null && version.value !== 'v1')
    problems.error('spec/bad-value', version.at, `\`api_version\` is ${quote(version.value)}`, 'write `api_version: v1`, the only version there is');
}

function readKind(root: MapReader, problems: Problems): Spec['kind'] | null {
  const text = readText(root.required('kind', 'kind: workflow` (steps share a VM) or `kind: pipeline'), '`kind`', problems);
  if (text === null) return null;
  const kind = KINDS.find((each) => each === text.value);
  if (kind !== undefined) return kind;
  if (OTHER_KINDS.includes(text.value))
    problems.error(
      'spec/unsupported',
      text.at,
      `not supported yet: kind ${text.value}; supported: ${KINDS.join(', ')}`,
      'write the same as commands in a workflow or pipeline',
    );
  else problems.error('spec/bad-value', text.at, `\`kind\` is ${quote(text.value)}${problems.suggest(text.value, KINDS)}`, `write one of: ${KINDS.join(', ')}`);
  return null;
}

function readParams(node: TreeNode | null, problems: Problems): readonly ParamSpec[] {
  return readEntries(node, '`params`', problems).flatMap(([name, { keyAt, value }]): ParamSpec[] => {
    if (readName({ kind: 'scalar', at: keyAt, value: name, text: name }, 'the name of a parameter', problems) === null) return [];
    return [{ name, at: keyAt, defaultText: readDefault(name, value, problems) }];
  });
}

/** A bare value is the default; a mapping may have one; nothing means that the run has to give it. */
function readDefault(name: string, value: TreeNode, problems: Problems): string | null {
  if (value.kind === 'scalar' && value.value === null) return null;
  if (value.kind !== 'map') return readText(value, `parameter ${quote(name)}`, problems, true)?.value ?? '';
  const map = new MapReader(value, `parameter ${quote(name)}`, problems);
  const fallback = readText(map.optional('default'), `the default of parameter ${quote(name)}`, problems, true);
  readText(map.optional('description'), `the description of parameter ${quote(name)}`, problems);
  map.finish();
  // A default that could not be read was reported; the parameter still has one.
  return map.has('default') ? (fallback?.value ?? '') : null;
}

function readStages(items: readonly TreeNode[], kind: Spec['kind'], problems: Problems): readonly StageSpec[] {
  const over = items[PLAN_LIMITS.stages];
  const noun = kind === 'workflow' ? 'step' : 'box';
  if (over !== undefined)
    problems.error(
      'spec/too-large',
      over.at,
      `the spec has ${items.length} ${noun === 'box' ? 'boxes' : 'steps'}; a run carries at most ${PLAN_LIMITS.stages}`,
      'split the spec into several',
    );
  return items.slice(0, PLAN_LIMITS.stages).flatMap((item, index) => {
    const stage = readStage(item, noun, index, problems);
    return stage === null ? [] : [stage];
  });
}

function readPipelineStages(section: MapReader, problems: Problems): readonly PipelineStageSpec[] | null {
  const node = section.optional('stages');
  if (node === null) return null;
  if (node.kind === 'list' && node.items.length === 0)
    problems.error('spec/bad-value', node.at, '`stages` is empty', 'add at least one, or take `stages` out: then every box runs in order');
  return readList(node, '`stages` of `pipeline`', problems).flatMap((item, index) => {
    const stage = readPipelineStage(item, `stage ${index + 1} of \`pipeline\``, problems);
    return stage === null ? [] : [stage];
  });
}

function readPipelineStage(node: TreeNode, what: string, problems: Problems): PipelineStageSpec | null {
  const map = readMap(node, what, problems, (text) => `{ type: box, name: ${text} }`);
  const typeText = map === null ? null : readText(map.required('type', 'type: box` or `type: fan_out'), `\`type\` of ${what}`, problems);
  if (map === null || typeText === null) return null;
  if (typeText.value === 'box') {
    const box = readText(map.required('name'), `\`name\` of ${what}`, problems);
    map.finish();
    return box === null ? null : { type: 'box', at: map.at, boxes: [box] };
  }
  if (typeText.value !== 'fan_out') {
    problems.error(
      'spec/bad-value',
      typeText.at,
      `\`type\` of ${what} is ${quote(typeText.value)}${problems.suggest(typeText.value, ['box', 'fan_out'])}`,
      'write one of: box, fan_out',
    );
    return null;
  }
  readName(map.optional('name'), `\`name\` of ${what}`, problems);
  const boxes = readFilledList(map, 'boxes').flatMap((item): Located<string>[] => {
    const box = readText(item, `a box of ${what}`, problems);
    return box === null ? [] : [box];
  });
  map.finish();
  return { type: 'fan_out', at: map.at, boxes };
}
