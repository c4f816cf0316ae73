import type { Plan, ScopePlan, StagePlan } from '../plan/plan.ts';
import { commandOf, isService } from '../plan/work.ts';

/** The output with the files of `/workspace`, among which are the result and the artifacts that it names. */
export const FILES_OUTPUT = 'workspace-files';
const FOLDER = '/workspace';

/**
 * Lets the step of a workflow with one step leave the files of its working folder, where Void-Box reads its result. A
 * folder of the host, a repository and an output of that name are not copied: such a step names its `outputs`.
 */
export function collectResult(plan: Plan): Plan {
  const [stage] = plan.stages;
  if (plan.kind !== 'workflow' || plan.stages.length !== 1 || stage === undefined) return plan;
  const scope = plan.scopes.find(({ id }) => id === stage.scope);
  if (scope === undefined || !isCopied(stage, scope)) return plan;
  return { ...plan, stages: [{ ...stage, outputs: [...stage.outputs, { name: FILES_OUTPUT, guestPath: FOLDER }] }] };
}

function isCopied(stage: StagePlan, { sandbox }: ScopePlan): boolean {
  return (
    commandOf(stage.work) !== null &&
    !isService(stage.work) &&
    stage.each === undefined &&
    stage.loop === undefined &&
    stage.finally === undefined &&
    stage.workspace === undefined &&
    stage.outputs.every(({ name }) => name !== FILES_OUTPUT) &&
    sandbox.mounts.every(({ guestPath }) => guestPath !== FOLDER && !guestPath.startsWith(`${FOLDER}/`))
  );
}
