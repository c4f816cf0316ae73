/** Checks the expressions of a plan: they read exactly what their plan lists. */
import type { ConditionPlan, Plan, TextPlace } from '../../plan/plan.ts';
import { hasText, waitOf } from '../../plan/work.ts';
import { checkCondition, checkText } from '../expression/check.ts';
import { findRepeated } from '../text/repeated.ts';

/** Checks that a condition reads exactly what its plan lists, because the run machine provides nothing else. */
export function findConditionProblems(checked: Plan): readonly string[] {
  const others = checked.stages.flatMap((each) => (each.finally === true ? [] : [each.id]));
  return checked.stages.flatMap((stage) => {
    // If one of several failures starts the stage, only that one has happened.
    const ended = stage.after.filter(({ on }) => !(on === 'failure' && stage.anyFailure === true));
    const before = new Set(stage.finally === true ? others : ended.map((edge) => edge.stage));
    return [
      ...(stage.when === null ? [] : problemsOfCondition(stage.id, stage.when, 'when', before)),
      ...(stage.loop === undefined ? [] : problemsOfCondition(stage.id, stage.loop.until, 'loop.until', before)),
    ];
  });
}

function problemsOfCondition(
  id: string,
  condition: ConditionPlan,
  key: string,
  before: ReadonlySet<string>,
): readonly string[] {
  const read = checkCondition(condition.source);
  if ('problems' in read) return read.problems.map(({ message }) => `stage ${id}: ${key}: ${message}`);
  const stages = new Set(read.stages.map((reference) => reference.stage));
  const params = new Set(read.params.map((reference) => reference.name));
  return [
    ...findRepeated(condition.stages).map((twice) => `stage ${id}: ${key}.stages has ${twice} twice`),
    ...[...stages]
      .filter((each) => !condition.stages.includes(each))
      .map((each) => `stage ${id}: ${key}.stages lacks ${each}`),
    ...condition.stages
      .filter((each) => !stages.has(each))
      .map((each) => `stage ${id}: ${key}.stages has ${each}, which is not read`),
    ...condition.stages
      .filter((each) => !before.has(each))
      .map((each) => `the condition of stage ${id} reads ${each}, but the stage does not depend on it`),
    ...[...params]
      .filter((each) => !Object.hasOwn(condition.params, each))
      .map((each) => `stage ${id}: ${key}.params lacks ${each}`),
    ...Object.keys(condition.params)
      .filter((each) => !params.has(each))
      .map((each) => `stage ${id}: ${key}.params has ${each}, which is not read`),
  ];
}

/** Checks that each text has a place in the work, and reads exactly what the plan lists. */
export function findTextProblems(checked: Plan): readonly string[] {
  return checked.stages.flatMap(({ id, of, work, each: items, texts: made }) => {
    if (made === undefined)
      return waitOf(work)?.until === undefined
        ? []
        : [`stage ${id}: texts is missing, although the time of its wait is an expression`];
    const { sources, stages, params } = made;
    const problems = [...findRepeated(sources), ...findRepeated(stages)].map(
      (twice) => `stage ${id}: texts have ${twice} twice`,
    );
    const read = sources.map((source) => checkText(source, undefined, items !== undefined || of !== undefined));
    for (const each of read)
      if ('problems' in each) problems.push(...each.problems.map(({ message }) => `stage ${id}: texts: ${message}`));
    const readable = read.flatMap((each) => ('problems' in each ? [] : [each]));
    const named = new Set(readable.flatMap((each) => each.stages.map((reference) => reference.stage)));
    const valued = new Set(readable.flatMap((each) => each.params.map((reference) => reference.name)));
    if (named.size !== stages.length || !stages.every((each) => named.has(each)))
      problems.push(`stage ${id}: texts.stages must list exactly the stages that its texts read`);
    if (valued.size !== Object.keys(params).length || ![...valued].every((each) => Object.hasOwn(params, each)))
      problems.push(`stage ${id}: texts.params must list exactly the parameters that its texts read`);
    const placed = made.texts.map(({ place }) => nameOfPlace(place));
    problems.push(...findRepeated(placed).map((twice) => `stage ${id}: two texts have the same place: ${twice}`));
    made.texts.forEach(({ place, parts }, position) => {
      if (!hasText(work, place)) problems.push(`stage ${id}: its work has no ${placed[position]}`);
      if (parts.some((part) => typeof part === 'number' && part >= sources.length))
        problems.push(`stage ${id}: ${placed[position]} has an expression that texts.sources lacks`);
    });
    return problems;
  });
}

function nameOfPlace(place: TextPlace): string {
  switch (place.kind) {
    case 'arg':
      return `args[${place.index}]`;
    case 'env':
      return `env.${place.name}`;
    case 'param':
      return `params.${place.name}`;
    case 'message':
    case 'prompt':
    case 'until':
      return place.kind;
  }
}
