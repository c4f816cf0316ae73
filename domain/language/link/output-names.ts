/**
 * Checks names of outputs. `STAGE.OUTPUT` names one output for inputs and for commands. Names of stages and outputs may
 * contain dots, so two pairs can have the same text.
 */
import type { Plan, StagePlan } from '../../plan/plan.ts';
import { answeringOf, TRANSCRIPT } from '../../plan/work.ts';
import { outputNamesOf, PARTIAL_OUTPUTS } from '../../plan/workspace.ts';
import { quote } from '../../units/quote.ts';

export interface OutputNameProblem {
  readonly stage: string;
  /** The name of the output, as the author declared it. */
  readonly output: string;
  readonly message: string;
}

export function findOutputNameProblems({ stages }: Pick<Plan, 'stages'>): readonly OutputNameProblem[] {
  const named = stages.flatMap((stage) => namesOf(stage).map((output) => ({ stage: stage.id, output })));
  const ids = new Set(stages.map(({ id }) => id));
  const byOutput = new Map(named.filter(({ output }) => output.includes('.')).map((each) => [each.output, each]));
  const seen = new Map<string, (typeof named)[number]>();
  return named.flatMap((each) => {
    const full = `${each.stage}.${each.output}`;
    const before = seen.get(full);
    seen.set(full, each);
    const other = byOutput.get(full);
    // Two declarations with the same name are reported elsewhere.
    const isSame = before?.stage === each.stage && each.output !== TRANSCRIPT;
    const names =
      before !== undefined && !isSame
        ? describe(before)
        : ids.has(full)
          ? `the stage ${quote(full)}`
          : other === undefined
            ? null
            : describe(other);
    return names === null
      ? []
      : [{ ...each, message: `${describe(each)} is named ${quote(full)}, and so is ${names}` }];
  });
}

function describe({ stage, output }: { readonly stage: string; readonly output: string }): string {
  return `the output ${quote(output)} of ${quote(stage)}`;
}

/** Returns the names of declared outputs, and of outputs that a stage leaves without a declaration. */
function namesOf(stage: StagePlan): readonly string[] {
  return [
    ...outputNamesOf(stage),
    ...(stage.workspace === undefined ? [] : [PARTIAL_OUTPUTS.patch, PARTIAL_OUTPUTS.bundle]),
    ...(answeringOf(stage.work) === null ? [] : [TRANSCRIPT]),
  ];
}
