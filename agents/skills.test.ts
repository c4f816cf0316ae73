/** Tests the files of an agent's skills in its guest, and the arguments that its command line gets for them. */
import { expect, it } from 'vitest';
import { AGENT_DEFAULTS } from '../domain/plan/defaults.ts';
import type { AgentSkill, AgentWork, LlmProvider } from '../domain/plan/plan.ts';
import { environmentOf, hostVariablesOf } from '../domain/plan-rules/variables.ts';
import type { AgentCommand } from './provider.ts';
import { providerOf } from './registry.ts';
import { skillsBelow } from './skills.ts';

const MARKET: AgentSkill = {
  kind: 'server',
  command: 'market-mcp',
  args: ['--cache', '/tmp'],
  env: [
    { name: 'LANG', value: { kind: 'literal', text: 'C' } },
    { name: 'TOKEN', value: { kind: 'from-host', fromHost: 'TOKEN', ifUnset: 'empty' } },
  ],
};
const STYLE: AgentSkill = { kind: 'inline', name: 'style', content: 'Be short.' };

function called(provider: LlmProvider, skills: readonly AgentSkill[]): AgentCommand {
  const llm = { provider, model: null, baseUrl: null, apiKeyEnv: null, credentialProxy: false };
  return providerOf(llm).command({ prompt: 'x', llm, skills, outputSchema: undefined, limits: {}, resume: null });
}

it('two servers that read one variable each have it by a name of its own, which is neither the agent’s', () => {
  const work: AgentWork = {
    ...AGENT_DEFAULTS,
    kind: 'agent',
    prompt: 'x',
    env: [{ name: 'TOKEN', value: { kind: 'literal', text: 'of the agent' } }],
    skills: [STYLE, MARKET, { ...MARKET, command: 'other' }],
  };
  const handed = environmentOf(work).filter(({ name }) => name.includes('TOKEN'));
  expect(handed.map(({ name, value }) => [name, value.kind])).toEqual([
    ['TOKEN', 'literal'],
    ['VOIDBOX_MCP_2_TOKEN', 'from-host'],
    ['VOIDBOX_MCP_3_TOKEN', 'from-host'],
  ]);
  expect(hostVariablesOf([{ work }])).toEqual(['ANTHROPIC_API_KEY', 'TOKEN']);
});

it('Claude gets the name of a server’s variable, whose value it fills in itself', () => {
  const file = called('claude', [STYLE, MARKET]).files.find(({ guestPath }) => guestPath.endsWith('.mcp.json'));
  expect(JSON.parse(file!.text)).toEqual({
    mcpServers: {
      'market-mcp': {
        type: 'stdio',
        command: 'market-mcp',
        args: ['--cache', '/tmp'],
        env: { LANG: 'C', TOKEN: '${VOIDBOX_MCP_2_TOKEN}' },
      },
    },
  });
});

it('Codex hands it on to a shell, which renames it for the server', () => {
  const { args } = called('codex', [STYLE, MARKET]);
  const script = 'export TOKEN=\\"$VOIDBOX_MCP_2_TOKEN\\"; unset VOIDBOX_MCP_2_TOKEN; exec \\"$0\\" \\"$@\\"';
  expect(args.filter((arg) => arg.startsWith('mcp_servers'))).toEqual([
    `mcp_servers.market-mcp={command="/bin/sh",args=["-c","${script}","market-mcp","--cache","/tmp"],env={"LANG"="C"},required=true,startup_timeout_sec=120,env_vars=["VOIDBOX_MCP_2_TOKEN"]}`,
  ]);
});

it('a document lies where each command line looks for skills, with the front matter that both ask for', () => {
  const text = '---\nname: style\ndescription: "Be short."\n---\n\nBe short.';
  const places = (provider: LlmProvider): readonly string[] =>
    called(provider, [STYLE]).files.flatMap((file) => (file.text === text ? [file.guestPath] : []));
  // In a repository none above its top is seen, so the home has it too.
  const at = '/workspace/.claude/skills/style/SKILL.md';
  for (const provider of ['claude', 'claude-personal', 'custom', 'ollama', 'lm-studio'] as const)
    expect(places(provider)).toEqual([at, '/home/sandbox/.claude/skills/style/SKILL.md']);
  for (const provider of ['codex', 'codex-personal'] as const)
    expect(places(provider)).toEqual([at, '/home/sandbox/.agents/skills/style/SKILL.md']);
});

it('Claude’s command line names its settings and servers, also in a resumed session', () => {
  const llm = { provider: 'claude' as const, model: null, baseUrl: null, apiKeyEnv: null, credentialProxy: false };
  for (const resume of [null, 'of-before']) {
    const task = { prompt: 'x', llm, skills: [MARKET], outputSchema: undefined, limits: {}, resume };
    const line = providerOf(llm).command(task).args.join(' ');
    expect(line).toContain('--settings {"skipWebFetchPreflight":true} --mcp-config /workspace/.mcp.json');
  }
});

it('a server without variables of the host is started as it is', () => {
  const { args } = called('codex', [{ kind: 'mcp', name: 'market' }]);
  expect(args).toContain('mcp_servers.market={command="market",args=[],env={},required=true,startup_timeout_sec=120}');
});

it('the description of a document is its first line, cut between characters: half of one is no YAML', () => {
  for (const before of [196, 197, 198, 199, 200]) {
    const content = `# ${'x'.repeat(before)}${'😀'.repeat(9)}\n\nBe short.`;
    const [file] = skillsBelow('/skills', [{ kind: 'inline', name: 'style', content }]);
    const [, description] = /^description: (.*)$/m.exec(file!.text)!;
    expect(description).not.toContain('\\u');
    expect((JSON.parse(description!) as string).length).toBeLessThanOrEqual(200);
  }
});
