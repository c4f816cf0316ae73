/**
 * Compiles `type: loop` in the stages of a pipeline: boxes that run again until a condition holds. Input and output are
 * plans: the boxes are already in sequence. The loop adds the stage that ends it, for which all later boxes wait.
 */
import { mayLackOutput } from '../../pipeline/machine-plan.ts';
import { STAGE_DEFAULTS } from '../../plan/defaults.ts';
import { type EdgePlan, type OutputPlan, PLAN_LIMITS, type StagePlan } from '../../plan/plan.ts';
import { waitOf } from '../../plan/work.ts';
import type { Condition } from './stage/condition.ts';
import type { Problems } from '../text/diagnostics.ts';
import type { PipelineStageSpec, Spec } from '../read/spec.ts';
import type { Located } from '../text/tree.ts';
import { quote } from '../../units/quote.ts';

type LoopSpec = Extract<PipelineStageSpec, { variant: 'loop' }>;

interface Context {
  readonly compile: (until: Located<string>, what: string) => Condition | null;
  readonly problems: Problems;
}

interface LoopResult {
  readonly stages: readonly StagePlan[];
  /** Null: a mistake was reported. */
  readonly output: OutputPlan | null;
}

export function compileLoops(
  spec: Spec,
  stages: readonly StagePlan[],
  output: OutputPlan | null,
  context: Context,
): LoopResult {
  const loops = (spec.pipelineStages ?? []).filter((stage) => stage.variant === 'loop');
  const looped = loops.reduce<LoopResult>((all, loop) => withLoop(spec, loop, all, context), { stages, output });
  const done = looped.stages.reduce((sum, { visits = 0 }) => sum + visits, 0);
  if (done > PLAN_LIMITS.stageVisits)
    context.problems.error(
      'spec/too-large',
      spec.sectionAt,
      `the boxes of all loops may run ${done} times together; at most ${PLAN_LIMITS.stageVisits} are allowed`,
      'lower `max_visits`, or put fewer boxes into the loops',
    );
  return looped;
}

function withLoop(
  spec: Spec,
  loop: LoopSpec,
  { stages, output }: LoopResult,
  { compile, problems }: Context,
): LoopResult {
  const { name, boxes } = loop;
  if (name === null) return { stages, output };
  const id = name.value;
  const what = `loop ${quote(id)}`;
  const condition = loop.until === null ? null : compile(loop.until, `\`until\` of ${what}`);
  if (spec.stages.some((box) => box.name.value === id) || stages.some((stage) => stage.id === id)) {
    problems.error('spec/duplicate-name', name.at, `${quote(id)} is the name of a box and of a loop`, 'rename one');
    return { stages, output };
  }
  const names = boxes.map((box) => box.value);
  const stagesOf = (box: string): readonly StagePlan[] =>
    stages.filter(
      // Stages of items repeat together with the stage that has the items.
      ({ id: stage, of }) => stage === box || (of === undefined && isUsed(spec, box) && stage.startsWith(`${box}.`)),
    );
  const body = names.flatMap(stagesOf);
  const within = new Set(body.map((stage) => stage.id));
  const giver = names
    .map((box) => stages.find((stage) => stage.id === box))
    .findLast((box) => box !== undefined && waitOf(box.work) === null);
  const first = stagesOf(names[0] ?? '');
  if (refuseBody(loop, what, body, first[0], giver, problems) || giver === undefined) return { stages, output };
  refuseLater(spec, loop, what, condition, problems);
  const maxVisits = loop.maxVisits ?? 1;
  const end: StagePlan = {
    ...STAGE_DEFAULTS,
    id,
    scope: null,
    after: edgesBeforeEnd([...within], giver.id, condition?.stages ?? []),
    work: { kind: 'part', source: 'loop', stages: [...within], output: { kind: 'stage', stage: giver.id } },
    loop: {
      until: { source: condition?.source ?? 'true', stages: condition?.stages ?? [], params: condition?.params ?? {} },
      maxVisits,
      onLimit: loop.onLimit?.value ?? 'fail',
    },
  };
  // If the first box is a part, these are the first stages of the part.
  const isFirst = new Set(
    first.flatMap(({ id: stage, after, input }) =>
      input.kind === 'none' || after.some((edge) => within.has(edge.stage)) ? [] : [stage],
    ),
  );
  const last = stages.findLastIndex((stage) => within.has(stage.id));
  const repeated = stages.map((stage) =>
    within.has(stage.id)
      ? {
          ...stage,
          visits: (stage.visits ?? 1) * maxVisits,
          ...(isFirst.has(stage.id) ? { again: [...(stage.again ?? []), id] } : {}),
        }
      : moveAfterLoop(stage, within, id),
  );
  return {
    stages: [...repeated.slice(0, last + 1), end, ...repeated.slice(last + 1)],
    output:
      output?.kind === 'stage' && spec.output === null && within.has(output.stage)
        ? { kind: 'stage', stage: id }
        : output,
  };
}

