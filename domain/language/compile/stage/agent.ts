import { AGENT_DEFAULTS } from '../../../plan/defaults.ts';
import {
  type AgentSkill,
  type AgentWork,
  type EnvPlan,
  type LlmPlan,
  PLAN_LIMITS,
  type PricePlan,
} from '../../../plan/plan.ts';
import { compileBudget } from './budget.ts';
import { compileGuestPath, compileHostPath } from '../vm/sandbox.ts';
import { PROMPT_REMEDY } from '../../grammar/agent-table.ts';
import { NAME, REPOSITORY, VARIABLE, VARIABLE_LIMITS } from '../../grammar/values.ts';
import type { Filler } from '../../grammar/placeholders.ts';
import { isAddress } from './host-settings.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { EnvSpec, StageSpec } from '../../read/spec.ts';
import type { Located, Position } from '../../text/tree.ts';
import { quote } from '../../../units/quote.ts';

type LlmSpec = NonNullable<StageSpec['llm']>;
type AgentSkillSpec = StageSpec['skills'][number];

export interface AgentContext {
  readonly what: string;
  /** The `llm` of the stage, else of the spec. */
  readonly llm: LlmSpec | null;
  readonly env: readonly EnvPlan[];
  readonly baseDir: string | null;
  readonly fill: Filler;
  readonly compileEnv: (layer: readonly EnvSpec[]) => readonly EnvPlan[];
  readonly problems: Problems;
}

/** A prompt that is only a path, as other systems accept it. */
const NAMES_FILE = /^(?:(?:file:|@)\S+|\S+\/\S+\.(?:md|txt|prompt))$/;

export function compileAgent(stage: StageSpec, prompt: Located<string>, context: AgentContext): AgentWork {
  const { what, llm, env, fill, problems } = context;
  const mode = stage.agent?.mode?.value ?? stage.mode?.value ?? AGENT_DEFAULTS.mode;
  const filled = fill(prompt);
  // The reader has already reported an empty prompt of a step or box.
  if (mode !== 'interactive' && filled.trim() === '' && (stage.agent !== null || prompt.value !== ''))
    problems.error(
      'spec/bad-value',
      prompt.at,
      `the prompt of ${what} is empty`,
      `write what the agent is asked${stage.agent === null ? '' : ', or `mode: interactive`'}`,
    );
  else if (NAMES_FILE.test(prompt.value))
    problems.warning(
      'spec/bad-value',
      prompt.at,
      `the prompt of ${what} is ${quote(prompt.value)}, which the agent gets as it is: no file is read`,
      PROMPT_REMEDY,
    );
  refuseTogether(stage, llm, context);
  return {
    kind: 'agent',
    mode,
    prompt: filled,
    llm: llm === null ? null : compileLlm(llm, what, problems),
    skills: compileAgentSkills(stage.skills, context),
    env,
    messaging: stage.agent?.messaging?.enabled ?? AGENT_DEFAULTS.messaging,
    ...compileBudget(stage.budget, llm === null ? null : planOfLlm(llm), what, problems),
  };
}

/** Rejects keys that contradict `mode`; each message names both keys. */
function refuseTogether(stage: StageSpec, llm: LlmSpec | null, { what, problems }: AgentContext): void {
  const mode = stage.agent?.mode ?? stage.mode;
  if (mode === null || mode.value === 'task') return;
  const refuse = (message: string, remedy: string): void =>
    problems.error('spec/bad-value', mode.at, `${what} has \`mode: ${mode.value}\` ${message}`, remedy);
  if (stage.timeoutMs !== null) refuse('and `timeout_secs`', 'remove one of them: only `mode: task` has a time limit');
  if (mode.value !== 'service') return;
  if (stage.outputFile === null) refuse('and no `output_file`', 'add `output_file: /workspace/output.json`');
  if (llm?.credentialProxy === true)
    refuse('and `credential_proxy` of `llm`', 'remove one of them: the proxy does not serve services');
  if (stage.workspace !== null)
    refuse(
      'and a `workspace`, whose changes are saved only when a stage ends',
      'remove one of them, or publish results with `output_file`',
    );
}

export function compileLlm(llm: LlmSpec, what: string, problems: Problems): LlmPlan {
  const { model, baseUrl, apiKeyEnv } = llm;
  for (const text of [model, baseUrl])
    if (text !== null && text.value.length > PLAN_LIMITS.referenceCharacters)
      problems.error(
        'spec/too-large',
        text.at,
        `a value in \`llm\` of ${what} has ${text.value.length} characters; at most ${PLAN_LIMITS.referenceCharacters} are allowed`,
        'write a shorter one',
      );
  refuseNoAddress(baseUrl, what, problems);
  if (apiKeyEnv !== null && (!VARIABLE.test(apiKeyEnv.value) || apiKeyEnv.value.length > VARIABLE_LIMITS.nameLength))
    problems.error(
      'spec/bad-value',
      apiKeyEnv.at,
      `\`api_key_env\` of ${what} does not name a variable`,
      'write the name of a variable of the host, never the key itself',
    );
  return planOfLlm(llm);
}

