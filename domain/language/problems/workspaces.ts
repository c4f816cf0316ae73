/** Checks the workspaces of a plan from outside; the compiler reports the same mistakes at their place in a spec. */
import type { Plan, ScopePlan, StagePlan } from '../../plan/plan.ts';
import { agentOf, commandOf, isService } from '../../plan/work.ts';
import { isWorkspaceOutput, mayHaveGit } from '../../plan/workspace.ts';
import { contains, ownFolderIn } from '../text/paths.ts';

export function findWorkspaceProblems({ stages, scopes }: Plan): readonly string[] {
  const scopeById = new Map(scopes.map((scope) => [scope.id, scope]));
  return stages.flatMap((stage) => {
    if (stage.workspace === undefined) return [];
    const scope = stage.scope === null ? undefined : scopeById.get(stage.scope);
    return [
      ...checkStage(stage),
      ...checkFolder(stage.id, stage.workspace.guestPath),
      ...(scope === undefined ? [] : checkScope(stage, scope)),
      ...findOverlaps(stage, scope).map(
        (path) => `stage ${stage.id} has a workspace at ${stage.workspace!.guestPath} and other files at ${path}`,
      ),
    ];
  });
}

function checkStage({ id, work, each, outputs, ...stage }: StagePlan): readonly string[] {
  const command = commandOf(work);
  return [
    ...(command === null && agentOf(work) === null
      ? [`stage ${id} has a workspace and neither command nor agent`]
      : []),
    ...(isService(work) ? [`stage ${id} has a workspace and is a service, which never leaves one`] : []),
    ...(each === undefined ? [] : [`stage ${id} has a workspace and is done for each item`]),
    ...(stage.finally === true ? [`stage ${id} has a workspace and runs after all others`] : []),
    ...outputs
      .filter(({ name }) => isWorkspaceOutput(name))
      .map(({ name }) => `stage ${id} has a workspace and an output with the name ${name}`),
  ];
}

function checkFolder(stage: string, guestPath: string): readonly string[] {
  const own = ownFolderIn(guestPath);
  return own === null ? [] : [`stage ${stage} has a workspace at ${guestPath} and files of its own in ${own}`];
}

function checkScope({ id, workspace }: StagePlan, { stages, sandbox }: ScopePlan): readonly string[] {
  return [
    ...(stages.length === 1 ? [] : [`stage ${id} has a workspace and shares its VM`]),
    ...(sandbox.mode === 'mock' ? [`stage ${id} has a workspace and a simulated VM, which has no git`] : []),
    ...(workspace?.from.kind === 'stage' && !mayHaveGit(sandbox)
      ? [`stage ${id} continues a workspace, and the image of its VM has no git`]
      : []),
  ];
}

function findOverlaps({ inputs, workspace }: StagePlan, scope: ScopePlan | undefined): readonly string[] {
  const others = [...inputs, ...(scope?.sandbox.mounts ?? [])].map(({ guestPath }) => guestPath);
  const { guestPath } = workspace!;
  return others.filter((path) => contains(path, guestPath) || contains(guestPath, path));
}
