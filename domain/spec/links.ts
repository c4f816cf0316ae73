/** How the stages of a spec hang together: what both kinds share, and one function for each kind. */
import type { InputPlan, OutputPlan } from '../plan/plan.ts';
import { itemSourceOf } from './compile-items.ts';
import type { Gap, Problems } from './problems.ts';
import type { LostNames, PipelineStageSpec, Spec, StageSpec } from './spec.ts';
import { type Located, type Position, quote } from './tree.ts';

/** Of one stage, by index into `spec.stages`. */
export interface Links {
  readonly dependsOn: readonly number[];
  /** One of these has to fail; empty: none. */
  readonly onFailure: readonly number[];
  readonly input: InputPlan;
  readonly stdin: number | null;
  /** Whose output is the list of items. */
  readonly items: number | null;
  /** In the order of `inputs`; those that name nothing are left out. */
  readonly inputs: readonly { readonly source: number; readonly output: string; readonly index: number }[];
  /** Whose workspace it goes on with. */
  readonly workspace: number | null;
}

export interface Linked {
  /** Null: the stage never runs and is no part of the plan. */
  readonly links: readonly (Links | null)[];
  /** Null: reported. */
  readonly output: OutputPlan | null;
}

/** Of each stage, those that its condition names, and those that its arguments and variables name. */
export interface Reads {
  readonly conditions: readonly (readonly Located<string>[])[];
  readonly texts: readonly (readonly Located<string>[])[];
}

interface Names {
  readonly indices: ReadonlyMap<string, number>;
  /** With `finally`. */
  readonly last: ReadonlySet<number>;
  readonly lost: LostNames;
}

export function linkStages(spec: Spec, reads: Reads, problems: Problems): Linked {
  switch (spec.kind) {
    case 'workflow':
      return linkWorkflow(spec, reads, problems);
    case 'pipeline':
      return linkPipeline(spec, reads, problems);
    case 'agent':
    case 'sandbox':
      return {
        links: [
          {
            dependsOn: [],
            onFailure: [],
            input: { kind: 'run-input' },
            stdin: null,
            items: null,
            inputs: [],
            workspace: null,
          },
        ],
        output: outputOf(spec, 0),
      };
  }
}

function linkWorkflow(spec: Spec, reads: Reads, problems: Problems): Linked {
  const names = stageNames(spec, 'step', problems);
  const producers = outputProducers(spec);
  const links = spec.stages.map((step, index): Links => {
    const dependsOn = step.dependsOn.flatMap(
      (name) => find(name, names, `\`depends_on\` of step ${quote(step.name.value)}`, 'step', 'edges', problems) ?? [],
    );
    const onFailure = findFailures(step, names, 'step', problems);
    const stdin = findStdin(step, spec, names, 'step', problems);
    const inputs = findInputs(step, spec, producers, names, 'step', problems);
    const items = findItems(step, spec, names, 'step', problems);
    const workspace = findWorkspace(step, spec, names, 'step', problems);
    const taken = [stdin, items, workspace].filter((source) => source !== null);
    const all = unique([
      ...dependsOn,
      ...taken,
      ...inputs.map(({ source }) => source),
      ...findReads(step, reads, index, spec, names, 'step', problems).map(({ source }) => source),
    ]);
    refuseBoth(spec, step, 'step', all, onFailure, problems);
    if (step.finally === true) return linksOfLast(inputs);
    const isFirst = all.length === 0 && onFailure.length === 0;
    return {
      dependsOn: all,
      onFailure,
      input: { kind: isFirst ? 'run-input' : 'none' },
      stdin,
      items,
      inputs,
      workspace,
    };
  });
  return { links, output: workflowOutput(spec, names, links, problems) };
}

