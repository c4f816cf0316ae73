/** The variables of a stage's work: those that its author writes, and those of the host that its agent needs. */
import { credentialsOf } from '../agent/credentials.ts';
import { listServerVariables } from '../agent/server-variables.ts';
import type { EnvPlan, StagePlan, WorkPlan } from '../plan/plan.ts';
import { skillsOf } from '../plan/work.ts';

/** Returns the variables of the guest's environment. Values from the host are resolved when the work runs. */
export function environmentOf(work: WorkPlan): readonly EnvPlan[] {
  switch (work.kind) {
    case 'command':
      return work.env;
    case 'approval':
      return [];
    case 'wait':
    case 'mock':
    case 'part':
      return [];
    case 'agent':
    case 'skill':
      return [...credentialsOf(work), ...work.env, ...listServerVariables(work.skills)];
    case 'shell':
      return work.env;
  }
}

/** Returns the names of the host variables that these stages read, each once, in order. */
export function hostVariablesOf(stages: readonly Pick<StagePlan, 'work'>[]): readonly string[] {
  const names = stages.flatMap(({ work }) =>
    [environmentOf(work), ...environmentsOfServers(work)]
      .flat()
      .flatMap(({ value }) => (value.kind === 'from-host' ? [value.fromHost] : [])),
  );
  return [...new Set(names)];
}

/** Returns the environment of each MCP server of an agent. */
export function environmentsOfServers(work: WorkPlan): readonly (readonly EnvPlan[])[] {
  return skillsOf(work).flatMap((skill) => (skill.kind === 'server' ? [skill.env] : []));
}

/** Returns the host variables that must be set, each with the first stage that requires it. */
export function demandedVariablesOf(
  stages: readonly Pick<StagePlan, 'id' | 'work'>[],
): readonly { readonly name: string; readonly stage: string }[] {
  const demanded = new Map<string, string>();
  for (const { id, work } of stages)
    for (const { value } of environmentOf(work))
      if (value.kind === 'from-host' && value.ifUnset === undefined && !demanded.has(value.fromHost))
        demanded.set(value.fromHost, id);
  return [...demanded].map(([name, stage]) => ({ name, stage }));
}
