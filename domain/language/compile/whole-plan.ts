/** Checks a compiled plan as a whole: its size, and how its stages affect each other. */
import { machineBytes, machinePlanOf } from '../../pipeline/machine-plan.ts';
import { type Plan, PLAN_LIMITS } from '../../plan/plan.ts';
import { countPlanBytes } from '../../plan/wire.ts';
import { checkItems } from './stage/items.ts';
import { findOutputNameProblems } from '../link/output-names.ts';
import type { Problems } from '../text/diagnostics.ts';
import { findCheckpointProblems } from '../problems/checkpoints.ts';
import { findServiceProblems } from '../problems/services.ts';
import type { Spec } from '../read/spec.ts';
import type { Position } from '../text/tree.ts';
import { warnOfUnorderedWriters } from '../problems/unordered-writers.ts';

export function reportWhole(plan: Plan, spec: Spec, problems: Problems): void {
  checkSize(plan, spec.sectionAt, problems);
  const places = new Map(spec.stages.map((stage) => [stage.name.value, stage.name.at]));
  // A stage of a part has the place where the part is used.
  const placeOf = (stage: string): Position =>
    places.get(stage) ?? places.get(stage.split('.', 1)[0]!) ?? spec.sectionAt;
  checkItems(plan, placeOf, problems);
  const outputs = new Map(
    spec.stages.flatMap((stage) =>
      stage.outputs.map(({ name }) => [JSON.stringify([stage.name.value, name.value]), name.at] as const),
    ),
  );
  for (const { stage, output, message } of findOutputNameProblems(plan))
    problems.error(
      'spec/duplicate-name',
      outputs.get(JSON.stringify([stage, output])) ?? placeOf(stage),
      message,
      'rename one of them: inputs and commands name an output by its stage, a dot and its name',
    );
  for (const { message, remedy } of findCheckpointProblems(plan))
    problems.error('spec/bad-value', spec.checkpoint?.at ?? spec.sectionAt, message, remedy);
  for (const { stage, message, remedy } of findServiceProblems(plan))
    problems.error('spec/bad-value', placeOf(stage), message, remedy);
  warnOfUnorderedWriters(plan, (stage) => places.get(stage) ?? spec.sectionAt, problems);
}

function checkSize(plan: Plan, at: Position, problems: Problems): void {
  const outputs = plan.stages.reduce((sum, stage) => sum + stage.outputs.length, 0);
  if (outputs > PLAN_LIMITS.outputs)
    problems.error(
      'spec/too-large',
      at,
      `the spec has ${outputs} named outputs; at most ${PLAN_LIMITS.outputs} are allowed`,
      'use folders as outputs instead of single files',
    );
  const held = machineBytes(machinePlanOf(plan));
  if (held > PLAN_LIMITS.machineBytes)
    problems.error(
      'spec/too-large',
      at,
      `the names and edges of the stages have ${held} bytes; at most ${PLAN_LIMITS.machineBytes} are allowed`,
      'shorten names, or add a stage between groups of stages that wait for each other',
    );
  const bytes = countPlanBytes(plan);
  if (bytes > PLAN_LIMITS.planBytes)
    problems.error(
      'spec/too-large',
      at,
      `the plan has ${bytes} bytes; at most ${PLAN_LIMITS.planBytes} are allowed`,
      'move long texts and data to mounted files',
    );
}
