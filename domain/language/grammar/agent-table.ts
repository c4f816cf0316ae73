import { AGENT_STAGE_DEFAULTS } from '../../plan/defaults.ts';
import { AGENT_MODES, LLM_PROVIDERS, PLAN_LIMITS } from '../../plan/plan.ts';
import { MOCK_KEY } from './mock-table.ts';
import { OWN_WORKSPACE_KEY } from './workspace-table.ts';
import { OUTPUT_SCHEMA_KEY } from './output-schema-key.ts';
import type { Key, Keys, MappingTable } from './table.ts';
import { RANGES, SCALES } from './values.ts';

const PRICE = {
  form: (text) => `{ input: ${text}, output: NUMBER }`,
  keys: {
    input: {
      as: 'inputUsd',
      type: { is: 'number', range: RANGES.priceUsd },
      required: true,
      doc: 'For a million tokens that the model reads.',
      example: 1.25,
    },
    cached_input: {
      as: 'cachedInputUsd',
      type: { is: 'number', range: RANGES.priceUsd },
      mistaken: ['cached', 'cache', 'cache_read'],
      otherwise: '`input`',
      doc: "For a million tokens from the provider's cache.",
      example: 0.125,
    },
    output: {
      as: 'outputUsd',
      type: { is: 'number', range: RANGES.priceUsd },
      required: true,
      doc: 'For a million tokens that the model writes.',
      example: 10,
    },
  },
} as const satisfies MappingTable;

const BUDGET_KEYS = {
  max_cost_usd: {
    as: 'maxCostUsd',
    type: { is: 'number', range: RANGES.costUsd },
    mistaken: ['max_cost', 'cost', 'max_usd', 'max_budget_usd', 'usd'],
    doc: 'Most cost.',
    example: 0.5,
  },
  max_tokens: {
    as: 'maxTokens',
    type: { is: 'number', range: RANGES.tokens },
    mistaken: ['tokens', 'token_limit'],
    doc: 'Most tokens: read, written and cached.',
    example: 200_000,
  },
  max_turns: {
    as: 'maxTurns',
    type: { is: 'number', range: RANGES.turns },
    mistaken: ['turns', 'max_steps', 'max_calls'],
    doc: 'Most calls of the model.',
    example: 40,
  },
} as const satisfies Keys;

export const BUDGET = { keys: BUDGET_KEYS } as const satisfies MappingTable;

/** The key `budget` of an agent. */
export const BUDGET_KEY = {
  as: 'budget',
  type: { is: 'mapping', table: BUDGET },
  mistaken: ['budgets', 'limits', 'max_cost_usd', 'max_tokens', 'max_turns'],
  form: 'budget: { LIMIT: NUMBER }',
  otherwise: 'no limit',
  doc: 'Limits of one attempt. See [Budgets](agents.md#budgets).',
  example: { max_turns: 40, max_tokens: 200_000, max_cost_usd: 0.5 },
} as const satisfies Key;

export const LLM = {
  form: (text) => `{ provider: ${text} }`,
  keys: {
    provider: {
      as: 'provider',
      type: { is: 'word', words: LLM_PROVIDERS, aliases: { lmstudio: 'lm-studio' }, anyCase: true },
      required: true,
      mistaken: ['name', 'vendor'],
      doc: 'The provider that answers. Case does not matter.',
      example: 'claude',
    },
    model: {
      as: 'model',
      type: { is: 'text', holds: 'text', plain: true, filled: 'name a model, or remove it' },
      otherwise: "the provider's",
      doc: 'The model.',
      example: 'qwen3-coder:7b',
    },
    base_url: {
      as: 'baseUrl',
      type: { is: 'text', holds: 'text', plain: true, filled: 'write an address, or remove it' },
      mistaken: ['url', 'endpoint'],
      otherwise: "the provider's",
      doc: "The URL of the provider's API.",
      example: 'http://10.0.2.2:11434',
    },
    api_key_env: {
      as: 'apiKeyEnv',
      type: { is: 'text', holds: "a variable's name", plain: true },
      mistaken: ['api_key', 'key_env'],
      otherwise: "the provider's",
      doc: "The host's variable with the key; the plan never contains its value.",
      example: 'TEAM_API_KEY',
    },
    credential_proxy: {
      as: 'credentialProxy',
      type: { is: 'flag' },
      default: false,
      doc: 'A proxy keeps the key on the host. Not for `mode: service`.',
      example: true,
    },
    price: {
      as: 'price',
      type: { is: 'mapping', table: PRICE },
      mistaken: ['prices', 'cost', 'pricing'],
      form: 'price: { input: NUMBER, output: NUMBER }',
      otherwise: 'the costs that the command line reports, if any',
      doc: "The model's price in US dollars. See [Budgets](agents.md#budgets).",
      example: { input: 1.25, cached_input: 0.125, output: 10 },
    },
  },
} as const satisfies MappingTable;

