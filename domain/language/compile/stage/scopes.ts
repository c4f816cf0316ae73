/** Which VMs a plan has: which of its stages share one, and what each is made of. */
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

/** The scope that steps of a workflow share. No step can have this name: names begin with a letter or digit. */
export const SHARED_SCOPE = '_shared';

/** The model of each agent in a VM. Mistakes in it are the stage's to report. */
function agentsOf(spec: Spec, running: readonly StageSpec[], scope: string): readonly (LlmPlan | null)[] {
  return running
    .filter((stage) => (hasAgent(stage) || stage.isShell) && scopeOf(spec, stage) === scope)
    .map((stage) => {
      const llm = llmOf(spec, stage);
      return llm === null ? null : planOfLlm(llm);
    });
}

/** Their names, of all layers from which stages of a VM have some. */
function variablesOf(spec: Spec, running: readonly StageSpec[], scope: string): readonly string[] {
  const stages = running.filter((stage) => scopeOf(spec, stage) === scope);
  const layers = [spec.sandbox?.env, spec.defaults?.env, ...stages.flatMap(({ env, sandbox }) => [env, sandbox?.env])];
  return layers.flatMap((layer) => layer?.map(({ name }) => name) ?? []);
}

/** A box is its own scope; steps share one unless they have a `sandbox` of their own. */
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
  // Of a VM that nothing is said of, what is in it decides.
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
  return [...scopes].map(([id, { stages, sandbox }]) => ({ id, stages, sandbox }));
}

/**
 * Steps without a sandbox of their own find what their earlier attempts left, however many steps the workflow has: the VM of the only
 * such step stays for its attempts.
 * @param stages  as they are compiled
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
      `attempts of ${describeStage(spec, written)} have the same VM: each finds the files that earlier ones left`,
      'give the step a `sandbox` of its own for a new VM in each attempt',
    );
    return { ...scope, keepsVm: true };
  });
}

/** Of a VM that nothing is said of: what the command lines of its agents need. */
function memoryFor(agents: readonly (LlmPlan | null)[]): number {
  return Math.max(SANDBOX_DEFAULTS.memoryMib, ...agents.map((llm) => CLI_NEEDS[cliOf(llm)].memoryMib));
}

export function scopeOf(spec: Spec, stage: StageSpec): string {
  // Items that run side by side cannot share a VM with other steps.
  // The shared VM may be lost, or hold a command that would not stop, when a stage with `finally` starts.
  // Of a VM that is lost each stage runs again, and a workspace is there once.
  const hasItsOwn =
    stage.sandbox !== null || stage.forEach !== null || stage.finally === true || stage.workspace !== null;
  return spec.kind === 'workflow' && !hasItsOwn ? SHARED_SCOPE : stage.name.value;
}
