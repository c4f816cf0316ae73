import { CLAUDE_SESSIONS, claudeCommand } from './claude-cli.ts';
import { createClaudeStream } from './claude-stream.ts';
import type { AgentProvider } from './provider.ts';

/** A model of LM Studio behind Claude's command line. Its server takes any token. */
export const lmStudio: AgentProvider = {
  name: 'lm-studio',
  cli: 'claude',
  sessionFolder: CLAUDE_SESSIONS,
  command: (task) => claudeCommand(task, { env: { ANTHROPIC_API_KEY: '', ANTHROPIC_AUTH_TOKEN: 'lm-studio' } }),
  stream: () => createClaudeStream({ cost: 'none' }),
};
