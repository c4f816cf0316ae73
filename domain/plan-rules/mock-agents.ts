/**
 * Replaces agents with the mock agent: the same command line in the same VM, without a model. Only the user who starts
 * a run asks for it; a plan never does.
 */
import type { Plan } from '../plan/plan.ts';
import { answeringOf } from '../plan/work.ts';
import { hostVariablesOf } from './variables.ts';

/** Marks every agent of the plan as played, so that it reads no key. @returns the plan that runs, or a problem */
export function withMockAgents(plan: Plan): { readonly plan: Plan } | { readonly problem: string } {
  if (!plan.stages.some(({ work }) => answeringOf(work) !== null)) return { problem: 'no stage has an agent' };
  const stages = plan.stages.map((stage) => {
    const answering = answeringOf(stage.work);
    return answering === null ? stage : { ...stage, work: { ...answering, played: true as const } };
  });
  return { plan: { ...plan, stages, hostVariables: hostVariablesOf(stages) } };
}

export function selectAgentStages({ stages }: Pick<Plan, 'stages'>): readonly string[] {
  return stages.flatMap(({ id, work }) => (answeringOf(work) === null ? [] : [id]));
}

/** Lists the stages whose agent is the mock agent, in the plan's order. */
export function listMockAgentStages({ stages }: Pick<Plan, 'stages'>): readonly string[] {
  return stages.flatMap(({ id, work }) => (answeringOf(work)?.played === true ? [id] : []));
}