const IMAGE_SKILL = {
  keys: {
    image: {
      as: 'image',
      type: { is: 'text', holds: 'image', plain: true, filled: 'name an image, such as python:3.12-slim' },
      required: true,
      doc: 'A container image.',
      example: 'python:3.12-slim',
    },
    mount: {
      as: 'guestPath',
      type: { is: 'text', holds: 'absolute path', plain: true, absolute: true },
      required: true,
      mistaken: ['guest', 'target', 'path'],
      doc: 'The path in the guest.',
      example: '/skills/python',
    },
    readonly: {
      as: 'readOnly',
      type: { is: 'flag' },
      default: true,
      doc: 'Whether the guest cannot change them.',
      example: false,
    },
  },
} as const satisfies MappingTable;

const SERVER_SKILL = {
  keys: {
    command: {
      as: 'command',
      type: { is: 'text', holds: 'text', plain: true, filled: 'name a program of the guest' },
      required: true,
      doc: 'Program of an MCP server.',
      example: 'market-mcp',
    },
    args: {
      as: 'args',
      type: { is: 'list', of: { is: 'text', holds: 'text', lenient: true }, item: 'an argument', items: 'texts' },
      doc: 'Its arguments.',
      example: ['--cache', '/tmp'],
    },
    env: {
      as: 'env',
      type: { is: 'variables' },
      doc: 'Its variables. See [Variables](#variables).',
      example: { LANG: 'C.UTF-8' },
    },
  },
} as const satisfies MappingTable;

const INLINE_SKILL = {
  keys: {
    name: { as: 'name', type: { is: 'name' }, required: true, doc: 'Names its file.', example: 'style' },
    content: {
      as: 'content',
      type: { is: 'text', holds: 'text' },
      required: true,
      doc: 'The document.',
      example: 'Write short sentences.',
    },
  },
} as const satisfies MappingTable;

export const SKILL_TYPES = ['agent', 'file', 'remote', 'cli', 'mcp'] as const;

/** One agent skill of each form, in their order, and one text. */
export const SKILLS_EXAMPLE = [
  { image: 'python:3.12-slim', mount: '/skills/python' },
  { command: 'market-mcp', args: ['--cache', '/tmp'] },
  { name: 'style', content: 'Write short sentences.' },
  'file:skills/review.md',
] as const;

export const SKILLS = {
  is: 'list',
  of: {
    is: 'forms',
    prefixes: SKILL_TYPES,
    form: 'file:PATH` or `{ name: NAME, content: TEXT }',
    tables: { image: IMAGE_SKILL, command: SERVER_SKILL, content: INLINE_SKILL },
  },
  item: 'an agent skill',
  items: 'skills',
  most: PLAN_LIMITS.skills,
} as const;

const MESSAGING = {
  keys: {
    enabled: {
      as: 'enabled',
      type: { is: 'flag' },
      default: false,
      doc: 'Whether the agent talks with other agents.',
      example: true,
    },
    provider_bridge: {
      as: 'providerBridge',
      type: { is: 'text', holds: 'text' },
      doc: 'Accepted; no effect.',
      example: 'claude',
    },
  },
} as const satisfies MappingTable;

export const PROMPT_DOC = 'The task for the agent.';

type Refused = NonNullable<MappingTable['unsupported']>[string];

/** Voidbox does not read a prompt from a file: the run may execute on another machine than the one with the file. */
export const PROMPT_REMEDY = 'write the text itself (`prompt: |`), or list the file in `skills`: `file:PATH`';

