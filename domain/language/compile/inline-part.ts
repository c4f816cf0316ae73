/**
 * Inlines a part into the plan of the spec that uses it. Its stages are named after the using stage with a dot. They
 * come after the stages for which that stage waits, and before the stage that ends the part. Input and output are
 * plans; mistakes of the part were reported when it was compiled.
 */
import type {
  ConditionPlan,
  EachPlan,
  EdgePlan,
  InputPlan,
  OutputPlan,
  PartOutput,
  Plan,
  ScopePlan,
  StagePlan,
  TextsPlan,
  WorkPlan,
} from '../../plan/plan.ts';
import { joinSources } from '../../plan/both-conditions.ts';
import { STAGE_DEFAULTS } from '../../plan/defaults.ts';
import { listEdgesOnSuccess, partOf } from '../../plan/work.ts';
import { findWorkspaceGiver } from '../../plan/workspace.ts';
import type { CheckedExpression } from '../expression/check.ts';
import { createMapping } from '../../units/mapping.ts';

/** The place of a part: fields of the stage that uses it. */
export interface PartPlace extends Pick<
  StagePlan,
  'after' | 'anyFailure' | 'when' | 'input' | 'continueOnError' | 'mock' | 'outputSchema'
> {
  readonly id: string;
  readonly source: string;
  /** If the part is passed over, or its failure is tolerated, it hands its input on to the next stage. */
  readonly handsOn: boolean;
  /** Present if the part runs for each item; absent: it runs once. */
  readonly each?: EachPlan | undefined;
}

/** Checked expressions, by source, for those that the part has already compiled. */
export interface ReadExpressions {
  readonly condition: (source: string) => CheckedExpression;
  readonly text: (source: string) => CheckedExpression;
}

export interface InlinedPart {
  /** The stages of the part; the last one ends it. */
  readonly stages: readonly StagePlan[];
  readonly scopes: readonly ScopePlan[];
  /** Absent: no stage of the part has `finally`. */
  readonly graceMs: Plan['graceMs'];
}

export function inlinePart(part: Plan, { each, ...place }: PartPlace, read: ReadExpressions): InlinedPart {
  const renameStage = (name: string): string => `${place.id}.${name}`;
  // With items, the stage with `each` has the edges and the condition of the place; stages within an item do not.
  const within = each === undefined ? place : withItemInput(place);
  const stages = part.stages.map((stage) => inlineStage(stage, within, renameStage, read));
  const end = endOf(part, within, renameStage);
  return {
    stages:
      each === undefined
        ? [...stages, end]
        : [...stages.map((stage) => ({ of: place.id, ...stage })), withItems(end, place, each)],
    scopes: part.scopes.map((scope) => ({
      ...scope,
      id: renameStage(scope.id),
      stages: scope.stages.map(renameStage),
    })),
    graceMs: part.graceMs,
  };
}

/** Returns the place as stages within an item have it: no edges, no condition, and the item as input. */
function withItemInput({ continueOnError: _tolerated, ...place }: PartPlace): PartPlace {
  return { ...place, after: [], anyFailure: undefined, when: null, input: { kind: 'run-input' }, handsOn: false };
}

function withItems(end: StagePlan, place: PartPlace, each: EachPlan): StagePlan {
  return {
    ...end,
    after: [...withEdges(place.after, readBy(place)), ...end.after],
    ...(place.anyFailure === true ? { anyFailure: true } : {}),
    when: place.when,
    ...(place.continueOnError === true ? { continueOnError: true } : {}),
    each,
  };
}

function inlineStage(
  stage: StagePlan,
  around: PartPlace,
  named: (name: string) => string,
  read: ReadExpressions,
): StagePlan {
  if (stage.finally === true) return inlineLast(stage, around, named, read);
  const { anyFailure: own, again, loop, texts, of, ...rest } = stage;
  // A stage of an inner item has no edges and no condition of the place; the stage with `each` has them.
  const place = of === undefined ? around : withItemInput(around);
  const isWithin = (edge: EdgePlan): boolean =>
    stage.each !== undefined && partOf(stage.work)?.stages.includes(edge.stage) === true;
  const isFirst = stage.after.every(isWithin);
  const anyFailure = isFirst ? place.anyFailure : own;
  const kept = stage.after.filter((edge) => !isFirst || isWithin(edge));
  const edges = [
    ...(isFirst ? place.after : []),
    ...kept.map((edge): EdgePlan => ({ ...edge, stage: named(edge.stage) })),
  ];
  const input = stage.input.kind === 'run-input' ? place.input : renameInput(stage.input, named);
  const data = stage.input.kind === 'run-input' ? listEdgesOnSuccess(sourcesOf(place.input)) : [];
  const { each } = stage;
  return {
    ...rest,
    id: named(stage.id),
    ...(of === undefined ? {} : { of: named(of) }),
    scope: stage.scope === null ? null : named(stage.scope),
    after: withEdges(edges, [...data, ...readBy(place)]),
    ...(anyFailure === true ? { anyFailure } : {}),
    when: joinConditions(place.when, stage.when, named, read),
    ...(each?.list.kind === 'stage-output'
      ? { each: { ...each, list: { ...each.list, stage: named(each.list.stage) } } }
      : {}),
    ...(again === undefined ? {} : { again: again.map(named) }),
    ...(loop === undefined ? {} : { loop: { ...loop, until: renameCondition(loop.until, {}, named, read) } }),
    work: renameWork(stage.work, named),
    ...(texts === undefined ? {} : { texts: renameTexts(texts, named, read) }),
    input,
    inputs: stage.inputs.map((taken) => ({ ...taken, fromStage: named(taken.fromStage) })),
    ...renameWorkspace(stage, named),
  };
}

