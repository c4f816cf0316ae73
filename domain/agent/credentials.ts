/** Which variables of the host a real agent's key or login is read from. Names only: a value never enters a plan. */
import type { AgentWork, EnvPlan, LlmProvider } from '../plan/plan.ts';

/** A folder in the memory of every guest, for the user of its commands alone. */
export const GUEST_CREDENTIALS = '/run/credentials';

interface Credential {
  /** In the guest, unless it is a file there. */
  readonly name: string;
  /** Where its command line looks for it; absent: in its environment. */
  readonly file?: string;
  /** Of the host, where `api_key_env` names none; null: the server asks for no key. */
  readonly fromHost: string | null;
  /** Variables of the stage that stand for it. */
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

/** Beside the stage's own variables, which go before. An agent that is played asks nobody, so it needs no key. */
export function credentialsOf({ llm, env, played }: Pick<AgentWork, 'llm' | 'env' | 'played'>): readonly EnvPlan[] {
  if (played === true) return [];
  const { name, fromHost, alternatives } = CREDENTIALS[llm?.provider ?? 'claude'];
  const variable = llm?.apiKeyEnv ?? fromHost;
  if (variable === null || env.some((said) => alternatives.includes(said.name))) return [];
  return [{ name, value: { kind: 'from-host', fromHost: variable } }];
}

export interface CredentialFile {
  /** The variable of the stage whose value it is; the agent's command does not have the variable. */
  readonly name: string;
  readonly guestPath: string;
}

/** Null: the agent has its key as a variable. */
export function credentialFileOf({ llm }: Pick<AgentWork, 'llm'>): CredentialFile | null {
  const { name, file } = CREDENTIALS[llm?.provider ?? 'claude'];
  return file === undefined ? null : { name, guestPath: file };
}
