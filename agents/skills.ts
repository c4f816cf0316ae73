/** Skills as files: where Void-Box puts them, and where the command lines read them. */
import { serverVariables } from '../domain/agent/server-variables.ts';
import type { AgentSkill, EnvPlan } from '../domain/plan/plan.ts';
import { cut } from './fields.ts';
import { AGENT_WORKSPACE, type GuestFile } from './provider.ts';

export interface McpServer {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Variables whose values the agent's command has, by the names that they have there. */
  readonly handed: Readonly<Record<string, string>>;
}

/** The agent's documents, each at both places, and `.mcp.json` if the agent has servers. */
export function skillFiles(skills: readonly AgentSkill[]): readonly GuestFile[] {
  const servers = mcpServers(skills);
  return [
    ...skills.flatMap(documentOf).map(({ name, content }) => ({
      guestPath: `${AGENT_WORKSPACE}/.claude/skills/${name}.md`,
      text: content,
    })),
    ...skillsBelow(`${AGENT_WORKSPACE}/.claude/skills`, skills),
    ...(servers.length === 0 ? [] : [{ guestPath: `${AGENT_WORKSPACE}/.mcp.json`, text: mcpJson(servers) }]),
  ];
}

/** The same documents where another command line than Claude's looks for skills. */
export function skillsBelow(folder: string, skills: readonly AgentSkill[]): readonly GuestFile[] {
  return skills
    .flatMap(documentOf)
    .map(({ name, content }) => ({ guestPath: `${folder}/${name}/SKILL.md`, text: withFrontMatter(name, content) }));
}

/** In the plan's order, each with a name of its own. */
export function mcpServers(skills: readonly AgentSkill[]): readonly McpServer[] {
  const taken = new Map<string, number>();
  return skills.flatMap((skill, index): readonly McpServer[] => {
    if (skill.kind !== 'server' && skill.kind !== 'mcp') return [];
    const isNamed = 'name' in skill;
    const command = isNamed ? skill.name : skill.command;
    const stem = (command.split('/').at(-1) ?? '').replace(/[^A-Za-z0-9_-]/g, '_') || 'server';
    const times = (taken.get(stem) ?? 0) + 1;
    taken.set(stem, times);
    const name = times === 1 ? stem : `${stem}_${times}`;
    const said: readonly EnvPlan[] = isNamed ? [] : skill.env;
    const env = said.flatMap(({ name: key, value }): [string, string][] =>
      value.kind === 'literal' ? [[key, value.text]] : [],
    );
    const handed = serverVariables(skill, index).map(({ name: key, handedAs }): [string, string] => [key, handedAs]);
    return [
      {
        name,
        command,
        args: isNamed ? [] : skill.args,
        env: Object.fromEntries(env),
        handed: Object.fromEntries(handed),
      },
    ];
  });
}

interface Document {
  readonly name: string;
  readonly content: string;
}

function documentOf(skill: AgentSkill): readonly Document[] {
  switch (skill.kind) {
    case 'inline':
      return [{ name: skill.name, content: skill.content }];
    case 'cli':
      return [{ name: skill.name, content: `The program \`${skill.name}\` is installed. Call it from a shell.\n` }];
    // The engine itself brings nothing. The others are no documents, or are refused before a run starts.
    case 'agent':
    case 'mcp':
    case 'server':
    case 'file':
    case 'remote':
    case 'image':
      return [];
  }
}

const DESCRIPTION_CHARACTERS = 200;

/** Both command lines take a skill by its front matter. */
function withFrontMatter(name: string, content: string): string {
  if (/^---\r?\n/.test(content)) return content;
  const first = content.split('\n').find((line) => line.trim() !== '') ?? name;
  const description = JSON.stringify(cut(first.replace(/^#+\s*/, ''), DESCRIPTION_CHARACTERS));
  return `---\nname: ${name}\ndescription: ${description}\n---\n\n${content}`;
}

/** Claude fills in variables itself, so no file contains their values. */
function mcpJson(servers: readonly McpServer[]): string {
  const entries = servers.map(({ name, command, args, env, handed }) => {
    const filled = Object.entries(handed).map(([key, handedAs]) => [key, `\${${handedAs}}`]);
    return [name, { type: 'stdio', command, args, env: { ...env, ...Object.fromEntries(filled) } }];
  });
  return `${JSON.stringify({ mcpServers: Object.fromEntries(entries) }, null, 2)}\n`;
}
