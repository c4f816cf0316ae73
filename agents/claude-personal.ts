import { CLAUDE_SESSIONS, claudeCommand } from './claude-cli.ts';
import { createClaudeStream } from './claude-stream.ts';
import type { AgentProvider } from './provider.ts';

/** Claude by the subscription of a person. */
export const claudePersonal: AgentProvider = {
  name: 'claude-personal',
  cli: 'claude',
  sessionFolder: CLAUDE_SESSIONS,
  command: (task) => claudeCommand(task),
  stream: () => createClaudeStream(),
};