/** Rejects a `base_url` without a host: the VM could not reach it, and the agent would wait for an answer in vain. */
function refuseNoAddress(baseUrl: LlmSpec['baseUrl'], what: string, problems: Problems): void {
  if (baseUrl === null || baseUrl.value === '' || isAddress(baseUrl.value)) return;
  // Its length is reported elsewhere.
  if (baseUrl.value.length > PLAN_LIMITS.referenceCharacters) return;
  // Do not print text that may contain a password.
  const shown = baseUrl.value.includes('@') ? 'a URL with a user or password' : quote(baseUrl.value);
  const withScheme = `http://${baseUrl.value}`;
  problems.error(
    'spec/bad-value',
    baseUrl.at,
    `\`base_url\` of ${what} is ${shown}, which is not the URL of a model server`,
    `write ${isAddress(withScheme) ? `it with its scheme, such as ${withScheme}` : 'a URL without a user and a password, such as http://127.0.0.1:8080 (for a key, use `api_key_env`)'}`,
  );
}

/** Returns the `llm` as the author wrote it, with its mistakes. */
export function planOfLlm({ provider, model, baseUrl, apiKeyEnv, credentialProxy, price }: LlmSpec): LlmPlan {
  return {
    provider: provider.value,
    model: model?.value ?? null,
    baseUrl: baseUrl?.value ?? null,
    apiKeyEnv: apiKeyEnv?.value ?? null,
    credentialProxy: credentialProxy ?? false,
    ...(price === null ? {} : { price: planOfPrice(price) }),
  };
}

function planOfPrice({ inputUsd, cachedInputUsd, outputUsd }: NonNullable<LlmSpec['price']>): PricePlan {
  return { inputUsd, ...(cachedInputUsd === null ? {} : { cachedInputUsd }), outputUsd };
}

export function compileAgentSkills(specs: readonly AgentSkillSpec[], context: AgentContext): readonly AgentSkill[] {
  const { what, problems } = context;
  const over = specs[PLAN_LIMITS.skills];
  if (over !== undefined)
    problems.error(
      'spec/too-large',
      over.at,
      `${what} has ${specs.length} agent skills; at most ${PLAN_LIMITS.skills} are allowed`,
      'remove some',
    );
  const documents = new Map<string, Position>();
  return specs.slice(0, PLAN_LIMITS.skills).flatMap((spec) => {
    const skill = compileAgentSkill(spec, context);
    const document = skill === null ? null : documentOf(skill);
    const before = document === null ? undefined : documents.get(document);
    if (before !== undefined)
      problems.error(
        'spec/duplicate-name',
        spec.at,
        `two agent skills of ${what} have the name ${quote(document!)}, the first on line ${before.line}`,
        'rename one of them',
      );
    else if (document !== null) documents.set(document, spec.at);
    return skill ?? [];
  });
}

/** Returns the name of the guest's file with the agent skill; null if the agent skill has no file. */
function documentOf(skill: AgentSkill): string | null {
  switch (skill.kind) {
    case 'file':
      return stemOf(skill.source.path);
    case 'remote':
      return skill.skill ?? skill.repository.split('/')[1]!;
    case 'cli':
    case 'inline':
      return skill.name;
    case 'agent':
    case 'mcp':
    case 'image':
    case 'server':
      return null;
  }
}

function stemOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1).replace(/\.[^.]*$/, '');
}

function compileAgentSkill(spec: AgentSkillSpec, context: AgentContext): AgentSkill | null {
  const { what, problems } = context;
  switch (spec.variant) {
    case 'text':
      return compileTextAgentSkill(spec, context);
    case 'image': {
      const guestPath = compileGuestPath(spec.guestPath, `an agent skill of ${what}`, problems);
      return guestPath === null
        ? null
        : { kind: 'image', image: spec.image.value, guestPath, readOnly: spec.readOnly ?? true };
    }
    case 'command':
      return {
        kind: 'server',
        command: spec.command.value,
        args: spec.args.map(({ value }) => value),
        env: context.compileEnv(spec.env),
      };
    case 'content':
      return { kind: 'inline', name: spec.name.value, content: spec.content.value };
  }
}

function compileTextAgentSkill(
  { prefix, text, at }: AgentSkillSpec & { readonly variant: 'text' },
  { baseDir, problems }: AgentContext,
): AgentSkill | null {
  const refuse = (message: string, remedy: string): null => {
    problems.error('spec/bad-value', at, `the agent skill ${quote(`${prefix}:${text}`)} ${message}`, remedy);
    return null;
  };
  switch (prefix) {
    case 'file': {
      const path = compileHostPath({ value: text, at }, `the agent skill ${quote(`file:${text}`)}`, baseDir, problems);
      if (path === null) return null;
      const stem = stemOf(path);
      if (!NAME.test(stem) || stem.length > PLAN_LIMITS.nameLength)
        return refuse(
          `would be named ${quote(stem)} in the guest`,
          'rename the file: letters, digits, `.`, `_` and `-`, a letter or digit first',
        );
      return { kind: 'file', source: { kind: 'host', path } };
    }
    case 'remote': {
      const [owner = '', name = '', skill, ...more] = text.split('/');
      const repository = `${owner}/${name}`;
      if (
        !REPOSITORY.test(repository) ||
        more.length > 0 ||
        (skill !== undefined && !NAME.test(skill)) ||
        text.length > 256
      )
        return refuse('names no repository', 'write `remote:OWNER/REPOSITORY` or `remote:OWNER/REPOSITORY/SKILL`');
      return { kind: 'remote', repository, skill: skill ?? null };
    }
    case 'agent':
    case 'cli':
    case 'mcp':
      return NAME.test(text) && text.length <= PLAN_LIMITS.nameLength
        ? { kind: prefix, name: text }
        : refuse('has no valid name', 'use letters, digits, `.`, `_` and `-`, a letter or digit first');
  }
}
