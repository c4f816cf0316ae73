/**
 * Resolves the names in a stage: the stages whose success, failure or data it waits for, each as an index into
 * `spec.stages`.
 */
import { itemSourceOf } from '../read/item-source.ts';
import { type Links, type Expressions, unique } from './linked.ts';
import type { Gap, Problems } from '../text/diagnostics.ts';
import type { LostNames, Spec, StageSpec } from '../read/spec.ts';
import type { Located, Position } from '../text/tree.ts';
import { quote } from '../../units/quote.ts';

/** A spec whose stages are being linked. */
export interface Linking {
  readonly spec: Spec;
  /** The word for a stage of this spec. */
  readonly noun: 'step' | 'box';
  readonly reads: Expressions;
  readonly problems: Problems;
  readonly names: Names;
  /** Stages by the names of their outputs. */
  readonly producers: ReadonlyMap<string, readonly number[]>;
}

/** The stages whose data a stage takes, and those for which it waits regardless of the order of the spec. */
export interface Sources extends Pick<Links, 'stdin' | 'items' | 'inputs' | 'workspace' | 'onFailure'> {
  /** The stages that its condition and its texts name. */
  readonly read: readonly { readonly source: number; readonly at: Position }[];
}

interface Names {
  readonly indices: ReadonlyMap<string, number>;
  /** Stages with `finally`. */
  readonly last: ReadonlySet<number>;
  readonly lost: LostNames;
}

export function openLinking(spec: Spec, noun: Linking['noun'], reads: Expressions, problems: Problems): Linking {
  return {
    spec,
    noun,
    reads,
    problems,
    names: stageNames(spec, noun, problems),
    producers: outputProducers(spec),
  };
}

export function findSources(stage: StageSpec, index: number, linking: Linking): Sources {
  return {
    onFailure: findFailures(stage, linking),
    stdin: findStdin(stage, linking),
    inputs: findInputs(stage, linking),
    items: findItems(stage, linking),
    workspace: findWorkspace(stage, linking),
    read: findReads(stage, index, linking),
  };
}

/** Returns all stages whose data it takes. */
export function takenOf({ stdin, items, workspace, inputs, read }: Sources): readonly number[] {
  return [
    ...[stdin, items, workspace].filter((source) => source !== null),
    ...inputs.map(({ source }) => source),
    ...read.map(({ source }) => source),
  ];
}

function stageNames(spec: Spec, noun: Linking['noun'], problems: Problems): Names {
  const indices = new Map<string, number>();
  spec.stages.forEach(({ name, outputs }, index) => {
    const first = indices.get(name.value);
    if (first === undefined) indices.set(name.value, index);
    else {
      // A reference to the name may mean either stage.
      for (const gap of ['edges', 'order', 'outputs'] as const) problems.gap(gap);
      problems.error(
        'spec/duplicate-name',
        name.at,
        `two ${noun === 'box' ? 'boxes' : 'steps'} have the name ${quote(name.value)}, the first on line ${spec.stages[first]!.name.at.line}`,
        'rename one of them',
      );
    }
    const seen = new Map<string, Position>();
    for (const { name: output } of outputs) {
      const before = seen.get(output.value);
      if (before !== undefined)
        problems.error(
          'spec/duplicate-name',
          output.at,
          `${noun} ${quote(name.value)} has two outputs with the name ${quote(output.value)}, the first on line ${before.line}`,
          'rename one of them',
        );
      seen.set(output.value, output.at);
    }
  });
  const last = new Set(spec.stages.flatMap((stage, index) => (stage.finally === true ? [index] : [])));
  return { indices, last, lost: spec.lostNames };
}

export function findStage(
  name: Located<string>,
  what: string,
  gap: Gap | null,
  { names: { indices, last, lost }, noun, problems }: Linking,
): number | null {
  const index = indices.get(name.value);
  if (index !== undefined && !last.has(index)) return index;
  if (gap !== null) problems.gap(gap);
  if (index !== undefined) {
    problems.error(
      'spec/bad-value',
      name.at,
      `${what} names the ${noun} ${quote(name.value)}, which has \`finally\` and runs after all others`,
      `remove it there, or remove \`finally\` from the ${noun}`,
    );
    return null;
  }
  const suggestion = problems.suggest(name.value, indices.keys());
  // The name may belong to the stage whose own name was reported.
  if (lost.written.has(name.value) || (lost.hasMore && suggestion === '')) return null;
  problems.error(
    noun === 'step' ? 'spec/unknown-step' : 'spec/unknown-box',
    name.at,
    `${what} names the ${noun} ${quote(name.value)}, which does not exist${suggestion}`,
    `correct the name, or add the ${noun}`,
  );
  return null;
}

