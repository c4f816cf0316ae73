/**
 * Agents that the mock agent plays: the same command line in the same VM, without a model. Only who starts a run says so; a plan
 * by itself never does.
 */
import type { Plan } from '../plan/plan.ts';
import { answeringOf } from '../plan/work.ts';
import { hostVariablesOf } from './variables.ts';

/** Every agent of the plan is played, and reads no key. @returns why that cannot be, or the plan as it runs */
export function withMockAgents(plan: Plan): { readonly plan: Plan } | { readonly problem: string } {
  if (!plan.stages.some(({ work }) => answeringOf(work) !== null)) return { problem: 'no stage has an agent' };
  const stages = plan.stages.map((stage) => {
    const answering = answeringOf(stage.work);
    return answering === null ? stage : { ...stage, work: { ...answering, played: true as const } };
  });
  return { plan: { ...plan, stages, hostVariables: hostVariablesOf(stages) } };
}

export function agentStages({ stages }: Pick<Plan, 'stages'>): readonly string[] {
  return stages.flatMap(({ id, work }) => (answeringOf(work) === null ? [] : [id]));
}

/** Stages whose agent is played, in the plan's order. */
export function listMockAgentStages({ stages }: Pick<Plan, 'stages'>): readonly string[] {
  return stages.flatMap(({ id, work }) => (answeringOf(work)?.played === true ? [id] : []));
}
