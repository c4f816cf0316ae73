/** Stages that run a step machine. */
import type { JsonValue, LlmProvider } from '../../domain/plan/plan.ts';
import { SKILL_AGENT_KEYS, SKILL_BOX_OPTIONS, SKILL_STEP_OPTIONS } from '../known-options.ts';
import { checkOptions, namesOf } from '../options.ts';
import { reportPlace } from '../places.ts';
import { type AgentSkill, type Budget, writeBudget, type Llm, writeLlm } from './agent-settings.ts';
import { writeCommonOptions, type OfCommands, type StageOptions } from './common-options.ts';
import type { Approval, Box, Outputs, Part, SpecObject, Step, Wait } from './stage.ts';

interface SkillOptions<O extends Outputs, R> extends Omit<
  StageOptions<O, R>,
  OfCommands | 'outputFile' | 'maxOutputMib' | 'workspace'
> {
  /** The skill's entry file or its folder; a relative path starts from `baseDir` of `compile`. */
  readonly use: string;
  /** Values for the skill's params. Placeholders are filled in. */
  readonly params?: Readonly<Record<string, JsonValue>>;
  /** The agent that answers its prompts: a provider, or `llm`, `skills` and `budget` of an agent. Default: the definition's `llm`. */
  readonly agent?:
    | LlmProvider
    | { readonly llm?: Llm; readonly skills?: readonly AgentSkill[]; readonly budget?: Budget };
}

export interface SkillBoxOptions<O extends Outputs, R = unknown> extends SkillOptions<O, R> {
  /** It starts when one of these has failed; put it into `aside` of the pipeline. */
  readonly onFailure?: readonly (Box | Approval | Wait | Part)[];
}

export interface SkillStepOptions<O extends Outputs, R = unknown> extends SkillOptions<O, R> {
  readonly dependsOn?: readonly (Step | Approval | Wait | Part)[];
  /** It starts when one of these has failed. */
  readonly onFailure?: readonly (Step | Approval | Wait | Part)[];
}

/**
 * A step machine as a step of a workflow: an agent answers the prompts of the skill, whose final output is the step's.
 * The worker must have the skill registered; `voidbox run` registers the skills of its spec.
 */
export function skillStep<const O extends Outputs = Record<never, string>, R = unknown>(
  name: string,
  options: SkillStepOptions<O, R>,
): Step<O, R> {
  const of = `of step "${name}"`;
  checkOptions(`options ${of}`, options, SKILL_STEP_OPTIONS);
  const spec = {
    ...writeSkillStage(name, options, of),
    depends_on: namesOf(`\`dependsOn\` ${of}`, options.dependsOn),
  };
  reportPlace(spec, skillStep);
  return { kind: 'step', name, spec, output: (output) => ({ stage: name, output }) };
}

/** As `skillStep`, as a box of a pipeline. */
export function skillBox<const O extends Outputs = Record<never, string>, R = unknown>(
  name: string,
  options: SkillBoxOptions<O, R>,
): Box<O, R> {
  const of = `of box "${name}"`;
  checkOptions(`options ${of}`, options, SKILL_BOX_OPTIONS);
  const spec = writeSkillStage(name, options, of);
  reportPlace(spec, skillBox);
  return { kind: 'box', name, spec, output: (output) => ({ stage: name, output }) };
}

function writeSkillStage(
  name: string,
  options: SkillOptions<Outputs, unknown> & { readonly onFailure?: readonly { readonly name: string }[] },
  of: string,
): SpecObject {
  const { use, params, agent, onFailure } = options;
  return {
    name,
    skill: { use, params, agent: writeAnsweringAgent(agent, of) },
    on_failure: namesOf(`\`onFailure\` ${of}`, onFailure),
    ...writeCommonOptions(options, of),
  };
}

function writeAnsweringAgent(agent: SkillOptions<Outputs, unknown>['agent'], of: string): unknown {
  if (agent === undefined || typeof agent === 'string') return agent;
  checkOptions(`\`agent\` ${of}`, agent, SKILL_AGENT_KEYS);
  const ofAgent = `of \`agent\` ${of}`;
  return { llm: writeLlm(agent.llm, ofAgent), skills: agent.skills, budget: writeBudget(agent.budget, ofAgent) };
}
