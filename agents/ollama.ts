import { CLAUDE_SESSIONS, claudeCommand } from './claude-cli.ts';
import { createClaudeStream } from './claude-stream.ts';
import type { AgentProvider } from './provider.ts';

const DEFAULT_MODEL = 'qwen3-coder:7b';

/** A model of Ollama behind Claude's command line. Its server takes any token. */
export const ollama: AgentProvider = {
  name: 'ollama',
  cli: 'claude',
  sessionFolder: CLAUDE_SESSIONS,
  command: (task) =>
    claudeCommand(task, {
      model: task.llm?.model ?? DEFAULT_MODEL,
      env: { ANTHROPIC_API_KEY: '', ANTHROPIC_AUTH_TOKEN: 'ollama' },
    }),
  stream: () => createClaudeStream({ cost: 'none' }),
};
