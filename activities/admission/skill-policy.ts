/** Determines the code of the step machines of a plan at admission, so that no stage runs any other code. */
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Plan, StepMachineCodePlan, StagePlan } from '../../domain/plan/plan.ts';
import { skillOf } from '../../domain/plan/work.ts';
import type { ActivityDeps } from '../deps.ts';
import { describeConfined, isConfined, type Starter } from '../ports/starters.ts';

type Deps = Pick<ActivityDeps, 'stageSessions'>;

/**
 * Sets the code of each step machine, and ignores code that the plan itself names.
 * @throws CodedError `skill/unknown`, `skill/unusable`
 */
export async function withStepMachineCodes(deps: Deps, plan: Plan, starter: Starter): Promise<Plan> {
  if (!plan.stages.some(({ work }) => skillOf(work) !== null)) return plan;
  const codes = new Map<string, StepMachineCodePlan>();
  const stages: StagePlan[] = [];
  for (const stage of plan.stages) {
    const skill = skillOf(stage.work);
    if (skill === null) {
      stages.push(stage);
      continue;
    }
    const { path } = skill.source;
    if (isConfined(starter))
      throw new CodedError(
        'skill/unknown',
        `stage ${stage.id} runs the step machine ${path}, and the runs of ${describeConfined(starter)} have no step machines`,
      );
    const code = codes.get(path) ?? (await codeOf(deps, stage.id, path));
    codes.set(path, code);
    stages.push({ ...stage, work: { ...skill, code } });
  }
  return { ...plan, stages };
}

async function codeOf({ stageSessions }: Deps, stage: string, path: string): Promise<StepMachineCodePlan> {
  if (stageSessions === undefined)
    throw new CodedError(
      'skill/unknown',
      `stage ${stage} runs the step machine ${path}, and this worker has no step machines`,
    );
  try {
    return await stageSessions.identify(path);
  } catch (error) {
    if (error instanceof CodedError) throw new CodedError(error.code, `stage ${stage}: ${error.message}`);
    throw error;
  }
}
