/** Skills of each kind, from the line of a spec to the files in the guest: through the compiler, the host's documents and admission. */
import { Buffer } from 'node:buffer';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { withRemoteAgentSkills } from '../activities/admission/remote-skills.ts';
import { providerOf } from '../agents/registry.ts';
import { readEnvironment } from '../setup/environment.ts';
import { withAgentSkillFiles } from '../app/start/skill-files.ts';
import type { LlmProvider, Plan } from '../domain/plan/plan.ts';
import { skillsOf } from '../domain/plan/work.ts';
import { compileText } from '../domain/language/load.ts';
import { checkPlan } from '../domain/language/check-plan.ts';

const folder = mkdtempSync(join(tmpdir(), 'voidbox-skills-'));
afterAll(() => rmSync(folder, { recursive: true }));

const OWN_HEAD = '---\nname: other\ndescription: As its author says.\n---\n\n# Review\n';
writeFileSync(join(folder, 'plain.md'), '\n# Read "all" first\n\nThen write.\n');
writeFileSync(join(folder, 'headed.md'), OWN_HEAD);
writeFileSync(join(folder, 'windows.md'), OWN_HEAD.replaceAll('\n', '\r\n'));

const REMOTE: Readonly<Record<string, string>> = { think: 'Think first.\n', headed: OWN_HEAD };
const AT = '/workspace/.claude/skills';

function compiled(skill: string): ReturnType<typeof compileText> {
  const spec = `kind: agent\nname: a\nagent: { prompt: x, skills: [${skill}] }\n`;
  return compileText(spec, 'a.yaml', { baseDir: folder });
}

/** The files of skills in the guest, by path. */
async function provisioned(skill: string, provider: LlmProvider = 'claude'): Promise<Readonly<Record<string, string>>> {
  const { plan, diagnostics } = compiled(skill);
  expect(diagnostics.filter(({ severity }) => severity === 'error')).toEqual([]);
  const fetch = ({ skill: name }: { readonly skill: string | null }): Promise<Buffer> =>
    Promise.resolve(Buffer.from(REMOTE[name ?? 'think']!));
  const here = { env: readEnvironment({ VOIDBOX_STATE_DIR: folder }), cwd: folder };
  const read = await withAgentSkillFiles(plan as Plan, { baseDir: folder, allow: [] }, here);
  const { plan: admitted } = await withRemoteAgentSkills(fetch, read);
  const skills = skillsOf(admitted.stages[0]!.work);
  const llm = { provider, model: null, baseUrl: null, apiKeyEnv: null, credentialProxy: false };
  const task = { prompt: 'x', llm, skills, outputSchema: undefined, limits: {}, resume: null };
  const { files } = providerOf(llm).command(task);
  const ofSkills = files.filter(({ guestPath }) => guestPath.startsWith(AT) || guestPath.endsWith('.mcp.json'));
  return Object.fromEntries(ofSkills.map(({ guestPath, text }) => [guestPath, text]));
}

/** A document without front matter of its own gets one at its second place. */
const made = (name: string, description: string, text: string): Readonly<Record<string, string>> => ({
  [`${AT}/${name}.md`]: text,
  [`${AT}/${name}/SKILL.md`]: `---\nname: ${name}\ndescription: ${JSON.stringify(description)}\n---\n\n${text}`,
});
const unchanged = (name: string, text: string): Readonly<Record<string, string>> => ({
  [`${AT}/${name}.md`]: text,
  [`${AT}/${name}/SKILL.md`]: text,
});

const GH = 'The program `gh` is installed. Call it from a shell.';

