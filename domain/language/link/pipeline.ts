/** Links a pipeline: its stages run in order, each with one box or several, and boxes take data of earlier stages. */
import type { InputPlan, OutputPlan } from '../../plan/plan.ts';
import { findSources, findStage, type Linking, openLinking, refuseBoth, type Sources, takenOf } from './sources.ts';
import { type LinkResult, type Links, NO_LINKS, outputOf, type Expressions, unique } from './linked.ts';
import type { Problems } from '../text/diagnostics.ts';
import type { PipelineStageSpec, Spec, StageSpec } from '../read/spec.ts';
import type { Position } from '../text/tree.ts';
import { quote } from '../../units/quote.ts';

interface PlacedStage {
  readonly type: Exclude<PipelineStageSpec['variant'], 'loop'>;
  readonly boxes: readonly number[];
}

/** Maps each box in the order to the position of its stage. */
type Places = ReadonlyMap<number, number>;

export function linkPipeline(spec: Spec, reads: Expressions, problems: Problems): LinkResult {
  const linking = openLinking(spec, 'box', reads, problems);
  const stages = placeBoxes(linking);
  const places: Places = new Map(stages.flatMap(({ boxes }, position) => boxes.map((box) => [box, position] as const)));
  const links = spec.stages.map((box, index): Links | null => {
    // Check names also in boxes that never run.
    const sources = findSources(box, index, linking);
    if (isAside(box)) return linksAside(box, sources, places, linking);
    const position = places.get(index);
    return position === undefined ? null : linksInOrder(index, sources, { stages, places, position }, linking);
  });
  const last = giverBefore(spec, stages, stages.length) ?? stages.at(-1) ?? null;
  return { links, output: pipelineOutput(places, last, linking) };
}

/** Whether a box has no place in the order: it runs after a failure, or after all others. */
function isAside({ onFailure, finally: isLast }: StageSpec): boolean {
  return onFailure.length > 0 || isLast === true;
}

function linksAside(box: StageSpec, sources: Sources, places: Places, linking: Linking): Links {
  const { onFailure, stdin, items, inputs, workspace } = sources;
  const dependsOn = unique(takenOf(sources));
  refuseUnused(box, [...dependsOn, ...onFailure], places, linking);
  if (box.finally === true) return { ...NO_LINKS, inputs };
  refuseBoth(box, dependsOn, onFailure, linking);
  return { dependsOn, onFailure, input: { kind: 'none' }, stdin, items, inputs, workspace };
}

/** Links a box of the order: it waits for the stage before it, and for the earlier boxes that it names. */
function linksInOrder(
  index: number,
  { stdin, items, inputs, workspace, read }: Sources,
  {
    stages,
    places,
    position,
  }: { readonly stages: readonly PlacedStage[]; readonly places: Places; readonly position: number },
  linking: Linking,
): Links {
  const { spec } = linking;
  const box = spec.stages[index]!;
  const isUsable = (source: number, at: Position): boolean => isBefore(source, index, at, places, linking);
  const earlier = position === 0 ? null : stages[position - 1]!;
  const giver = giverBefore(spec, stages, position);
  const usable = {
    stdin: stdin !== null && isUsable(stdin, box.run!.stdinFrom!.at) ? stdin : null,
    items: items !== null && isUsable(items, box.forEach!.at) ? items : null,
    inputs: inputs.filter(({ source, index: input }) => isUsable(source, box.inputs[input]!.from.at)),
    workspace: workspace !== null && isUsable(workspace, box.workspace!.from!.at) ? workspace : null,
    onFailure: [],
  };
  const taken = takenOf({ ...usable, read: read.filter(({ source, at }) => isUsable(source, at)) });
  return {
    ...usable,
    dependsOn: unique([...(earlier?.boxes ?? []), ...(giver?.boxes ?? []), ...taken]),
    input: linkInput(giver, spec),
  };
}