/** Errors for keys of an agent, a step and a box that name a file. */
export const PROMPT_FILES = Object.fromEntries(
  ['prompt_file', 'prompt_path'].map((key) => [
    key,
    {
      severity: 'error',
      code: 'spec/wrong-key',
      message: `a prompt cannot be read from a file: \`${key}\``,
      remedy: PROMPT_REMEDY,
    } as const satisfies Refused,
  ]),
);

function refuseEach(keys: readonly string[], what: string, remedy: string): Readonly<Record<string, Refused>> {
  return Object.fromEntries(
    keys.map((key) => [
      key,
      { severity: 'error', code: 'spec/wrong-key', message: `\`agent\` has no \`${key}\`${what}`, remedy },
    ]),
  );
}

/**
 * Keys that `agent` does not have: keys of a step with a prompt, and keys of the top level. Each is an error, because
 * without it another agent would run.
 */
const NOT_OF_AGENT = {
  ...PROMPT_FILES,
  ...refuseEach(
    ['llm', 'sandbox', 'params'],
    ': it belongs to the top level, next to `agent`',
    'move it to the top level of the spec',
  ),
  ...refuseEach(
    ['provider', 'model', 'base_url', 'api_key_env', 'api_key'],
    ': it belongs to `llm`, next to `agent`',
    'write `llm: { provider: NAME, model: NAME }` at the top level of the spec',
  ),
  ...refuseEach(
    ['env', 'image', 'memory_mb', 'vcpus', 'disk_mb', 'network', 'egress', 'services', 'mounts', 'keep'],
    ': it belongs to `sandbox`, next to `agent`',
    'write it in `sandbox` at the top level of the spec',
  ),
  ...refuseEach(
    ['secrets'],
    '',
    'write `sandbox: { env: { NAME: "" } }` at the top level, which takes the value of the variable on the host, or use `kind: workflow` and a step with `prompt` and `secrets`',
  ),
  ...refuseEach(
    ['retry', 'inputs', 'outputs', 'for_each', 'when', 'depends_on', 'continue_on_error', 'on_failure', 'run'],
    ': it belongs to a step or box',
    'write `kind: workflow`, with the agent as a step',
  ),
  ...refuseEach(['interactive'], '', 'write `mode: interactive`, or remove it'),
} as const;

/** The only stage of `kind: agent`. */
export const AGENT = {
  keys: {
    prompt: {
      as: 'prompt',
      type: { is: 'text', holds: 'text' },
      required: true,
      mistaken: ['message', 'task', 'instructions'],
      doc: `${PROMPT_DOC} It may be empty with \`mode: interactive\`.`,
      example: 'Review the code in /workspace.',
    },
    skills: {
      as: 'skills',
      type: SKILLS,
      doc: 'Documents, programs and images for the agent. See [Agents](#agents).',
      example: SKILLS_EXAMPLE,
    },
    timeout_secs: {
      as: 'timeoutMs',
      type: { is: 'number', range: RANGES.agentTimeoutSecs, scale: SCALES.msPerSecond },
      mistaken: ['timeout', 'timeout_sec', 'timeout_seconds', 'timeout_ms', 'time_limit'],
      default: AGENT_STAGE_DEFAULTS.timeoutMs / SCALES.msPerSecond,
      doc: 'Time limit for one attempt; 0 means the maximum. With `mode: task` only.',
      example: 600,
    },
    output_file: {
      as: 'outputFile',
      type: { is: 'text', holds: 'absolute path', plain: true, absolute: true },
      mistaken: ['output', 'output_path', 'result_file'],
      default: AGENT_STAGE_DEFAULTS.outputFile,
      doc: 'The file whose content is the output. `mode: service` requires it.',
      example: '/workspace/report.md',
    },
    output_schema: OUTPUT_SCHEMA_KEY,
    budget: BUDGET_KEY,
    workspace: OWN_WORKSPACE_KEY,
    mock: MOCK_KEY,
    messaging: {
      as: 'messaging',
      type: { is: 'mapping', table: MESSAGING },
      doc: 'Messages between agents.',
      example: { enabled: true },
    },
    mode: {
      as: 'mode',
      type: { is: 'word', words: AGENT_MODES },
      default: 'task',
      doc: '`task` ends with its output, `service` serves until the run is cancelled, `interactive` has a terminal.',
      example: 'interactive',
    },
  },
  unsupported: NOT_OF_AGENT,
} as const satisfies MappingTable;