it.each<[string, string, Readonly<Record<string, string>>]>([
  ['agent: the engine itself brings nothing', 'agent:claude', {}],
  [
    'file: a description of its first line, in quotes',
    'file:plain.md',
    made('plain', 'Read "all" first', '\n# Read "all" first\n\nThen write.\n'),
  ],
  ['file: its own front matter stays', 'file:headed.md', unchanged('headed', OWN_HEAD)],
  ['file: so does one of Windows', 'file:windows.md', unchanged('windows', OWN_HEAD.replaceAll('\n', '\r\n'))],
  ['inline', '{ name: style, content: Be short. }', made('style', 'Be short.', 'Be short.')],
  ['remote: of a folder', 'remote:o/r/think', made('think', 'Think first.', 'Think first.\n')],
  ['remote: of the root, by the repository', 'remote:o/r', made('r', 'Think first.', 'Think first.\n')],
  ['remote: its own front matter stays', 'remote:o/r/headed', unchanged('headed', OWN_HEAD)],
  ['cli: says that the program is there', 'cli:gh', made('gh', GH, `${GH}\n`)],
])('%s', async (_, skill, files) => {
  expect(await provisioned(skill)).toEqual(files);
  // Codex has the same documents.
  expect(await provisioned(skill, 'codex')).toEqual(files);
});

it.each([
  ['mcp: a program by its name', 'mcp:market', { market: { type: 'stdio', command: 'market', args: [], env: {} } }],
  [
    'mcp: a command, named by its file',
    '{ command: /opt/bin/market-mcp, args: [--cache, /tmp] }',
    { 'market-mcp': { type: 'stdio', command: '/opt/bin/market-mcp', args: ['--cache', '/tmp'], env: {} } },
  ],
  [
    'mcp: equal names get numbers',
    'mcp:m, { command: /a/m }, { command: /b/m }',
    {
      m: { type: 'stdio', command: 'm', args: [], env: {} },
      m_2: { type: 'stdio', command: '/a/m', args: [], env: {} },
      m_3: { type: 'stdio', command: '/b/m', args: [], env: {} },
    },
  ],
  [
    'mcp: characters that the key of a setting cannot have are replaced in a name',
    '{ command: "/a/x y].$(id)" }',
    { x_y____id_: { type: 'stdio', command: '/a/x y].$(id)', args: [], env: {} } },
  ],
])('%s', async (_, skill, mcpServers) => {
  const { '/workspace/.mcp.json': text, ...others } = await provisioned(skill);
  expect(JSON.parse(text!)).toEqual({ mcpServers });
  expect(others).toEqual({});
});

it('a description is short, whatever the document begins with', async () => {
  const files = await provisioned(`{ name: long, content: "${'x'.repeat(500)}" }`);
  expect(files[`${AT}/long/SKILL.md`]).toContain(`description: "${'x'.repeat(199)}…"\n`);
});

it.each([
  'file:plain.md, { name: plain, content: x }',
  'file:headed.md, remote:o/r/headed',
  'cli:gh, { name: gh, content: x }',
  'remote:a/r, remote:b/r',
])('two documents of one name are refused: %s', (skills) => {
  expect(compiled(skills).diagnostics.map(({ code }) => code)).toEqual(['spec/duplicate-name']);
});

const HOSTILE = ['../x', 'a/b', '.x', '', 'x\n---', 'a b'];

it.each(HOSTILE)('%j names no skill, neither in a spec nor in a plan', (name) => {
  const said = JSON.stringify(name);
  for (const skill of [
    `{ name: ${said}, content: x }`,
    ...['cli', 'mcp', 'agent'].map((prefix) => JSON.stringify(`${prefix}:${name}`)),
    JSON.stringify(`remote:o/r/${name}`),
  ])
    expect(compiled(skill).diagnostics.filter(({ severity }) => severity === 'error').length, skill).toBeGreaterThan(0);

  const sound = compiled('{ name: x, content: x }').plan as Plan;
  const admitted = (...skills: readonly object[]): boolean => {
    const [stage] = sound.stages;
    return !('problems' in checkPlan({ ...sound, stages: [{ ...stage, work: { ...stage!.work, skills } }] }));
  };
  expect(admitted({ kind: 'inline', name: 'x', content: 'x' })).toBe(true);
  for (const skill of [
    { kind: 'inline', name, content: 'x' },
    ...['cli', 'mcp', 'agent'].map((kind) => ({ kind, name })),
    { kind: 'remote', repository: 'o/r', skill: name },
    { kind: 'remote', repository: `o/${name}`, skill: null },
  ])
    expect(admitted(skill), JSON.stringify(skill)).toBe(false);
});
