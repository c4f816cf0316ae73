/** How the stages of a spec hang together: what both kinds share, and one function for each kind. */
import type { InputPlan, OutputPlan } from '../plan/plan.ts';
import type { Problems } from './problems.ts';
import type { PipelineStageSpec, Spec, StageSpec } from './spec.ts';
import { type Located, type Position, quote } from './tree.ts';

/** Of one stage, by index into `spec.stages`. */
export interface Links {
  readonly dependsOn: readonly number[];
  readonly input: InputPlan;
  readonly stdin: number | null;
  /** In the order of `inputs`; those that name nothing are left out. */
  readonly inputs: readonly { readonly source: number; readonly output: string; readonly index: number }[];
}

export interface Linked {
  /** Null: the stage never runs and is no part of the plan. */
  readonly links: readonly (Links | null)[];
  /** Null: reported. */
  readonly output: OutputPlan | null;
}

type Names = ReadonlyMap<string, number>;

export function linkWorkflow(spec: Spec, problems: Problems): Linked {
  const names = stageNames(spec, 'step', problems);
  const producers = outputProducers(spec);
  const links = spec.stages.map((step): Links => {
    const dependsOn = step.dependsOn.flatMap(
      (name) => find(name, names, `\`depends_on\` of step ${quote(step.name.value)}`, 'step', problems) ?? [],
    );
    const stdin = findStdin(step, names, 'step', problems);
    const inputs = findInputs(step, spec, producers, names, problems);
    const all = unique([...dependsOn, ...(stdin === null ? [] : [stdin]), ...inputs.map(({ source }) => source)]);
    return { dependsOn: all, input: { kind: all.length === 0 ? 'run-input' : 'none' }, stdin, inputs };
  });
  return { links, output: workflowOutput(spec, names, links, problems) };
}

