/** The head of SKILL.md: the fields of agentskills.io, and behind them those that only some hosts know. */
import type { Buildable, SkillDefinition } from '../../domain/step-machine/definition.ts';
import { BUILT_WITH } from './output-folder.ts';

const NAME = /^[a-z0-9]+(-[a-z0-9]+)*$/;
const MOST_NAME = 64;
const MOST_DESCRIPTION = 1024;
const MOST_COMPATIBILITY = 500;
/** `123`, `true`, `no`, `1e3` and `2024-01-31` are no texts to every reader of YAML. */
const READS_AS_TEXT = /^(?!(?:true|false|null|yes|no|on|off|y|n|e\d+)$)[a-z]/;
/** Controls, line breaks that JSON does not escape, and what is no character. */
const UNPRINTABLE = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g;
const NO_VERSION = '0.0.0';

export interface Head {
  readonly definition: Buildable;
  readonly version: string;
  /** The requirements of the skill, if its author does not set them. */
  readonly needs: string;
  /** The program that made the skill, e.g. `voidbox 1.0.0`. */
  readonly builtWith: string;
}

/** All that agentskills.io would refuse, with remedies; empty when the skill may be called so and lie in that folder. */
export function complianceProblems(
  { name, description, compatibility }: Buildable,
  folderName: string,
): readonly string[] {
  const problems: string[] = [];
  const add = (isWrong: boolean, problem: string): void => void (isWrong && problems.push(problem));
  const isNamed = NAME.test(name) && name.length <= MOST_NAME;
  add(!isNamed, `the name "${name}" must be 1 to ${MOST_NAME} of a-z, 0-9 and single "-" between them`);
  add(
    isNamed && name !== folderName,
    `the folder is called "${folderName}" and the skill "${name}": build it into a folder of the skill's name (-o …/${name})`,
  );
  add(!description?.trim(), 'it has no description: say with `description` what the skill does and when to use it');
  const [described, compatible] = [[...(description ?? '')].length, [...(compatibility ?? '')].length];
  add(
    described > MOST_DESCRIPTION,
    `the description, triggers included, has ${described} characters; at most ${MOST_DESCRIPTION} are allowed`,
  );
  add(
    compatible > MOST_COMPATIBILITY,
    `compatibility has ${compatible} characters; at most ${MOST_COMPATIBILITY} are allowed`,
  );
  add(
    compatibility !== undefined && compatibility.trim() === '',
    'its compatibility is empty: leave it out, and SKILL.md says what the program needs',
  );
  return problems;
}

/** Fields that agentskills.io does not know and that the author has set. */
export function hostFieldNames(definition: Buildable): readonly string[] {
  return hostFields(definition).map(([key]) => key);
}

export function frontmatter({ definition, version, needs, builtWith }: Head): string {
  const { name, description = '', license, compatibility = needs } = definition;
  const lines = [
    `name: ${READS_AS_TEXT.test(name) ? name : quoteYaml(name)}`,
    `description: ${quoteYaml(description)}`,
    ...(license === undefined ? [] : [`license: ${quoteYaml(license)}`]),
    `compatibility: ${quoteYaml(compatibility)}`,
    'metadata:',
    ...(version === NO_VERSION ? [] : [`  version: ${quoteYaml(version)}`]),
    `  ${BUILT_WITH}: ${quoteYaml(builtWith)}`,
    `allowed-tools: ${quoteYaml(listAllowedTools(definition).join(' '))}`,
    ...hostFields(definition).flatMap(([key, value]) => field(key, value)),
  ];
  return `---\n${lines.join('\n')}\n---\n`;
}

/** Those that the text of SKILL.md asks the agent to use, then the author's. */
function listAllowedTools(definition: Buildable): readonly string[] {
  const { name, allowedTools: more = [] } = definition;
  const tools = mcpTools(definition).map((tool) => `mcp__${name}__${tool}`);
  const own = typeof more === 'string' ? (more.match(/[^\s(]+(\([^)]*\))?/g) ?? []) : more;
  return [...new Set(['Bash(scripts/run:*)', 'Read', ...tools, ...own])];
}

/** Returns the tools that the skill's server offers. */
export function mcpTools(definition: Buildable): readonly string[] {
  if (definition.kind === 'reference') return ['topics', 'topic'];
  return ['start', 'advance', ...(hasTopics(definition) ? ['topics', 'topic'] : [])];
}

export function hasTopics({ topics }: SkillDefinition): boolean {
  return Object.keys(topics ?? {}).length > 0;
}

type Value = string | boolean | readonly string[];

function hostFields(definition: Buildable): readonly (readonly [string, Value])[] {
  const fields: readonly (readonly [string, Value | undefined])[] = [
    ['argument-hint', definition.argumentHint],
    ['arguments', definition.arguments],
    ['paths', definition.paths],
    ['context', definition.context],
    ['agent', definition.agent],
    ['model', definition.model],
    ['effort', definition.effort],
    ['disable-model-invocation', definition.disableModelInvocation],
    ['user-invocable', definition.userInvocable],
  ];
  return fields.flatMap(([key, value]) =>
    value === undefined || (Array.isArray(value) && value.length === 0) ? [] : [[key, value] as const],
  );
}

function field(key: string, value: Value): readonly string[] {
  if (typeof value === 'boolean') return [`${key}: ${value}`];
  if (typeof value === 'string') return [`${key}: ${quoteYaml(value)}`];
  return [`${key}:`, ...value.map((one) => `  - ${quoteYaml(one)}`)];
}

/**
 * JSON's strings are YAML's, except for characters that YAML requires escaped. `---` is escaped as well, because some
 * readers cut at the first one.
 */
function quoteYaml(text: string): string {
  return JSON.stringify(text)
    .replaceAll('---', '-\\u002d-')
    .replaceAll(UNPRINTABLE, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