function isUsed(spec: Spec, box: string): boolean {
  return spec.stages.some(({ name, uses }) => name.value === box && uses !== null);
}

/** Returns edges on the success of the giver, and on any end of the other stages of a visit and of the condition. */
function edgesBeforeEnd(within: readonly string[], giver: string, read: readonly string[]): readonly EdgePlan[] {
  const others = [...new Set([...within, ...read])].filter((stage) => stage !== giver);
  return [{ stage: giver, on: 'success' }, ...others.map((stage): EdgePlan => ({ stage, on: 'end' }))];
}

/** Moves a stage that waits for a box of the loop after the loop; it gets the loop's output. */
function moveAfterLoop(stage: StagePlan, within: ReadonlySet<string>, loop: string): StagePlan {
  const { after, input } = stage;
  const waits = after.filter((edge) => within.has(edge.stage));
  if (waits.every(({ on }) => on === 'failure')) return stage;
  const carries = input.kind === 'carry' && within.has(input.stage);
  return {
    ...stage,
    after: [...after, { stage: loop, on: waits.some(({ on }) => on === 'success') ? 'success' : 'end' }],
    input: carries ? { kind: 'carry', stage: loop } : input,
  };
}

function refuseBody(
  loop: LoopSpec,
  what: string,
  body: readonly StagePlan[],
  first: StagePlan | undefined,
  giver: StagePlan | undefined,
  problems: Problems,
): boolean {
  const { at } = loop.name!;
  const aside = body.find((stage) => stage.finally === true || stage.after.some(({ on }) => on === 'failure'));
  if (aside !== undefined) {
    problems.error(
      'spec/bad-value',
      at,
      `box ${quote(aside.id)} of ${what} has \`${aside.finally === true ? 'finally' : 'on_failure'}\`, which applies to the run, not to a visit of the loop`,
      'remove the key, or move the box out of the loop',
    );
    return true;
  }
  if (first !== undefined && first.when !== null) {
    problems.error(
      'spec/bad-value',
      at,
      `the first box of ${what}, ${quote(first.id)}, has \`when\`: if it were passed, the next box would get different input in each visit`,
      'move the condition to a later box of the loop',
    );
    return true;
  }
  // Boxes with mistakes are not in the plan.
  if (body.length === 0) return true;
  if (giver === undefined) {
    problems.error('spec/bad-value', at, `${what} has no box with an output`, 'add a box that runs a command');
    return true;
  }
  if (!mayLackOutput(giver)) return false;
  problems.error(
    'spec/may-be-absent',
    at,
    `${what} returns the output of box ${quote(giver.id)}, which has \`${giver.when === null ? 'continue_on_error' : 'when'}\` and may have no output`,
    'end the loop with a box that always has an output',
  );
  return true;
}

/** Rejects a condition that reads later boxes: it is evaluated after a visit, when they have not run yet. */
function refuseLater(spec: Spec, loop: LoopSpec, what: string, condition: Condition | null, problems: Problems): void {
  const order = (spec.pipelineStages ?? []).flatMap((stage) =>
    (stage.variant === 'box' ? [stage.box] : stage.boxes).map((box) => ({ box: box.value, isIn: stage === loop })),
  );
  const known = new Set(order.slice(0, order.findLastIndex(({ isIn }) => isIn) + 1).map(({ box }) => box));
  const names = new Set(spec.stages.map(({ name }) => name.value));
  for (const { value, at } of condition?.reads ?? []) {
    if (known.has(value)) continue;
    if (names.has(value))
      problems.error(
        'spec/producer-after-consumer',
        at,
        `\`until\` of ${what} reads box ${quote(value)}, which does not run before its end`,
        'read a box of the loop, or of an earlier stage',
      );
    else
      problems.error(
        'spec/unknown-box',
        at,
        `\`until\` of ${what} reads the box ${quote(value)}, which does not exist${problems.suggest(value, known)}`,
        'correct the name, or add the box',
      );
  }
}
