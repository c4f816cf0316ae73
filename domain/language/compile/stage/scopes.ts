/** Compiles the VMs of a plan: which stages share one, and the settings of each. */
import { CLI_NEEDS, cliOf } from '../../../agent/agent-cli.ts';
import { SANDBOX_DEFAULTS } from '../../../plan/defaults.ts';
import type { LlmPlan, ScopePlan, StagePlan } from '../../../plan/plan.ts';
import { planOfLlm } from './agent.ts';
import { llmOf } from './skill.ts';
import { hasAgent } from '../../read/stage-facts.ts';
import { checkWorkspaceVm } from '../vm/workspace.ts';
import { compileSandbox } from '../vm/sandbox.ts';
import { checkAgentVm } from '../vm/agent-vm.ts';
import { warnOfLittleMemory } from '../../problems/little-memory.ts';
import type { LinkResult } from '../../link/linked.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { Spec, StageSpec } from '../../read/spec.ts';
import { describeStage } from './describe-stage.ts';

/** The scope that steps of a workflow share. No step can have this name, because names begin with a letter or digit. */
export const SHARED_SCOPE = '_shared';

/** Returns the model of each agent in a VM. Mistakes in a model are reported for its stage. */
function agentsOf(spec: Spec, running: readonly StageSpec[], scope: string): readonly (LlmPlan | null)[] {
  return running
    .filter((stage) => (hasAgent(stage) || stage.isShell) && scopeOf(spec, stage) === scope)
    .map((stage) => {
      const llm = llmOf(spec, stage);
      return llm === null ? null : planOfLlm(llm);
    });
}

/** Returns the names of variables in every layer from which stages of a VM get some. */
function variablesOf(spec: Spec, running: readonly StageSpec[], scope: string): readonly string[] {
  const stages = running.filter((stage) => scopeOf(spec, stage) === scope);
  const layers = [spec.sandbox?.env, spec.defaults?.env, ...stages.flatMap(({ env, sandbox }) => [env, sandbox?.env])];
  return layers.flatMap((layer) => layer?.map(({ name }) => name) ?? []);
}

/** Compiles scopes: each box has its own; steps share one unless they have a `sandbox` of their own. */
export function compileScopes(
  spec: Spec,
  linked: LinkResult,
  baseDir: string | null,
  problems: Problems,
): readonly ScopePlan[] {
  const running = spec.stages.filter(
    ({ approval, wait, uses }, index) =>
      linked.links[index] !== null && approval === null && wait === null && uses === null,
  );
  const scopes = new Map<string, { stages: string[]; sandbox: ScopePlan['sandbox'] }>();
  // If the spec sets nothing for a VM, the contents of the VM decide.
  const forAgents = new Set(
    running.flatMap((stage) => (hasAgent(stage) || stage.isShell ? [scopeOf(spec, stage)] : [])),
  );
  for (const stage of running) {
    const id = scopeOf(spec, stage);
    const agents = forAgents.has(id) ? agentsOf(spec, running, id) : [];
    const memoryMib = memoryFor(agents);
    const scope = scopes.get(id);
    if (scope !== undefined) scope.stages.push(stage.name.value);
    else {
      const facts = { memoryMib, agents, hasWorkspace: stage.workspace !== null };
      const sandbox = compileSandbox(spec.sandbox, stage.sandbox, baseDir, facts, problems);
      warnOfLittleMemory(stage.name, sandbox, agents.length > 0, problems);
      const ofAgents = agentsOf(spec, running.filter(hasAgent), id);
      const variables = ofAgents.length === 0 ? [] : variablesOf(spec, running, id);
      checkAgentVm(
        stage.name,
        { base: spec.sandbox, own: stage.sandbox, sandbox, agents: ofAgents, variables },
        problems,
      );
      scopes.set(id, { stages: [stage.name.value], sandbox });
    }
  }
  for (const stage of running)
    checkWorkspaceVm(stage, describeStage(spec, stage), scopes.get(scopeOf(spec, stage))!.sandbox, problems);
  if (spec.checkpoint?.value === 'each-step' && !((scopes.get(SHARED_SCOPE)?.stages.length ?? 0) > 1))
    problems.warning(
      'spec/bad-value',
      spec.checkpoint.at,
      '`checkpoint: each-step` has no effect: no two steps share a VM',
      'remove it',
    );
  return [...scopes].map(([id, { stages, sandbox }]) => ({
    id,
    stages,
    ...(isSavedEachStep(spec, id, stages) ? { checkpoint: 'each-step' as const } : {}),
    sandbox,
  }));
}

/** The VM of one step has nothing to resume after: its only step runs again. */
function isSavedEachStep({ checkpoint }: Spec, id: string, stages: readonly string[]): boolean {
  return checkpoint?.value === 'each-step' && id === SHARED_SCOPE && stages.length > 1;
}

/**
 * Keeps the VM of the only shared step for its attempts. A step without a sandbox of its own thus finds the files of
 * its earlier attempts, however many steps the workflow has.
 * @param stages  in compiled form
 */
export function keepVmOfRetries(
  spec: Spec,
  scopes: readonly ScopePlan[],
  stages: readonly StagePlan[],
  problems: Problems,
): readonly ScopePlan[] {
  return scopes.map((scope) => {
    if (scope.id !== SHARED_SCOPE || scope.stages.length > 1) return scope;
    const [only] = scope.stages;
    const stage = stages.find(({ id }) => id === only);
    if (stage === undefined || stage.retry.maxAttempts === 1) return scope;
    const written = spec.stages.find(({ name }) => name.value === only)!;
    problems.warning(
      'spec/attempts-share-vm',
      written.retry?.at ?? written.name.at,
      `attempts of ${describeStage(spec, written)} share a VM: each attempt finds the files of earlier attempts`,
      'give the step a `sandbox` of its own for a new VM in each attempt',
    );
    return { ...scope, keepsVm: true };
  });
}

/** The memory of a VM for which the spec sets none: what the command lines of its agents need. */
function memoryFor(agents: readonly (LlmPlan | null)[]): number {
  return Math.max(SANDBOX_DEFAULTS.memoryMib, ...agents.map((llm) => CLI_NEEDS[cliOf(llm)].memoryMib));
}

export function scopeOf(spec: Spec, stage: StageSpec): string {
  // Items that run concurrently cannot share a VM with other steps. The shared VM may be lost, or still run a command,
  // when a stage with `finally` starts. If a VM is lost, each of its stages runs again, but a workspace is there only
  // once.
  const hasItsOwn =
    stage.sandbox !== null || stage.forEach !== null || stage.finally === true || stage.workspace !== null;
  return spec.kind === 'workflow' && !hasItsOwn ? SHARED_SCOPE : stage.name.value;
}
