/** Compiles `skill`: a step machine as a stage's work, and the agent that answers its prompts. */
import { type JsonValue, PLAN_LIMITS, type StepMachineWork, type TextsPlan } from '../../../plan/plan.ts';
import { countUtf8Bytes } from '../../../units/utf8.ts';
import { type AgentContext, compileLlm, compileAgentSkills, planOfLlm } from './agent.ts';
import { compileBudget } from './budget.ts';
import { compileHostPath } from '../vm/sandbox.ts';
import { hasExpression } from '../../grammar/placeholders.ts';
import type { ParamValues } from '../../grammar/param-values.ts';
import { checkStepMachineParams, type ReadStepMachine } from '../../problems/skill-params.ts';
import type { Spec, StageSpec } from '../../read/spec.ts';
import type { Located, MapNode, TreeNode } from '../../text/tree.ts';
import { quote } from '../../../units/quote.ts';
import { createMapping } from '../../../units/mapping.ts';

type StepMachineSpec = NonNullable<StageSpec['skill']>;
type LlmSpec = NonNullable<StageSpec['llm']>;

/** A placeholder of one parameter and no other text: its value keeps its type. */
const ONLY_A_PARAM = /^\s*\$\{\{\s*params\.([A-Za-z0-9][A-Za-z0-9._-]*)\s*\}\}\s*$/;

export interface StepMachineContext extends AgentContext {
  readonly params: ParamValues;
  /** The params that are filled in during the run. */
  readonly texts: TextsPlan | null;
  /** Null: the compiler cannot read files of the author. */
  readonly readStepMachine: ReadStepMachine | null;
}

/** Returns the `llm` of the agent that answers: of the stage, else of the spec. */
export function llmOf(spec: Spec, stage: StageSpec): LlmSpec | null {
  return ownLlmOf(stage) ?? spec.llm;
}

/** Returns the `llm` of the stage; null if it sets none. */
export function ownLlmOf({ skill, llm }: StageSpec): LlmSpec | null {
  const agent = skill?.agent ?? null;
  return agent === null ? llm : agent.variant === 'mapping' ? agent.llm : providerAlone(agent);
}

function providerAlone({
  word,
  at,
}: {
  readonly word: LlmSpec['provider']['value'];
  readonly at: LlmSpec['at'];
}): LlmSpec {
  return {
    at,
    provider: { value: word, at },
    model: null,
    baseUrl: null,
    apiKeyEnv: null,
    credentialProxy: null,
    price: null,
  };
}

/** Returns the agent skills of the stage's agent. */
export function agentSkillsOf({ skill, skills }: StageSpec): StageSpec['skills'] {
  const agent = skill?.agent ?? null;
  return agent?.variant === 'mapping' ? agent.skills : skills;
}

function budgetOf({ agent }: StepMachineSpec): StageSpec['budget'] {
  return agent?.variant === 'mapping' ? agent.budget : null;
}

/**
 * Returns the params that are texts with outputs of earlier stages. Texts within lists and mappings are not among them.
 */
export function paramTexts({
  params,
}: StepMachineSpec): readonly { readonly name: string; readonly text: Located<string> }[] {
  return [...(params === null ? [] : (params.node as MapNode).entries)].flatMap(([name, { value: node }]) =>
    node.kind === 'scalar' && typeof node.value === 'string' && hasExpression(node.value)
      ? [{ name, text: textAt(node, node.value) }]
      : [],
  );
}

function textAt({ at, ...node }: TreeNode, value: string): Located<string> {
  return { value, at, ...('textAt' in node && node.textAt !== undefined ? { textAt: node.textAt } : {}) };
}

/** Returns null if `use` names no file, which is reported. */
export function compileStepMachine(
  stage: StageSpec,
  skill: StepMachineSpec,
  context: StepMachineContext,
): StepMachineWork | null {
  const { what, llm, env, baseDir, problems } = context;
  // The reader has already reported an empty path.
  const path =
    skill.use.value === '' ? null : compileHostPath(skill.use, `\`use\` in \`skill\` of ${what}`, baseDir, problems);
  const { params, unreadable } = compileParams(skill, context);
  const skills = compileAgentSkills(agentSkillsOf(stage), context);
  if (path === null) return null;
  const found = context.readStepMachine?.(path) ?? {};
  if ('problem' in found)
    problems.error(
      'spec/bad-path',
      skill.use.at,
      `\`use\` in \`skill\` of ${what} is ${quote(skill.use.value)}, which is not a step machine: ${found.problem}`,
      'name the entry of a step machine, such as ./skills/release.ts, or the folder that holds its `skill.ts`',
    );
  else checkStepMachineParams({ written: skill, values: params, unreadable }, found.params, what, problems);
  return {
    kind: 'skill',
    source: { kind: 'host', path },
    params,
    llm: llm === null ? null : compileLlm(llm, what, problems),
    skills,
    env,
    ...compileBudget(budgetOf(skill), llm === null ? null : planOfLlm(llm), what, problems),
  };
}

interface CompiledParams {
  readonly params: Readonly<Record<string, JsonValue>>;
  /** Params with a placeholder that cannot be filled in. */
  readonly unreadable: ReadonlySet<string>;
}

function compileParams(
  { params: written }: StepMachineSpec,
  { what, params, texts, fill, problems }: StepMachineContext,
): CompiledParams {
  if (written === null) return { params: {}, unreadable: new Set() };
  const fillParams = (node: TreeNode): JsonValue => {
    switch (node.kind) {
      case 'list':
        return node.items.map(fillParams);
      case 'map':
        return createMapping([...node.entries].map(([name, { value }]) => [name, fillParams(value)]));
      case 'scalar': {
        if (typeof node.value !== 'string') return node.value;
        const text = fill(textAt(node, node.value));
        const alone = ONLY_A_PARAM.exec(node.value)?.[1];
        return (alone === undefined ? undefined : params.get(alone)?.value) ?? text;
      }
    }
  };
  const later = new Map(
    (texts?.texts ?? []).flatMap(({ place, parts }) =>
      place.kind === 'param' ? [[place.name, parts.map((part) => renderTextPart(part, texts!)).join('')] as const] : [],
    ),
  );
  const unreadable = new Set<string>();
  const values = createMapping(
    [...(written.node as MapNode).entries].map(([name, { value }]) => {
      const errorsBefore = problems.errorCount();
      const made = later.get(name) ?? fillParams(value);
      if (problems.errorCount() > errorsBefore) unreadable.add(name);
      return [name, made];
    }),
  );
  const bytes = countUtf8Bytes(JSON.stringify(values));
  if (bytes > PLAN_LIMITS.skillParamsBytes)
    problems.error(
      'spec/too-large',
      written.at,
      `\`params\` in \`skill\` of ${what} have ${bytes} bytes as JSON; at most ${PLAN_LIMITS.skillParamsBytes} are allowed`,
      'put large data into a file, and pass its name',
    );
  return { params: values, unreadable };
}

function renderTextPart(part: string | number, { sources }: TextsPlan): string {
  return typeof part === 'string' ? part : `\${{ ${sources[part]!} }}`;
}
