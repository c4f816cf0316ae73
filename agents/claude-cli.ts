/** How `claude` is called, for every provider that speaks through it. */
import { AGENT_HOME, AGENT_WORKSPACE, type AgentCommand, type AgentTask } from './provider.ts';
import { mcpServers, skillFiles, skillsBelow } from './skills.ts';

/** Nothing but the model is asked for. */
const QUIET = { CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', DISABLE_AUTOUPDATER: '1' };

/** What its tool WebFetch does first is a call of another host than the model's. */
const SETTINGS = '{"skipWebFetchPreflight":true}';

/** Those of a project it looks for from its working folder up to the top of a repository, so none above that. */
const CLAUDE_SKILLS = `${AGENT_HOME}/.claude/skills`;

export const CLAUDE_SESSIONS = `${AGENT_HOME}/.claude/projects`;

/** It refuses 0, which less than a millionth would be. */
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
      // The VM is the fence, not a question to somebody who is not there.
      '--dangerously-skip-permissions',
      ...(model === null ? [] : ['--model', model]),
      '--settings',
      SETTINGS,
      ...(mcpServers(skills).length === 0
        ? []
        : ['--mcp-config', `${AGENT_WORKSPACE}/.mcp.json`, '--strict-mcp-config']),
      ...(outputSchema === undefined ? [] : ['--json-schema', JSON.stringify(outputSchema)]),
      ...(maxTurns === undefined ? [] : ['--max-turns', String(maxTurns)]),
      // What it counts with are its own provider's prices.
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
