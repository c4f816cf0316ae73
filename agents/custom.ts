import { CLAUDE_SESSIONS, claudeCommand } from './claude-cli.ts';
import { createClaudeStream } from './claude-stream.ts';
import type { AgentProvider } from './provider.ts';

/** Any server with the Messages API, behind Claude's command line. */
export const custom: AgentProvider = {
  name: 'custom',
  cli: 'claude',
  sessionFolder: CLAUDE_SESSIONS,
  // A server that asks for no key: without one the command line asks for a login.
  command: (task) => claudeCommand(task, { env: { ANTHROPIC_API_KEY: 'none' } }),
  stream: () => createClaudeStream({ cost: 'unknown' }),
};