function workflowOutput(spec: Spec, names: Names, links: readonly Links[], problems: Problems): OutputPlan | null {
  if (spec.output !== null) return outputOf(spec, find(spec.output, names, '`output_step`', 'step', problems));
  const needed = new Set(links.flatMap(({ dependsOn }) => dependsOn));
  const leaves = spec.stages.map((_, index) => index).filter((index) => !needed.has(index));
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

function outputOf(spec: Spec, stage: number | null): OutputPlan | null {
  return stage === null ? null : { kind: 'stage', stage: spec.stages[stage]!.name.value };
}

export function linkPipeline(spec: Spec, problems: Problems): Linked {
  const names = stageNames(spec, 'box', problems);
  const stages = placeBoxes(spec, names, problems);
  const place = new Map(stages.flatMap(({ boxes }, position) => boxes.map((box) => [box, position] as const)));
  const producers = outputProducers(spec);
  const links = spec.stages.map((box, index): Links | null => {
    const position = place.get(index);
    // Names are checked in boxes that never run too.
    const stdin = findStdin(box, names, 'box', problems);
    const inputs = findInputs(box, spec, producers, names, problems);
    if (position === undefined) return null;
    const isBefore = (source: number, at: Position): boolean => {
      const sourcePlace = place.get(source);
      if (sourcePlace !== undefined && sourcePlace < position) return true;
      const from = quote(spec.stages[source]!.name.value);
      if (source === index) {
        problems.error('spec/cycle', at, `box ${from} takes data of itself`, 'take it of a box of an earlier stage');
        return false;
      }
      problems.error(
        'spec/producer-after-consumer',
        at,
        `box ${quote(box.name.value)} takes data of box ${from}, which ${sourcePlace === undefined ? 'is in no stage' : 'does not run before it'}`,
        `put ${from} into an earlier stage`,
      );
      return false;
    };
    const earlier = position === 0 ? null : stages[position - 1]!;
    const usableStdin = stdin !== null && isBefore(stdin, box.run!.stdinFrom!.at) ? stdin : null;
    const usableInputs = inputs.filter(({ source, index: input }) => isBefore(source, box.inputs[input]!.from.at));
    const dependsOn = unique([
      ...(earlier?.boxes ?? []),
      ...(usableStdin === null ? [] : [usableStdin]),
      ...usableInputs.map(({ source }) => source),
    ]);
    return { dependsOn, input: carry(earlier, spec), stdin: usableStdin, inputs: usableInputs };
  });
  return { links, output: pipelineOutput(spec, names, place, stages.at(-1) ?? null, problems) };
}

interface PlacedStage {
  readonly type: PipelineStageSpec['variant'];
  readonly boxes: readonly number[];
}

function placeBoxes(spec: Spec, names: Names, problems: Problems): readonly PlacedStage[] {
  if (spec.pipelineStages === null) return spec.stages.map((_, index) => ({ type: 'box', boxes: [index] }));
  const used = new Map<number, Position>();
  const stages = spec.pipelineStages.map((stage): PlacedStage => ({
    type: stage.variant,
    boxes: (stage.variant === 'box' ? [stage.box] : stage.boxes).flatMap((name) => {
      const box = find(name, names, 'a stage', 'box', problems);
      if (box === null) return [];
      const before = used.get(box);
      used.set(box, name.at);
      if (before === undefined) return [box];
      problems.error(
        'spec/box-used-twice',
        name.at,
        `box ${quote(name.value)} stands in \`stages\` twice, first on line ${before.line}`,
        'keep one place, or write a second box',
      );
      return [];
    }),
  }));
  spec.stages.forEach(({ name }, index) => {
    if (!used.has(index))
      problems.warning(
        'spec/box-unused',
        name.at,
        `box ${quote(name.value)} is in no stage and never runs`,
        'add it to `stages`, or take it out',
      );
  });
  return stages.filter(({ boxes }) => boxes.length > 0);
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
    const box = find(spec.output, names, '`output_box`', 'box', problems);
    if (box === null || place.has(box)) return outputOf(spec, box);
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
  return last.type === 'box' ? outputOf(spec, last.boxes[0]!) : { kind: 'merge', stages: idsOf(spec, last) };
}

function idsOf(spec: Spec, { boxes }: PlacedStage): readonly string[] {
  return boxes.map((box) => spec.stages[box]!.name.value);
}

function stageNames(spec: Spec, noun: string, problems: Problems): Names {
  const names = new Map<string, number>();
  spec.stages.forEach(({ name, outputs }, index) => {
    const first = names.get(name.value);
    if (first === undefined) names.set(name.value, index);
    else
      problems.error(
        'spec/duplicate-name',
        name.at,
        `two ${noun === 'box' ? 'boxes' : 'steps'} have the name ${quote(name.value)}, the first on line ${spec.stages[first]!.name.at.line}`,
        'rename one of them',
      );
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
  return names;
}

function find(
  name: Located<string>,
  names: Names,
  what: string,
  noun: 'step' | 'box',
  problems: Problems,
): number | null {
  const index = names.get(name.value);
  if (index !== undefined) return index;
  problems.error(
    noun === 'step' ? 'spec/unknown-step' : 'spec/unknown-box',
    name.at,
    `${what} names the ${noun} ${quote(name.value)}, which does not exist${problems.suggest(name.value, names.keys())}`,
    `mend the name, or add the ${noun}`,
  );
  return null;
}

function findStdin(stage: StageSpec, names: Names, noun: 'step' | 'box', problems: Problems): number | null {
  const name = stage.run?.stdinFrom ?? null;
  return name === null
    ? null
    : find(name, names, `\`stdin_from\` of ${noun} ${quote(stage.name.value)}`, noun, problems);
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
  problems: Problems,
): Links['inputs'] {
  return stage.inputs.flatMap(({ from }, index) => {
    const found = findOutput(from, spec, producers, names, problems);
    return found === null ? [] : [{ ...found, index }];
  });
}

function findOutput(
  from: Located<string>,
  spec: Spec,
  producers: ReadonlyMap<string, readonly number[]>,
  names: Names,
  problems: Problems,
): { readonly source: number; readonly output: string } | null {
  const plain = producers.get(from.value) ?? [];
  if (plain.length === 1) return { source: plain[0]!, output: from.value };
  if (plain.length > 1) {
    const choices = plain.slice(0, 8).map((index) => quote(`${spec.stages[index]!.name.value}.${from.value}`));
    problems.error(
      'spec/ambiguous-output',
      from.at,
      `${plain.length} outputs have the name ${quote(from.value)}`,
      `say whose: ${choices.join(', ')}`,
    );
    return null;
  }
  // Names may hold dots themselves: every way to part them is looked at.
  for (let dot = from.value.indexOf('.'); dot !== -1; dot = from.value.indexOf('.', dot + 1)) {
    const source = names.get(from.value.slice(0, dot));
    const output = from.value.slice(dot + 1);
    if (source !== undefined && producers.get(output)?.includes(source)) return { source, output };
  }
  problems.error(
    'spec/unknown-output',
    from.at,
    `an input is from ${quote(from.value)}, which no \`outputs\` name${problems.suggest(from.value, producers.keys())}`,
    'mend the name, or add it to `outputs` of what makes the data',
  );
  return null;
}

function unique(numbers: readonly number[]): readonly number[] {
  return [...new Set(numbers)].sort((a, b) => a - b);
}