function findStdin(stage: StageSpec, linking: Linking): number | null {
  const { spec, noun } = linking;
  const name = stage.run?.stdinFrom ?? null;
  if (name === null) return null;
  const what = `\`stdin_from\` of ${noun} ${quote(stage.name.value)}`;
  const source = findStage(name, what, 'edges', linking);
  if (source === null) return null;
  if (stage.finally === true) refuseUnsure(what, name.at, false, linking);
  else refuseAbsent(spec.stages[source]!, what, name.at, false, linking);
  return source;
}

function findWorkspace(stage: StageSpec, linking: Linking): number | null {
  const { spec, noun, problems } = linking;
  const name = stage.workspace?.from ?? null;
  if (name === null) return null;
  const what = `\`workspace\` of ${noun} ${quote(stage.name.value)}`;
  const source = findStage(name, what, 'edges', linking);
  if (source === null) return null;
  const giver = spec.stages[source]!;
  if (giver.workspace?.changes?.value === 'none') {
    problems.error(
      'spec/bad-value',
      name.at,
      `${what} continues the workspace of ${noun} ${quote(name.value)}, which hands on no workspace, because it has \`changes: none\``,
      `remove \`changes: none\` from ${noun} ${quote(name.value)}, or continue the workspace of the ${noun} before it`,
    );
    return null;
  }
  if (giver.workspace !== null) {
    refuseMaybe(giver, what, name.at, linking);
    return source;
  }
  problems.error(
    'spec/bad-value',
    name.at,
    `${what} continues the workspace of ${noun} ${quote(name.value)}, which has no workspace`,
    `name a ${noun} that has \`workspace\`, or write \`git\` instead of \`from\``,
  );
  return null;
}

/** Rejects a workspace of a stage that may not run, or may fail. */
function refuseMaybe(
  { name, when, continueOnError }: StageSpec,
  what: string,
  at: Position,
  { noun, problems }: Linking,
): void {
  if (continueOnError !== true && when === null) return;
  const [key, then] = when === null ? ['continue_on_error', 'if it fails,'] : ['when', 'if that does not hold,'];
  problems.error(
    'spec/may-be-absent',
    at,
    `${what} continues the workspace of ${noun} ${quote(name.value)}, which has \`${key}\`: ${then} there is no workspace`,
    `remove \`${key}\` there, or start from \`git\``,
  );
}

/** Rejects data in a stage with `finally`, because the other stage may have ended without an output. */
function refuseUnsure(what: string, at: Position, isInput: boolean, { noun, problems }: Linking): void {
  problems.error(
    'spec/may-be-absent',
    at,
    `${what} uses data of another ${noun}, which may be absent: with \`finally\`, this ${noun} runs in any case`,
    isInput ? 'add `optional: true` to the input' : 'use it as an input with `optional: true`',
  );
}

/** Rejects data of a stage that may have no output when this stage starts. */
function refuseAbsent(
  source: StageSpec,
  what: string,
  at: Position,
  isInput: boolean,
  { noun, problems }: Linking,
): void {
  if (source.wait !== null) {
    problems.error(
      'spec/may-be-absent',
      at,
      `${what} uses data of ${noun} ${quote(source.name.value)}, which is a wait and has no output`,
      `use a ${noun} that runs a command`,
    );
    return;
  }
  const { continueOnError, when } = source;
  if (continueOnError !== true && when === null) return;
  const [key, then] = when === null ? ['continue_on_error', 'if it fails,'] : ['when', 'if that does not hold,'];
  problems.error(
    'spec/may-be-absent',
    at,
    `${what} uses data of ${noun} ${quote(source.name.value)}, which has \`${key}\`: ${then} there is no data`,
    `${isInput ? 'add `optional: true` to the input' : 'use it as an input with `optional: true`'}, remove \`${key}\` there, or add a ${noun} between them that succeeds with or without the data`,
  );
}

function findFailures(stage: StageSpec, linking: Linking): readonly number[] {
  const what = `\`on_failure\` of ${linking.noun} ${quote(stage.name.value)}`;
  return unique(stage.onFailure.flatMap((name) => findStage(name, what, 'edges', linking) ?? []));
}