function renameWorkspace(stage: StagePlan, named: (name: string) => string): Pick<StagePlan, 'workspace'> {
  const giver = findWorkspaceGiver(stage);
  if (stage.workspace === undefined || giver === null) return {};
  return { workspace: { ...stage.workspace, from: { kind: 'stage', stage: named(giver) } } };
}

/**
 * Inlines a stage with `finally`. It runs after all stages of the run, also those of the part. So it has no edges, and
 * its input is the run's input or none.
 */
function inlineLast(
  stage: StagePlan,
  place: PartPlace,
  named: (name: string) => string,
  read: ReadExpressions,
): StagePlan {
  const isGiven = stage.input.kind === 'run-input' && place.input.kind === 'run-input';
  return {
    ...stage,
    id: named(stage.id),
    scope: stage.scope === null ? null : named(stage.scope),
    when: joinConditions(place.when, stage.when, named, read),
    input: isGiven ? stage.input : { kind: 'none' },
    inputs: stage.inputs.map((taken) => ({ ...taken, fromStage: named(taken.fromStage) })),
  };
}

/**
 * Returns the stage that ends the part. It waits for the success of everything in the part, and for the stages whose
 * output it hands on.
 */
function endOf(part: Plan, place: PartPlace, named: (name: string) => string): StagePlan {
  const taken = part.output.kind === 'stage' ? [part.output.stage] : part.output.stages;
  const isTolerated = place.continueOnError === true;
  const carried = (place.when !== null || isTolerated) && place.handsOn ? place.input : STAGE_DEFAULTS.input;
  const last = [...new Set([...findLastStages(part.stages), ...taken])].map(named);
  const atTheEnd = isTolerated
    ? findEndStages(part.stages).map((id): EdgePlan => ({ stage: named(id), on: 'end' }))
    : [];
  return {
    ...STAGE_DEFAULTS,
    id: place.id,
    scope: null,
    after: withEdges(listEdgesOnSuccess(last), [
      ...atTheEnd,
      ...listEdgesOnSuccess(sourcesOf(carried)),
      ...readBy(place),
    ]),
    when: place.when,
    work: {
      kind: 'part',
      source: place.source,
      stages: part.stages.map(({ id }) => named(id)),
      output: outputOf(part.output, named),
    },
    input: carried,
    ...(isTolerated ? { continueOnError: true } : {}),
    ...(place.mock === undefined ? {} : { mock: place.mock }),
    ...(place.outputSchema === undefined ? {} : { outputSchema: place.outputSchema }),
  };
}

function outputOf(output: OutputPlan, named: (name: string) => string): PartOutput {
  return output.kind === 'stage'
    ? { kind: 'stage', stage: named(output.stage) }
    : { kind: 'merge', of: output.stages.map((name) => ({ name, stage: named(name) })) };
}

/**
 * Returns the stages for which no other stage of the part waits; stages that run only after a failure, or with
 * `finally`, do not count.
 */
function findLastStages(stages: readonly StagePlan[]): readonly string[] {
  const exceptional = findStagesAfterFailure(stages);
  const usual = stages.filter(({ id, finally: isLast }) => isLast !== true && !exceptional.has(id));
  const needed = new Set(usual.flatMap(({ after }) => after.map(({ stage }) => stage)));
  return usual.flatMap(({ id }) => (needed.has(id) ? [] : [id]));
}

/** Returns stages that run only after a failure, because a part ends only after them. */
function findEndStages(stages: readonly StagePlan[]): readonly string[] {
  const exceptional = findStagesAfterFailure(stages);
  const needed = new Set(stages.flatMap(({ after }) => after.map(({ stage }) => stage)));
  return [...exceptional].filter((id) => !needed.has(id));
}

