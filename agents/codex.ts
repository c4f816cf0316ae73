import { createCodexStream, sessionUseOfCodex } from './codex-stream.ts';
import { AGENT_HOME, type AgentCommand, type AgentProvider, type AgentTask } from './provider.ts';
import { type McpServer, mcpServers, skillFiles, skillsBelow } from './skills.ts';

const OPENAI = 'https://api.openai.com/v1';
const SCHEMA_FILE = `${AGENT_HOME}/.voidbox/output-schema.json`;

/** Without these it asks four other hosts, and waits for ever for a server that is not there. */
const QUIET = [
  ...['plugins', 'apps', 'remote_plugin', 'shell_snapshot', 'unbounded_connection_retries'].flatMap((feature) => [
    '--disable',
    feature,
  ]),
  ...['check_for_update_on_startup=false', 'analytics.enabled=false', 'feedback.enabled=false'].flatMap((setting) => [
    '-c',
    setting,
  ]),
];

export const CODEX_SESSIONS = `${AGENT_HOME}/.codex/sessions`;

/** It reads none of Claude's; those of a user are in no repository. */
const CODEX_SKILLS = `${AGENT_HOME}/.agents/skills`;

/** OpenAI's Codex. */
export const codex: AgentProvider = {
  name: 'codex',
  cli: 'codex',
  sessionFolder: CODEX_SESSIONS,
  sessionUse: sessionUseOfCodex,
  command: (task) => codexCommand(task, task.llm === null ? null : renderKeyedServer(task.llm)),
  stream: createCodexStream,
};

type TomlTable = Readonly<Record<string, string | boolean>>;

/**
 * OPENAI_BASE_URL has no effect on it, so that a server is a provider of its own. OpenAI's is one too: the provider that is built
 * in does not read the key from the environment, and tries web sockets first.
 * @param server  as its settings name one; null: its own
 * @param settings  further arguments
 */
export function codexCommand(
  { llm, skills, outputSchema, resume }: AgentTask,
  server: TomlTable | null,
  settings: readonly string[] = [],
): AgentCommand {
  const hasSchema = outputSchema !== undefined && resume === null;
  return {
    args: [
      'exec',
      ...(resume === null ? [] : ['resume', resume]),
      '--json',
      '--skip-git-repo-check',
      '--dangerously-bypass-approvals-and-sandbox',
      ...QUIET,
      ...(server === null
        ? []
        : ['-c', 'model_provider=voidbox', '-c', `model_providers.voidbox=${inlineTable(server)}`]),
      ...settings,
      ...mcpServers(skills).flatMap((server) => ['-c', serverSetting(server)]),
      ...(llm?.model ? ['-m', llm.model] : []),
      ...(hasSchema ? ['--output-schema', SCHEMA_FILE] : []),
      '-',
    ],
    env: { HOME: AGENT_HOME },
    files: [
      ...(hasSchema ? [{ guestPath: SCHEMA_FILE, text: `${JSON.stringify(outputSchema)}\n` }] : []),
      ...skillFiles(skills),
      ...skillsBelow(CODEX_SKILLS, skills),
    ],
  };
}

function renderKeyedServer({ baseUrl }: NonNullable<AgentTask['llm']>): TomlTable {
  return { name: 'voidbox', base_url: baseUrl ?? OPENAI, env_key: 'OPENAI_API_KEY', wire_api: 'responses' };
}

/** In a VM a server may take its time. */
const SERVER_STARTUP_S = 120;

/**
 * Codex passes a variable on only under its own name, so a shell renames variables of the host. No argument contains a
 * value. Codex waits for a required server. Otherwise the model's first call would lack the server's tools, and the
 * agent might end without them.
 */
function serverSetting({ name, command, args, env, handed }: McpServer): string {
  const renamed = Object.entries(handed);
  const exports = renamed.map(([key, handedAs]) => `export ${key}="$${handedAs}"; unset ${handedAs}; `).join('');
  const started =
    renamed.length === 0
      ? { command, args }
      : { command: '/bin/sh', args: ['-c', `${exports}exec "$0" "$@"`, command, ...args] };
  const members = [
    `command=${JSON.stringify(started.command)}`,
    `args=${JSON.stringify(started.args)}`,
    `env=${inlineTable(env)}`,
    'required=true',
    `startup_timeout_sec=${SERVER_STARTUP_S}`,
    ...(renamed.length === 0 ? [] : [`env_vars=${JSON.stringify(renamed.map(([, handedAs]) => handedAs))}`]),
  ];
  return `mcp_servers.${name}={${members.join(',')}}`;
}

/** In TOML. A text of JSON is one of TOML too. */
function inlineTable(values: TomlTable): string {
  const members = Object.entries(values).map(([name, value]) => `${JSON.stringify(name)}=${JSON.stringify(value)}`);
  return `{${members.join(',')}}`;
}
