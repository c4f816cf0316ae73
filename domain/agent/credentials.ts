/**
 * The variables of the host that contain the key or login of a real agent. These are names: a value never enters a
 * plan.
 */
import type { AgentWork, EnvPlan, LlmProvider } from '../plan/plan.ts';

/** A folder in the memory of every guest, which only the user of its commands can read. */
export const GUEST_CREDENTIALS = '/run/credentials';

interface Credential {
  /** The variable in the guest, unless the credential is a file there. */
  readonly name: string;
  /** The file from which the command line reads the credential; absent: it reads the variable. */
  readonly file?: string;
  /** The variable of the host, unless `api_key_env` names another one; null: the server requires no key. */
  readonly fromHost: string | null;
  /** Variables of the stage that replace this one. */
  readonly alternatives: readonly string[];
}

const OF_CLAUDE = ['ANTHROPIC_API_KEY', 'ANTHROPIC_AUTH_TOKEN', 'CLAUDE_CODE_OAUTH_TOKEN'];

const CREDENTIALS: Readonly<Record<LlmProvider, Credential>> = {
  claude: { name: 'ANTHROPIC_API_KEY', fromHost: 'ANTHROPIC_API_KEY', alternatives: OF_CLAUDE },
  'claude-personal': {
    name: 'CLAUDE_CODE_OAUTH_TOKEN',
    fromHost: 'CLAUDE_CODE_OAUTH_TOKEN',
    alternatives: OF_CLAUDE,
  },
  codex: { name: 'OPENAI_API_KEY', fromHost: 'OPENAI_API_KEY', alternatives: ['OPENAI_API_KEY'] },
  'codex-personal': {
    name: 'CODEX_AUTH_JSON',
    file: `${GUEST_CREDENTIALS}/codex-auth.json`,
    fromHost: 'CODEX_AUTH_JSON',
    alternatives: ['CODEX_AUTH_JSON'],
  },
  ollama: { name: 'ANTHROPIC_AUTH_TOKEN', fromHost: null, alternatives: OF_CLAUDE },
  'lm-studio': { name: 'ANTHROPIC_AUTH_TOKEN', fromHost: null, alternatives: OF_CLAUDE },
  custom: { name: 'ANTHROPIC_API_KEY', fromHost: null, alternatives: OF_CLAUDE },
};

/**
 * The variables that the agent gets next to those of the stage, which take precedence. An agent that is played makes no
 * call, so it needs no key.
 */
export function credentialsOf({ llm, env, played }: Pick<AgentWork, 'llm' | 'env' | 'played'>): readonly EnvPlan[] {
  if (played === true) return [];
  const { name, fromHost, alternatives } = CREDENTIALS[llm?.provider ?? 'claude'];
  const variable = llm?.apiKeyEnv ?? fromHost;
  if (variable === null || env.some((said) => alternatives.includes(said.name))) return [];
  return [{ name, value: { kind: 'from-host', fromHost: variable } }];
}

export interface CredentialFile {
  /** The variable of the stage with the content of the file. The agent's command does not get this variable. */
  readonly name: string;
  readonly guestPath: string;
}

/** The file with the agent's credential; null: the agent gets it as a variable. */
export function credentialFileOf({ llm }: Pick<AgentWork, 'llm'>): CredentialFile | null {
  const { name, file } = CREDENTIALS[llm?.provider ?? 'claude'];
  return file === undefined ? null : { name, guestPath: file };
}
