/** Stages in which a coding agent works on a prompt. */
import { AGENT_BOX_OPTIONS, AGENT_STEP_OPTIONS } from '../known-options.ts';
import { checkOptions, namesOf } from '../options.ts';
import { reportPlace } from '../places.ts';
import { type AgentSkill, type Budget, writeBudget, type Llm, writeLlm } from './agent-settings.ts';
import { writeCommonOptions, type OfCommands, type StageOptions } from './common-options.ts';
import type { Approval, Box, Outputs, Part, SpecObject, Step, Wait } from './stage.ts';

interface AgentOptions<O extends Outputs, R> extends Omit<StageOptions<O, R>, OfCommands> {
  readonly skills?: readonly AgentSkill[];
  /** Overrides the `llm` of the definition. */
  readonly llm?: Llm;
  /** Budget of one attempt. */
  readonly budget?: Budget;
}

export interface AgentBoxOptions<O extends Outputs, R = unknown> extends AgentOptions<O, R> {
  /** It starts when one of these has failed; put it into `aside` of the pipeline. */
  readonly onFailure?: readonly (Box | Approval | Wait | Part)[];
}

export interface AgentStepOptions<O extends Outputs, R = unknown> extends AgentOptions<O, R> {
  readonly dependsOn?: readonly (Step | Approval | Wait | Part)[];
  /** It starts when one of these has failed. */
  readonly onFailure?: readonly (Step | Approval | Wait | Part)[];
  /** It serves until the run is cancelled, without a time limit; `outputFile`, which it needs, is published while it does. */
  readonly service?: true;
}

/** A coding agent with a prompt, in the VM that the steps of a workflow share. */
export function agentStep<const O extends Outputs = Record<never, string>, R = string>(
  name: string,
  prompt: string,
  options: AgentStepOptions<O, R> = {},
): Step<O, R> {
  const of = `of step "${name}"`;
  checkOptions(`options ${of}`, options, AGENT_STEP_OPTIONS);
  const spec = {
    ...writeAgentStage(name, prompt, options, of),
    depends_on: namesOf(`\`dependsOn\` ${of}`, options.dependsOn),
    on_failure: namesOf(`\`onFailure\` ${of}`, options.onFailure),
    mode: options.service === true ? 'service' : undefined,
  };
  reportPlace(spec, agentStep);
  return { kind: 'step', name, spec, output: (output) => ({ stage: name, output }) };
}

/** A coding agent in a VM of its own. */
export function agentBox<const O extends Outputs = Record<never, string>, R = string>(
  name: string,
  prompt: string,
  options: AgentBoxOptions<O, R> = {},
): Box<O, R> {
  const of = `of box "${name}"`;
  checkOptions(`options ${of}`, options, AGENT_BOX_OPTIONS);
  const spec = {
    ...writeAgentStage(name, prompt, options, of),
    on_failure: namesOf(`\`onFailure\` ${of}`, options.onFailure),
  };
  reportPlace(spec, agentBox);
  return { kind: 'box', name, spec, output: (output) => ({ stage: name, output }) };
}

function writeAgentStage(
  name: string,
  prompt: string,
  options: AgentOptions<Outputs, unknown>,
  of: string,
): SpecObject {
  return {
    name,
    prompt,
    skills: options.skills,
    llm: writeLlm(options.llm, of),
    budget: writeBudget(options.budget, of),
    ...writeCommonOptions(options, of),
  };
}