function workflowOutput(spec: Spec, names: Names, links: readonly Links[], problems: Problems): OutputPlan | null {
  if (spec.output !== null) return outputOf(spec, find(spec.output, names, '`output_step`', 'step', null, problems));
  const needed = new Set(links.flatMap(({ dependsOn }) => dependsOn));
  const exceptional = afterFailures(links);
  const leaves = spec.stages
    .map((_, index) => index)
    .filter((index) => !needed.has(index) && !exceptional.has(index) && !names.last.has(index));
  // Without a leaf every step is in a cycle, which is reported as one.
  if (leaves.length <= 1) return outputOf(spec, leaves[0] ?? null);
  const shown = leaves.slice(0, 8).map((index) => quote(spec.stages[index]!.name.value));
  problems.error(
    'spec/output-needed',
    spec.sectionAt,
    `${leaves.length} steps have nothing after them, so the result could be that of any: ${shown.join(', ')}${leaves.length > 8 ? ', …' : ''}`,
    'name one in `output_step`, or add a step that depends on them',
  );
  return null;
}

/** Steps that run only after a failure: a run that succeeds has no result of them. */
function afterFailures(links: readonly Links[]): ReadonlySet<number> {
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

/** A step cannot start after both the success and the failure of another. */
function refuseBoth(
  spec: Spec,
  step: StageSpec,
  noun: 'step' | 'box',
  dependsOn: readonly number[],
  onFailure: readonly number[],
  problems: Problems,
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

function outputOf(spec: Spec, stage: number | null): OutputPlan | null {
  return stage === null ? null : { kind: 'stage', stage: spec.stages[stage]!.name.value };
}

function linkPipeline(spec: Spec, reads: Reads, problems: Problems): Linked {
  const names = stageNames(spec, 'box', problems);
  const stages = placeBoxes(spec, names, problems);
  const place = new Map(stages.flatMap(({ boxes }, position) => boxes.map((box) => [box, position] as const)));
  const producers = outputProducers(spec);
  const links = spec.stages.map((box, index): Links | null => {
    const position = place.get(index);
    // Names are checked in boxes that never run too.
    const stdin = findStdin(box, spec, names, 'box', problems);
    const inputs = findInputs(box, spec, producers, names, 'box', problems);
    const read = findReads(box, reads, index, spec, names, 'box', problems);
    const items = findItems(box, spec, names, 'box', problems);
    const workspace = findWorkspace(box, spec, names, 'box', problems);
    const onFailure = findFailures(box, names, 'box', problems);
    if (isAside(box)) {
      const taken = [stdin, items, workspace].filter((source) => source !== null);
      const dependsOn = unique([...taken, ...inputs.map(({ source }) => source), ...read.map(({ source }) => source)]);
      refuseUnused(spec, box, [...dependsOn, ...onFailure], (source) => place.has(source), problems);
      if (box.finally === true) return linksOfLast(inputs);
      refuseBoth(spec, box, 'box', dependsOn, onFailure, problems);
      return { dependsOn, onFailure, input: { kind: 'none' }, stdin, items, inputs, workspace };
    }
    if (position === undefined) return null;
    const isBefore = (source: number, at: Position): boolean => {
      const sourcePlace = place.get(source);
      if (sourcePlace !== undefined && sourcePlace < position) return true;
      const from = quote(spec.stages[source]!.name.value);
      if (source === index) {
        problems.error('spec/cycle', at, `box ${from} takes its own data`, 'take it from a box of an earlier stage');
        return false;
      }
      problems.error(
        'spec/producer-after-consumer',
        at,
        `box ${quote(box.name.value)} takes data of box ${from}, which ${sourcePlace === undefined ? 'is in no stage' : 'does not run before it'}`,
        isAside(spec.stages[source]!)
          ? `remove \`on_failure\` from ${from}, and put it into an earlier stage`
          : `put ${from} into an earlier stage`,
      );
      return false;
    };
    const earlier = position === 0 ? null : stages[position - 1]!;
    const giver = giverBefore(spec, stages, position);
    const usableStdin = stdin !== null && isBefore(stdin, box.run!.stdinFrom!.at) ? stdin : null;
    const usableInputs = inputs.filter(({ source, index: input }) => isBefore(source, box.inputs[input]!.from.at));
    const usableWorkspace = workspace !== null && isBefore(workspace, box.workspace!.from!.at) ? workspace : null;
    const usableItems = items !== null && isBefore(items, box.forEach!.at) ? items : null;
    const dependsOn = unique([
      ...(earlier?.boxes ?? []),
      ...(giver?.boxes ?? []),
      ...(usableItems === null ? [] : [usableItems]),
      ...(usableWorkspace === null ? [] : [usableWorkspace]),
      ...(usableStdin === null ? [] : [usableStdin]),
      ...usableInputs.map(({ source }) => source),
      ...read.filter(({ source, at }) => isBefore(source, at)).map(({ source }) => source),
    ]);
    return {
      dependsOn,
      onFailure: [],
      input: carry(giver, spec),
      stdin: usableStdin,
      items: usableItems,
      inputs: usableInputs,
      workspace: usableWorkspace,
    };
  });
  return {
    links,
    output: pipelineOutput(
      spec,
      names,
      place,
      giverBefore(spec, stages, stages.length) ?? stages.at(-1) ?? null,
      problems,
    ),
  };
}

/** A box that has no place in the order: it runs after a failure, or after all others. */
function isAside({ onFailure, finally: isLast }: StageSpec): boolean {
  return onFailure.length > 0 || isLast === true;
}

/** A box that is in no stage never comes to anything. */
function refuseUnused(
  spec: Spec,
  box: StageSpec,
  sources: readonly number[],
  isPlaced: (source: number) => boolean,
  problems: Problems,
): void {
  const unused = sources.find((source) => !isPlaced(source) && !isAside(spec.stages[source]!));
  if (unused === undefined || problems.gaps().includes('order')) return;
  const name = quote(spec.stages[unused]!.name.value);
  problems.error(
    'spec/unknown-box',
    box.name.at,
    `box ${quote(box.name.value)} names box ${name}, which is in no stage and never runs`,
    `add ${name} to \`stages\`, or remove what names it`,
  );
}

interface PlacedStage {
  readonly type: Exclude<PipelineStageSpec['variant'], 'loop'>;
  readonly boxes: readonly number[];
}

function placeBoxes(spec: Spec, names: Names, problems: Problems): readonly PlacedStage[] {
  if (spec.pipelineStages === null)
    return spec.stages.flatMap((box, index) => (isAside(box) ? [] : [{ type: 'box', boxes: [index] }]));
  const used = new Map<number, Position>();
  const stages = spec.pipelineStages.map((stage) => ({
    type: stage.variant,
    boxes: (stage.variant === 'box' ? [stage.box] : stage.boxes).flatMap((name) => {
      const box = find(name, names, 'a stage', 'box', 'order', problems);
      if (box === null) return [];
      if (isAside(spec.stages[box]!)) {
        problems.error(
          'spec/bad-value',
          name.at,
          `box ${quote(name.value)} is in \`stages\` and has \`on_failure\`, which says when it runs`,
          'remove it from `stages`, or remove `on_failure`',
        );
        return [];
      }
      const before = used.get(box);
      used.set(box, name.at);
      if (before === undefined) return [box];
      problems.error(
        'spec/box-used-twice',
        name.at,
        `box ${quote(name.value)} is in \`stages\` twice, first on line ${before.line}`,
        'keep one place, or write a second box',
      );
      return [];
    }),
  }));
  spec.stages.forEach((box, index) => {
    const { name } = box;
    if (!used.has(index) && !isAside(box))
      problems.warning(
        'spec/box-unused',
        name.at,
        `box ${quote(name.value)} is in no stage and never runs`,
        'add it to `stages`, or remove it',
      );
  });
  // The boxes of a loop come one after the other.
  const placed = stages.flatMap(({ type, boxes }): readonly PlacedStage[] =>
    type === 'loop' ? boxes.map((box) => ({ type: 'box', boxes: [box] })) : [{ type, boxes }],
  );
  return placed.filter(({ boxes }) => boxes.length > 0);
}

/** The last stage before a position that has data, with the boxes of it that have: data goes through waits. */
function giverBefore(spec: Spec, stages: readonly PlacedStage[], position: number): PlacedStage | null {
  for (let before = position - 1; before >= 0; before -= 1) {
    const { type, boxes } = stages[before]!;
    const giving = boxes.filter((box) => spec.stages[box]!.wait === null);
    if (giving.length > 0) return { type, boxes: giving };
  }
  return null;
}

/** What a stage finds of the one before it. */
function carry(earlier: PlacedStage | null, spec: Spec): InputPlan {
  if (earlier === null) return { kind: 'run-input' };
  const ids = idsOf(spec, earlier);
  return earlier.type === 'box' ? { kind: 'carry', stage: ids[0]! } : { kind: 'merge', stages: ids };
}

/** The box that the spec names; else what a stage after the last one would find. */
function pipelineOutput(
  spec: Spec,
  names: Names,
  place: ReadonlyMap<number, number>,
  last: PlacedStage | null,
  problems: Problems,
): OutputPlan | null {
  if (spec.output !== null) {
    const box = find(spec.output, names, '`output_box`', 'box', null, problems);
    if (box === null || place.has(box)) return outputOf(spec, box);
    if (problems.gaps().includes('order')) return null;
    problems.error(
      'spec/unknown-box',
      spec.output.at,
      `\`output_box\` names the box ${quote(spec.output.value)}, which is in no stage`,
      'name a box that runs',
    );
    return null;
  }
  // Without a last stage nothing is left of the boxes but mistakes, which are reported.
  if (last === null) return null;
  // Of a pipeline of waits alone, which has no result, any of them says so; a merge of them would be one of nothing.
  const isMerge = last.type !== 'box' && last.boxes.some((box) => spec.stages[box]!.wait === null);
  return isMerge ? { kind: 'merge', stages: idsOf(spec, last) } : outputOf(spec, last.boxes[0]!);
}

function idsOf(spec: Spec, { boxes }: PlacedStage): readonly string[] {
  return boxes.map((box) => spec.stages[box]!.name.value);
}

function stageNames(spec: Spec, noun: string, problems: Problems): Names {
  const indices = new Map<string, number>();
  spec.stages.forEach(({ name, outputs }, index) => {
    const first = indices.get(name.value);
    if (first === undefined) indices.set(name.value, index);
    else {
      // Who refers to the name may mean either.
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

function find(
  name: Located<string>,
  { indices, last, lost }: Names,
  what: string,
  noun: 'step' | 'box',
  gap: Gap | null,
  problems: Problems,
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
  // It may be the stage whose name was reported.
  if (lost.written.has(name.value) || (lost.hasMore && suggestion === '')) return null;
  problems.error(
    noun === 'step' ? 'spec/unknown-step' : 'spec/unknown-box',
    name.at,
    `${what} names the ${noun} ${quote(name.value)}, which does not exist${suggestion}`,
    `correct the name, or add the ${noun}`,
  );
  return null;
}

function findStdin(
  stage: StageSpec,
  spec: Spec,
  names: Names,
  noun: 'step' | 'box',
  problems: Problems,
): number | null {
  const name = stage.run?.stdinFrom ?? null;
  if (name === null) return null;
  const what = `\`stdin_from\` of ${noun} ${quote(stage.name.value)}`;
  const source = find(name, names, what, noun, 'edges', problems);
  if (source === null) return null;
  if (stage.finally === true) refuseUnsure(what, name.at, { noun, isInput: false }, problems);
  else refuseAbsent(spec.stages[source]!, what, name.at, { noun, isInput: false }, problems);
  return source;
}

function findWorkspace(
  stage: StageSpec,
  spec: Spec,
  names: Names,
  noun: 'step' | 'box',
  problems: Problems,
): number | null {
  const name = stage.workspace?.from ?? null;
  if (name === null) return null;
  const what = `\`workspace\` of ${noun} ${quote(stage.name.value)}`;
  const source = find(name, names, what, noun, 'edges', problems);
  if (source === null) return null;
  const giver = spec.stages[source]!;
  if (giver.workspace !== null) {
    refuseMaybe(giver, what, name.at, noun, problems);
    return source;
  }
  problems.error(
    'spec/bad-value',
    name.at,
    `${what} goes on with that of ${noun} ${quote(name.value)}, which has none`,
    `name a ${noun} with \`workspace\`, or write \`git\``,
  );
  return null;
}

/** It may not have been worked in where the stage starts. */
function refuseMaybe(
  { name, when, continueOnError }: StageSpec,
  what: string,
  at: Position,
  noun: 'step' | 'box',
  problems: Problems,
): void {
  if (continueOnError !== true && when === null) return;
  const [key, then] = when === null ? ['continue_on_error', 'after its failure'] : ['when', 'where that does not hold'];
  problems.error(
    'spec/may-be-absent',
    at,
    `${what} goes on with that of ${noun} ${quote(name.value)}, which has \`${key}\`: ${then} there is none`,
    `remove \`${key}\` there, or start from \`git\``,
  );
}

/** Of a stage with `finally`. */
function refuseUnsure(
  what: string,
  at: Position,
  { noun, isInput }: { readonly noun: 'step' | 'box'; readonly isInput: boolean },
  problems: Problems,
): void {
  problems.error(
    'spec/may-be-absent',
    at,
    `${what} takes data of another ${noun}, and it runs also where that ${noun} has none, because it has \`finally\``,
    isInput ? 'add `optional: true` to the input' : 'take it as an input with `optional: true`',
  );
}

/** There may be no data where the stage starts. */
function refuseAbsent(
  source: StageSpec,
  what: string,
  at: Position,
  { noun, isInput }: { readonly noun: 'step' | 'box'; readonly isInput: boolean },
  problems: Problems,
): void {
  if (source.wait !== null) {
    problems.error(
      'spec/may-be-absent',
      at,
      `${what} takes data of ${noun} ${quote(source.name.value)}, which waits and has none`,
      `name a ${noun} that runs a command`,
    );
    return;
  }
  const { continueOnError, when } = source;
  if (continueOnError !== true && when === null) return;
  const [key, then] = when === null ? ['continue_on_error', 'after its failure'] : ['when', 'where that does not hold'];
  problems.error(
    'spec/may-be-absent',
    at,
    `${what} takes data of ${noun} ${quote(source.name.value)}, which has \`${key}\`: ${then} there is none`,
    `${isInput ? 'add `optional: true` to the input' : 'take it as an input with `optional: true`'}, remove \`${key}\` there, or let a ${noun} between them succeed with or without the data`,
  );
}

function findFailures(stage: StageSpec, names: Names, noun: 'step' | 'box', problems: Problems): readonly number[] {
  const what = `\`on_failure\` of ${noun} ${quote(stage.name.value)}`;
  return unique(stage.onFailure.flatMap((name) => find(name, names, what, noun, 'edges', problems) ?? []));
}

/** Of a stage with `finally`: no edges, and what there is of others. */
function linksOfLast(inputs: Links['inputs']): Links {
  return {
    dependsOn: [],
    onFailure: [],
    input: { kind: 'run-input' },
    stdin: null,
    items: null,
    inputs,
    workspace: null,
  };
}

function findReads(
  stage: StageSpec,
  { conditions, texts }: Reads,
  index: number,
  spec: Spec,
  names: Names,
  noun: 'step' | 'box',
  problems: Problems,
): readonly { readonly source: number; readonly at: Position }[] {
  const findAll = (reads: readonly Located<string>[], what: string) =>
    reads.flatMap((name) => {
      const source = find(name, names, what, noun, 'edges', problems);
      return source === null ? [] : [{ source, at: name.at }];
    });
  const inTexts = `a placeholder of ${noun} ${quote(stage.name.value)}`;
  const taken = findAll(texts[index]!, inTexts);
  for (const { source, at } of taken) {
    // Of one that may be absent the expression says what it does then.
    const { wait, name } = spec.stages[source]!;
    if (stage.finally === true)
      problems.error(
        'spec/may-be-absent',
        at,
        `${inTexts} reads ${noun} ${quote(name.value)}, and it runs also where that has no output, because it has \`finally\``,
        'take the data as an input with `optional: true`',
      );
    else if (wait !== null)
      problems.error(
        'spec/may-be-absent',
        at,
        `${inTexts} reads ${noun} ${quote(name.value)}, which waits and has no output`,
        `name a ${noun} that runs a command`,
      );
  }
  return [...findAll(conditions[index]!, `\`when\` of ${noun} ${quote(stage.name.value)}`), ...taken];
}

function findItems(
  stage: StageSpec,
  spec: Spec,
  names: Names,
  noun: 'step' | 'box',
  problems: Problems,
): number | null {
  const list = itemSourceOf(stage);
  if (list?.kind !== 'stage') return null;
  const what = `\`for_each\` of ${noun} ${quote(stage.name.value)}`;
  const source = find(list.name, names, what, noun, 'edges', problems);
  if (source !== null) refuseAbsent(spec.stages[source]!, what, list.name.at, { noun, isInput: false }, problems);
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

function findInputs(
  stage: StageSpec,
  spec: Spec,
  producers: ReadonlyMap<string, readonly number[]>,
  names: Names,
  noun: 'step' | 'box',
  problems: Problems,
): Links['inputs'] {
  return stage.inputs.flatMap(({ from, optional }, index) => {
    const found = findOutput(from, spec, producers, names, problems);
    if (found === null) return [];
    const what = `\`inputs\` of ${noun} ${quote(stage.name.value)}`;
    if (optional !== true && stage.finally === true) refuseUnsure(what, from.at, { noun, isInput: true }, problems);
    else if (optional !== true)
      refuseAbsent(spec.stages[found.source]!, what, from.at, { noun, isInput: true }, problems);
    return [{ ...found, index }];
  });
}

function findOutput(
  from: Located<string>,
  spec: Spec,
  producers: ReadonlyMap<string, readonly number[]>,
  names: Names,
  problems: Problems,
): { readonly source: number; readonly output: string } | null {
  // Stages with one name give their outputs under one name too, which is reported already.
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
  // Names may hold dots themselves: every way to part them is looked at.
  for (let dot = from.value.indexOf('.'); dot !== -1; dot = from.value.indexOf('.', dot + 1)) {
    const source = names.indices.get(from.value.slice(0, dot));
    const output = from.value.slice(dot + 1);
    if (source !== undefined && producers.get(output)?.includes(source)) return { source, output };
  }
  problems.gap('edges');
  problems.error(
    'spec/unknown-output',
    from.at,
    `an input is from ${quote(from.value)}, which no \`outputs\` name${problems.suggest(from.value, producers.keys())}`,
    'correct the name, or add it to `outputs` of what makes the data',
  );
  return null;
}

function distinct(stages: readonly number[], spec: Spec): readonly number[] {
  const byName = new Map(stages.map((index) => [spec.stages[index]!.name.value, index]));
  return [...byName.values()];
}

function unique(numbers: readonly number[]): readonly number[] {
  return [...new Set(numbers)].sort((a, b) => a - b);
}
