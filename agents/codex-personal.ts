import { credentialFileOf } from '../domain/agent/credentials.ts';
import { codex, codexCommand, CODEX_SESSIONS } from './codex.ts';
import { createCodexStream, sessionUseOfCodex } from './codex-stream.ts';
import { AGENT_HOME, type AgentCommand, type AgentProvider, type AgentTask } from './provider.ts';

const CHATGPT = 'https://chatgpt.com/backend-api/codex';

/** Codex by the ChatGPT subscription of a person. */
export const codexPersonal: AgentProvider = {
  name: 'codex-personal',
  cli: codex.cli,
  sessionFolder: CODEX_SESSIONS,
  sessionUse: sessionUseOfCodex,
  command,
  stream: createCodexStream,
};

function command(task: AgentTask): AgentCommand {
  const baseUrl = task.llm?.baseUrl ?? CHATGPT;
  const server = { name: 'voidbox', base_url: baseUrl, wire_api: 'responses', requires_openai_auth: true };
  const file = credentialFileOf({ llm: task.llm });
  return {
    ...codexCommand(task, server, [
      '-c',
      // Codex asks this server for the limits of the account. The token goes only to the server that `baseUrl` names.
      `chatgpt_base_url=${JSON.stringify(baseUrl.replace(/\/codex\/?$/, ''))}`,
    ]),
    links: file === null ? [] : [{ guestPath: `${AGENT_HOME}/.codex/auth.json`, target: file.guestPath }],
  };
}