function findStagesAfterFailure(stages: readonly StagePlan[]): ReadonlySet<string> {
  const behind = new Map<string, string[]>(stages.map(({ id }) => [id, []]));
  for (const { id, after } of stages) for (const { stage, on } of after) if (on !== 'end') behind.get(stage)?.push(id);
  const found = new Set(stages.flatMap(({ id, after }) => (after.some(({ on }) => on === 'failure') ? [id] : [])));
  // A loop over a set also visits members that are added while it runs.
  for (const id of found) for (const next of behind.get(id) ?? []) found.add(next);
  return found;
}

/** Returns edges on the end of the stages that the condition of the place reads, for each stage that it decides. */
function readBy({ when }: PartPlace): readonly EdgePlan[] {
  return (when?.stages ?? []).map((stage) => ({ stage, on: 'end' }));
}

function withEdges(edges: readonly EdgePlan[], more: readonly EdgePlan[]): readonly EdgePlan[] {
  const all = new Map(edges.map((edge) => [edge.stage, edge]));
  for (const edge of more) if (!all.has(edge.stage)) all.set(edge.stage, edge);
  return [...all.values()];
}

function sourcesOf(input: InputPlan): readonly string[] {
  return input.kind === 'carry' ? [input.stage] : input.kind === 'merge' ? input.stages : [];
}

function renameInput(input: InputPlan, named: (name: string) => string): InputPlan {
  switch (input.kind) {
    case 'none':
    case 'run-input':
      return input;
    case 'carry':
      return { ...input, stage: named(input.stage) };
    case 'merge':
      return { ...input, stages: input.stages.map(named) };
  }
}

function renameWork(work: WorkPlan, named: (name: string) => string): WorkPlan {
  const part = partOf(work);
  if (part !== null) {
    const { output } = part;
    return {
      ...part,
      stages: part.stages.map(named),
      output:
        output.kind === 'stage'
          ? { ...output, stage: named(output.stage) }
          : { ...output, of: output.of.map(({ name, stage }) => ({ name, stage: named(stage) })) },
    };
  }
  return work.kind === 'command' && work.stdin.kind === 'stage-output'
    ? { ...work, stdin: { ...work.stdin, stage: named(work.stdin.stage) } }
    : work;
}

/** Joins the condition of the part with a stage's own: if the part is passed over, so is each of its stages. */
function joinConditions(
  outer: ConditionPlan | null,
  inner: ConditionPlan | null,
  named: (name: string) => string,
  read: ReadExpressions,
): ConditionPlan | null {
  const own = inner === null ? null : renameCondition(inner, outer?.params ?? {}, named, read);
  if (own === null || outer === null) return own ?? outer;
  return {
    source: joinSources(outer.source, own.source),
    stages: [...new Set([...outer.stages, ...own.stages])],
    params: { ...outer.params, ...own.params },
  };
}

function renameCondition(
  { source, stages, params }: ConditionPlan,
  taken: ConditionPlan['params'],
  named: (name: string) => string,
  read: ReadExpressions,
): ConditionPlan {
  const names = new Map<string, string>();
  for (const name of Object.keys(params)) {
    let other = named(name);
    while (Object.hasOwn(taken, other)) other += '_';
    names.set(name, other);
  }
  return {
    source: renameSource(source, read.condition(source), named, (name) => names.get(name)!),
    stages: stages.map(named),
    params: createMapping(Object.entries(params).map(([name, value]) => [names.get(name)!, value])),
  };
}

/** Renames stages in texts. The parameters keep their names, because texts of two specs are never joined. */
function renameTexts(texts: TextsPlan, named: (name: string) => string, read: ReadExpressions): TextsPlan {
  const renamed = texts.sources.map((source) => renameSource(source, read.text(source), named, (name) => name));
  // After renaming, `stages.a` and `stages["a"]` have the same source.
  const sources = [...new Set(renamed)];
  return {
    ...texts,
    sources,
    stages: texts.stages.map(named),
    texts: texts.texts.map(({ place, parts }) => ({
      place,
      parts: parts.map((part) => (typeof part === 'number' ? sources.indexOf(renamed[part]!) : part)),
    })),
  };
}

function renameSource(
  source: string,
  { stages, params }: CheckedExpression,
  stageNamed: (name: string) => string,
  paramNamed: (name: string) => string,
): string {
  const places = [
    ...stages.map(({ stage, start, nameEnd }) => ({ start, end: nameEnd, root: 'stages', name: stageNamed(stage) })),
    ...params.map(({ name, start, end }) => ({ start, end, root: 'params', name: paramNamed(name) })),
  ];
  let text = source;
  for (const { start, end, root, name } of places.sort((a, b) => b.start - a.start)) {
    const isOptional = /^\w+\s*(?:\.\s*\?|\[\s*\?)/.test(text.slice(start, end));
    text = `${text.slice(0, start)}${root}[${isOptional ? '?' : ''}${JSON.stringify(name)}]${text.slice(end)}`;
  }
  return text;
}
