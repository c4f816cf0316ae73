import { CLAUDE_SESSIONS, claudeCommand } from './claude-cli.ts';
import { createClaudeStream } from './claude-stream.ts';
import type { AgentProvider } from './provider.ts';

/** Claude by an API key. */
export const claude: AgentProvider = {
  name: 'claude',
  cli: 'claude',
  sessionFolder: CLAUDE_SESSIONS,
  command: (task) => claudeCommand(task),
  stream: () => createClaudeStream(),
};