/** Whether a box comes before another one that takes its data; reports it otherwise. */
function isBefore(source: number, index: number, at: Position, places: Places, { spec, problems }: Linking): boolean {
  const [place, position] = [places.get(source), places.get(index)!];
  if (place !== undefined && place < position) return true;
  const from = quote(spec.stages[source]!.name.value);
  if (source === index) {
    problems.error('spec/cycle', at, `box ${from} uses its own data`, 'use data of a box of an earlier stage');
    return false;
  }
  problems.error(
    'spec/producer-after-consumer',
    at,
    `box ${quote(spec.stages[index]!.name.value)} uses data of box ${from}, which ${place === undefined ? 'is in no stage' : 'does not run before it'}`,
    isAside(spec.stages[source]!)
      ? `remove \`on_failure\` from ${from}, and put it into an earlier stage`
      : `put ${from} into an earlier stage`,
  );
  return false;
}

/** Rejects a reference to a box that is in no stage: it never runs. */
function refuseUnused(box: StageSpec, sources: readonly number[], places: Places, { spec, problems }: Linking): void {
  const unused = sources.find((source) => !places.has(source) && !isAside(spec.stages[source]!));
  if (unused === undefined || problems.gaps().includes('order')) return;
  const name = quote(spec.stages[unused]!.name.value);
  problems.error(
    'spec/unknown-box',
    box.name.at,
    `box ${quote(box.name.value)} names box ${name}, which is in no stage and never runs`,
    `add ${name} to \`stages\`, or remove the reference`,
  );
}

function placeBoxes(linking: Linking): readonly PlacedStage[] {
  const { spec, problems } = linking;
  if (spec.pipelineStages === null)
    return spec.stages.flatMap((box, index) => (isAside(box) ? [] : [{ type: 'box', boxes: [index] }]));
  const used = new Map<number, Position>();
  const stages = spec.pipelineStages.map((stage) => ({
    type: stage.variant,
    boxes: (stage.variant === 'box' ? [stage.box] : stage.boxes).flatMap((name) => {
      const box = findStage(name, 'a stage', 'order', linking);
      if (box === null) return [];
      if (isAside(spec.stages[box]!)) {
        problems.error(
          'spec/bad-value',
          name.at,
          `box ${quote(name.value)} is in \`stages\` and has \`on_failure\`, which decides when it runs`,
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
  // The boxes of a loop run in sequence.
  const placed = stages.flatMap(({ type, boxes }): readonly PlacedStage[] =>
    type === 'loop' ? boxes.map((box) => ({ type: 'box', boxes: [box] })) : [{ type, boxes }],
  );
  return placed.filter(({ boxes }) => boxes.length > 0);
}

/**
 * Returns the last stage before a position with data, and those of its boxes that have data. Waits have no data, so it
 * skips them.
 */
function giverBefore(spec: Spec, stages: readonly PlacedStage[], position: number): PlacedStage | null {
  for (let before = position - 1; before >= 0; before -= 1) {
    const { type, boxes } = stages[before]!;
    const giving = boxes.filter((box) => spec.stages[box]!.wait === null);
    if (giving.length > 0) return { type, boxes: giving };
  }
  return null;
}

/** Returns the input that a stage gets from the stage before it. */
function linkInput(earlier: PlacedStage | null, spec: Spec): InputPlan {
  if (earlier === null) return { kind: 'run-input' };
  const ids = idsOf(spec, earlier);
  return earlier.type === 'box' ? { kind: 'carry', stage: ids[0]! } : { kind: 'merge', stages: ids };
}

/** Returns the output of the box that the spec names, else the input that a stage after the last one would have. */
function pipelineOutput(places: Places, last: PlacedStage | null, linking: Linking): OutputPlan | null {
  const { spec, problems } = linking;
  if (spec.output !== null) {
    const box = findStage(spec.output, '`output_box`', null, linking);
    if (box === null || places.has(box)) return outputOf(spec, box);
    if (problems.gaps().includes('order')) return null;
    problems.error(
      'spec/unknown-box',
      spec.output.at,
      `\`output_box\` names the box ${quote(spec.output.value)}, which is in no stage`,
      'name a box that runs',
    );
    return null;
  }
  // Without a last stage, all boxes have mistakes, which were reported.
  if (last === null) return null;
  // A pipeline of waits has no result, so the first box of the last stage is its output; a merge would be empty.
  const isMerge = last.type !== 'box' && last.boxes.some((box) => spec.stages[box]!.wait === null);
  return isMerge ? { kind: 'merge', stages: idsOf(spec, last) } : outputOf(spec, last.boxes[0]!);
}

function idsOf(spec: Spec, { boxes }: PlacedStage): readonly string[] {
  return boxes.map((box) => spec.stages[box]!.name.value);
}
