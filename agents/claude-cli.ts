/** How `claude` is called, for every provider that speaks through it. */
import { AGENT_HOME, AGENT_WORKSPACE, type AgentCommand, type AgentTask } from './provider.ts';
import { mcpServers, skillFiles, skillsBelow } from './skills.ts';

/** The command line calls no host but the model's. */
const QUIET = { CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', DISABLE_AUTOUPDATER: '1' };

/** Without this, the tool WebFetch first calls a host other than the model's. */
const SETTINGS = '{"skipWebFetchPreflight":true}';

/**
 * Claude Code looks for a project's skills from its working folder up to the top of the repository, and not above it.
 */
const CLAUDE_SKILLS = `${AGENT_HOME}/.claude/skills`;

export const CLAUDE_SESSIONS = `${AGENT_HOME}/.claude/projects`;

/** Claude Code rejects 0, to which an amount below a millionth would be rounded. */
function dollars(usd: number): string {
  return Math.max(1e-6, usd).toFixed(6);
}

export function claudeCommand(
  { llm, skills, outputSchema, limits: { maxTurns, maxCostUsd }, resume }: AgentTask,
  {
    model = llm?.model ?? null,
    env = {},
  }: { readonly model?: string | null; readonly env?: Record<string, string> } = {},
): AgentCommand {
  return {
    args: [
      '-p',
      '--output-format',
      'stream-json',
      '--verbose',
      // The VM is the boundary, because no user is present to answer questions about permissions.
      '--dangerously-skip-permissions',
      ...(model === null ? [] : ['--model', model]),
      '--settings',
      SETTINGS,
      ...(mcpServers(skills).length === 0
        ? []
        : ['--mcp-config', `${AGENT_WORKSPACE}/.mcp.json`, '--strict-mcp-config']),
      ...(outputSchema === undefined ? [] : ['--json-schema', JSON.stringify(outputSchema)]),
      ...(maxTurns === undefined ? [] : ['--max-turns', String(maxTurns)]),
      // Claude Code counts its budget with the prices of its own provider.
      ...(maxCostUsd === undefined || llm?.price !== undefined ? [] : ['--max-budget-usd', dollars(maxCostUsd)]),
      ...(resume === null ? [] : ['--resume', resume]),
    ],
    env: { HOME: AGENT_HOME, ...QUIET, ...(llm?.baseUrl ? { ANTHROPIC_BASE_URL: llm.baseUrl } : {}), ...env },
    files: [
      { guestPath: `${AGENT_HOME}/.claude.json`, text: '{"hasCompletedOnboarding":true}\n' },
      ...skillFiles(skills),
      ...skillsBelow(CLAUDE_SKILLS, skills),
    ],
  };
}
