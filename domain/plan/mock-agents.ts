/**
 * Agents that the mock agent plays: the same command line in the same VM, without a model. Only who starts a run says so; a plan
 * by itself never does.
 */
import type { Plan } from './plan.ts';
import { agentOf, hostVariablesOf } from './work.ts';

/** Every agent of the plan is played, and reads no key. @returns why that cannot be, or the plan as it runs */
export function withMockAgents(plan: Plan): { readonly plan: Plan } | { readonly problem: string } {
  if (!plan.stages.some(({ work }) => agentOf(work) !== null)) return { problem: 'no stage is an agent' };
  const stages = plan.stages.map((stage) => {
    const agent = agentOf(stage.work);
    return agent === null ? stage : { ...stage, work: { ...agent, played: true as const } };
  });
  return { plan: { ...plan, stages, hostVariables: hostVariablesOf(stages) } };
}

export function agentStages({ stages }: Pick<Plan, 'stages'>): readonly string[] {
  return stages.flatMap(({ id, work }) => (agentOf(work) === null ? [] : [id]));
}

/** Stages whose agent is played, in the plan's order. */
export function playedStages({ stages }: Pick<Plan, 'stages'>): readonly string[] {
  return stages.flatMap(({ id, work }) => (agentOf(work)?.played === true ? [id] : []));
}
