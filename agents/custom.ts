import { claudeCommand } from './claude-cli.ts';
import { createClaudeStream } from './claude-stream.ts';
import type { AgentProvider } from './provider.ts';

/** Any server with the Messages API, behind Claude's command line. */
export const custom: AgentProvider = {
  name: 'custom',
  cli: 'claude',
  command: (task) => claudeCommand(task),
  stream: () => createClaudeStream(),
};