function findReads(stage: StageSpec, index: number, linking: Linking): Sources['read'] {
  const { reads, spec, noun, problems } = linking;
  const findAll = (named: readonly Located<string>[], what: string) =>
    named.flatMap((name) => {
      const source = findStage(name, what, 'edges', linking);
      return source === null ? [] : [{ source, at: name.at }];
    });
  const inTexts = `a placeholder of ${noun} ${quote(stage.name.value)}`;
  const taken = findAll(reads.texts[index]!, inTexts);
  for (const { source, at } of taken) {
    // Report only these two cases: for any other stage that may have no output, the expression itself handles that.
    const { wait, name } = spec.stages[source]!;
    if (stage.finally === true)
      problems.error(
        'spec/may-be-absent',
        at,
        `${inTexts} reads ${noun} ${quote(name.value)}, which may have no output: with \`finally\`, this ${noun} runs in any case`,
        'use the data as an input with `optional: true`',
      );
    else if (wait !== null)
      problems.error(
        'spec/may-be-absent',
        at,
        `${inTexts} reads ${noun} ${quote(name.value)}, which is a wait and has no output`,
        `use a ${noun} that runs a command`,
      );
  }
  return [...findAll(reads.conditions[index]!, `\`when\` of ${noun} ${quote(stage.name.value)}`), ...taken];
}

function findItems(stage: StageSpec, linking: Linking): number | null {
  const list = itemSourceOf(stage);
  if (list?.kind !== 'stage') return null;
  const what = `\`for_each\` of ${linking.noun} ${quote(stage.name.value)}`;
  const source = findStage(list.name, what, 'edges', linking);
  if (source !== null) refuseAbsent(linking.spec.stages[source]!, what, list.name.at, false, linking);
  return source;
}

function outputProducers(spec: Spec): ReadonlyMap<string, readonly number[]> {
  const producers = new Map<string, number[]>();
  spec.stages.forEach(({ outputs }, index) => {
    for (const output of new Set(outputs.map(({ name }) => name.value))) {
      const list = producers.get(output);
      if (list === undefined) producers.set(output, [index]);
      else list.push(index);
    }
  });
  return producers;
}

function findInputs(stage: StageSpec, linking: Linking): Links['inputs'] {
  return stage.inputs.flatMap(({ from, optional }, index) => {
    const found = findOutput(from, linking);
    if (found === null) return [];
    const what = `\`inputs\` of ${linking.noun} ${quote(stage.name.value)}`;
    if (optional !== true && stage.finally === true) refuseUnsure(what, from.at, true, linking);
    else if (optional !== true) refuseAbsent(linking.spec.stages[found.source]!, what, from.at, true, linking);
    return [{ ...found, index }];
  });
}

function findOutput(
  from: Located<string>,
  { spec, producers, names, problems }: Linking,
): { readonly source: number; readonly output: string } | null {
  // Stages with the same name also have outputs with the same name, which was reported.
  const plain = distinct(producers.get(from.value) ?? [], spec);
  if (plain.length === 1) return { source: plain[0]!, output: from.value };
  if (plain.length > 1) {
    const choices = plain.slice(0, 8).map((index) => quote(`${spec.stages[index]!.name.value}.${from.value}`));
    problems.error(
      'spec/ambiguous-output',
      from.at,
      `${plain.length} outputs have the name ${quote(from.value)}`,
      `name one: ${choices.join(', ')}`,
    );
    problems.gap('edges');
    return null;
  }
  // Names may contain dots, so try every dot as the separator.
  for (let dot = from.value.indexOf('.'); dot !== -1; dot = from.value.indexOf('.', dot + 1)) {
    const source = names.indices.get(from.value.slice(0, dot));
    const output = from.value.slice(dot + 1);
    if (source !== undefined && producers.get(output)?.includes(source)) return { source, output };
  }
  problems.gap('edges');
  problems.error(
    'spec/unknown-output',
    from.at,
    `an input names the output ${quote(from.value)}, which no stage has${problems.suggest(from.value, producers.keys())}`,
    'correct the name, or add it to `outputs` of the stage that writes the data',
  );
  return null;
}

function distinct(stages: readonly number[], spec: Spec): readonly number[] {
  const byName = new Map(stages.map((index) => [spec.stages[index]!.name.value, index]));
  return [...byName.values()];
}

/** A step cannot start after both the success and the failure of another. */
export function refuseBoth(
  step: StageSpec,
  dependsOn: readonly number[],
  onFailure: readonly number[],
  { spec, noun, problems }: Linking,
): void {
  const both = onFailure.find((index) => dependsOn.includes(index));
  if (both === undefined) return;
  const name = quote(spec.stages[both]!.name.value);
  problems.error(
    'spec/bad-value',
    step.name.at,
    `${noun} ${quote(step.name.value)} waits for both the success and the failure of ${noun} ${name}`,
    noun === 'step'
      ? 'remove it from `on_failure`, or from `depends_on`, `stdin_from` and `inputs`'
      : 'remove it from `on_failure`, or from `stdin_from`, `inputs`, `for_each` and `when`',
  );
}
