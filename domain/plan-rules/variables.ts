/** The variables of a stage's work: those that its author writes, and those that its agent needs of the host. */
import { credentialsOf } from '../agent/credentials.ts';
import { listServerVariables } from '../agent/server-variables.ts';
import type { EnvPlan, StagePlan, WorkPlan } from '../plan/plan.ts';
import { skillsOf } from '../plan/work.ts';

/** Variables of the guest's environment; those of the host among them are resolved where the work is done. */
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

/** Names of the host variables that these stages read, each once, in order. */
export function hostVariablesOf(stages: readonly Pick<StagePlan, 'work'>[]): readonly string[] {
  const names = stages.flatMap(({ work }) =>
    [environmentOf(work), ...environmentsOfServers(work)]
      .flat()
      .flatMap(({ value }) => (value.kind === 'from-host' ? [value.fromHost] : [])),
  );
  return [...new Set(names)];
}

/** Of the servers that an agent calls, each its own. */
export function environmentsOfServers(work: WorkPlan): readonly (readonly EnvPlan[])[] {
  return skillsOf(work).flatMap((skill) => (skill.kind === 'server' ? [skill.env] : []));
}

/** Those of them that must be set, with the first stage that demands each. */
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
