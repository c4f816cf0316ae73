/** SKILL.md: what an agent reads first. It says how the program is called; what to do is in the program's prompts. */
import type { Buildable, ReferenceDefinition, SkillDefinition } from '../../domain/step-machine/definition.ts';
import { listDeclaredVariables } from '../../domain/step-machine/skill-variables.ts';
import { HOST_TOOLS } from '../prompt/agent-hosts.ts';
import { inputJsonSchema } from '../author/schema.ts';
import { frontmatter, type Head, hasTopics, mcpTools } from './frontmatter.ts';
import { parameterTable } from './parameter-table.ts';

/** Where a session's state is between two calls: in a file, or in what the agent hands in each time. */
export type Protocol = 'session' | 'stateless';

const MOST_PROMPT = 100;

export function skillMd(head: Head, protocol: Protocol): string {
  const { definition } = head;
  const body =
    definition.kind === 'reference'
      ? referenceBody(definition)
      : (ownBody(definition) ?? skillBody(definition, protocol));
  return `${frontmatter(head)}\n${body.trim()}\n`;
}

function ownBody(definition: SkillDefinition): string | undefined {
  const { skillMd: own } = definition;
  return typeof own === 'function' ? own(definition) : own;
}

function skillBody(definition: SkillDefinition, protocol: Protocol): string {
  const { name, params } = definition;
  const schema = params === undefined ? null : inputJsonSchema(params);
  const table = schema === null ? null : parameterTable(schema);
  return [
    `# ${name}`,
    `A program leads through this skill, one step at a time. Each step is a prompt and, where an answer is due, the JSON Schema of that answer; the program checks what you hand in and decides which step comes next. Do what the current prompt says, neither less nor more: do not guess at later steps, and do not look for them in the program's files.`,
    overMcp(definition),
    protocol === 'session' ? withSession(definition) : withoutSession(definition),
    ...(table === null ? [] : [`## Parameters\nThey are given when the skill is started.\n\n${table}`]),
    ...variablePart(definition),
    ...subskillPart(definition),
    ...(hasTopics(definition)
      ? [topicPart(definition.topics ?? {}, 'To read one on its own: `scripts/run topic <name>`.')]
      : []),
    stepPart(definition),
  ].join('\n\n');
}

function overMcp(definition: Buildable): string {
  const tools = mcpTools(definition).map((tool) => `\`mcp__${definition.name}__${tool}\``);
  const how =
    definition.kind === 'reference'
      ? 'They have the same arguments and results as the command line below.'
      : 'Call `start` with `params`, then `advance` with the `session`, the `step` and your `output`, until `status` is `done`; `finalOutput` is the result. After `waiting`, call `advance` with only the session when its time has come; for an `error`, follow its `remedy`.';
  return `## With its MCP tools\nIf you have ${tools.join(', ')}, use them instead of the command line. ${how}\n(The server is \`scripts/run mcp --host <host>\`, on stdio.)`;
}

function withSession(definition: SkillDefinition): string {
  return [
    COMMAND_LINE,
    `1. Begin. ${HOSTS}`,
    indented(renderCodeBlock('sh', `scripts/run start --session new --host <host>${paramsFlag(definition)}`)),
    '   It prints `{"sessionId","file","line"}`. Line `line` of `file` is a JSON object: `preamble` says how to read prompts, `prompt` what to do, `schema` what your answer has to fit.',
    '2. Do what the prompt says, then append your answer to the file, on a line of its own:',
    indented(renderCodeBlock('json', '{"type":"output","step":"<step>","output":<answer>}')),
    '3. Hand it in; the number that is printed is the line with what comes next:',
    indented(renderCodeBlock('sh', 'scripts/run advance --session <sessionId>')),
    '4. Continue with 2 until `kind` is `done`; `finalOutput` is the result. `error` with `"retry": true` means: fix the answer, append it again, hand it in again. `waiting` means: hand in again when `dueMs` (since 1970) has come. Calling `advance` twice does no harm.',
    '5. `scripts/run cleanup --session <sessionId>` removes the file.',
  ].join('\n');
}

function withoutSession(definition: SkillDefinition): string {
  const params = paramsFlag(definition);
  return [
    COMMAND_LINE,
    `1. Begin. ${HOSTS}`,
    indented(renderCodeBlock('sh', `scripts/run start --host <host>${params}`)),
    '   It prints a JSON object: `preamble` says how to read prompts, `prompt` what to do, `schema` what your answer has to fit.',
    '2. Do what the prompt says, then hand in your answer, with the history of all completed steps:',
    indented(
      renderCodeBlock(
        'sh',
        `scripts/run advance --step <step> --output '<answer>' --history '<history>' --host <host>${params}`,
      ),
    ),
    '   To the history, an array that begins empty, append `completed` and then all of `autoAdvanced` of each result, in that order. What is long goes into a file: `--history-file <path>`, `--output-file <path>`.',
    '3. Continue with 2 until `kind` is `done`; `finalOutput` is the result. `error` with `"retry": true` means: fix the answer and hand it in again.',
  ].join('\n');
}

const COMMAND_LINE = `## On the command line
\`scripts/run\` is meant from the folder of this file; from elsewhere call it by its full path. \`scripts/run --help\` lists all flags.
`;

const HOSTS = `\`<host>\` is what you run in: ${Object.keys(HOST_TOOLS).join(', ')}, or generic. With \`--tools a,b\` you name tools that you have; add \`--subagent\` if another agent started you.`;

function paramsFlag({ params }: SkillDefinition): string {
  return params === undefined ? '' : " --params '<json>'";
}

function subskillPart({ subskills = {} }: SkillDefinition): readonly string[] {
  const names = Object.entries(subskills);
  if (names.length === 0) return [];
  const lines = names.map(
    ([name, { definition }]) =>
      `- \`${name}\`${definition.description === undefined ? '' : `: ${toOneLine(definition.description)}`}`,
  );
  return [
    `## Parts\nThe skill leads to these automatically. To begin with one of them: \`--subskill <name>\` at the start.\n\n${lines.join('\n')}`,
  ];
}

function variablePart(definition: SkillDefinition): readonly string[] {
  const names = listDeclaredVariables(definition);
  if (names.length === 0) return [];
  const lines = names.map((name) => `- \`${name}\``);
  return [
    `## Variables\nThe program reads these environment variables and does not start if one of them is not set. If one is missing, ask the user to set it; do not ask for its value, and do not print it.\n\n${lines.join('\n')}`,
  ];
}

function topicPart(topics: SkillDefinition['topics'] & object, how: string): string {
  const lines = Object.entries(topics).map(([name, { label }]) => `- \`${name}\`: ${toOneLine(label)}`);
  return `## Topics\n${how}\n\n${lines.join('\n')}`;
}

function stepPart({ steps }: SkillDefinition): string {
  const lines = Object.entries(steps).map(([name, { config }]) => {
    if (config.prompt === undefined) return `- \`${name}\`: done by the program`;
    return typeof config.prompt === 'string'
      ? `- \`${name}\`: ${shortenText(toOneLine(config.prompt))}`
      : `- \`${name}\``;
  });
  return `## Steps\nWhich of them are taken, and in what order, is the program's to say.\n\n${lines.join('\n')}`;
}

function referenceBody(definition: ReferenceDefinition): string {
  return [
    `# ${definition.name}`,
    'Texts by topic. Read those that bear on what you are doing, and no others.',
    topicPart(
      definition.topics,
      '`scripts/run topic <name>`, called from the folder of this file or by its full path, prints one; `scripts/run topics` lists them.',
    ),
    overMcp(definition),
  ].join('\n\n');
}

function renderCodeBlock(language: string, text: string): string {
  return `\`\`\`${language}\n${text}\n\`\`\``;
}

function indented(text: string): string {
  return text.replaceAll(/^/gm, '   ');
}

function toOneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim();
}

function shortenText(text: string): string {
  const characters = [...text];
  return characters.length <= MOST_PROMPT ? text : `${characters.slice(0, MOST_PROMPT).join('').trimEnd()}…`;
}
