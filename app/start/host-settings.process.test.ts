/** Variables of the environment that override settings of a spec: how commands read and report them. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { typeCommand } from '../../test/rig/runs/typed-command.ts';

const EXAMPLES = join(findPackageRoot(), 'examples');
const SPEC = `kind: workflow
name: ask
llm: { provider: claude, model: opus }
workflow:
  output_step: a
  steps:
    - { name: a, prompt: hi }
`;
const DEFINITION = `import { agentStep, defineWorkflow } from 'voidbox';
export default defineWorkflow({ name: 'ask', llm: { provider: 'claude' }, steps: [agentStep('a', 'hi')] });
`;
const COMMAND = 'kind: workflow\nname: c\nworkflow: { steps: [{ name: a, run: { program: ls } }] }\n';
const SET = { VOIDBOX_LLM_PROVIDER: 'Codex', VOIDBOX_LLM_BASE_URL: 'http://127.0.0.1:4000/v1' };
const SAID = 'VOIDBOX_LLM_PROVIDER=codex VOIDBOX_LLM_BASE_URL=http://127.0.0.1:4000/v1: instead of the spec';

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-settings-'));
  writeFileSync(join(dir, 'ask.yaml'), SPEC);
  writeFileSync(join(dir, 'ask.ts'), DEFINITION);
  writeFileSync(join(dir, 'command.yaml'), COMMAND);
  writeFileSync(join(dir, 'own.yaml'), SPEC.replace('prompt: hi', 'prompt: hi, llm: { provider: claude }'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

type Variables = Readonly<Record<string, string>>;
const type = (variables: Variables, ...args: readonly string[]) =>
  typeCommand(args, dir, { VOIDBOX_STATE_DIR: join(dir, 'state'), ...variables });

test('`validate` reports in one line which variables override which keys', async () => {
  const { code, stdout, stderr } = await type(SET, 'validate', 'ask.yaml');
  expect(code).toBe(0);
  expect(stderr.split('\n')[0]).toBe(`${SAID}'s \`llm\`, and without its \`model\``);
  expect(stdout).toContain('variables of the host: OPENAI_API_KEY\n');
});

test.each([
  [SET, 'ask.yaml', { variables: { ...SET, VOIDBOX_LLM_PROVIDER: 'codex' }, leftOut: ['model'], hasOwnLlm: false }],
  [
    { VOIDBOX_LLM_MODEL: 'opus' },
    'ask.ts',
    { variables: { VOIDBOX_LLM_MODEL: 'opus' }, leftOut: [], hasOwnLlm: false },
  ],
  [{}, 'ask.yaml', null],
  [{ VOIDBOX_LLM_PROVIDER: '' }, 'ask.yaml', null],
  [SET, 'command.yaml', null],
  [SET, 'own.yaml', null],
])('`validate --json` with %j of %s', async (variables, file, settings) => {
  const { stdout, stderr } = await type(variables, 'validate', file, '--json');
  expect(stderr).toBe('');
  expect(JSON.parse(stdout)).toMatchObject({ valid: true, settings });
});

test('the plan of a spec and the plan of a definition contain the values of the variables', async () => {
  for (const file of ['ask.yaml', 'ask.ts']) {
    const { code, stdout, stderr } = await type(SET, 'inspect', file, '--json');
    expect([code, stderr]).toEqual([0, expect.stringContaining(SAID)]);
    expect(JSON.parse(stdout)).toMatchObject({
      plan: { stages: [{ work: { llm: { provider: 'codex', baseUrl: 'http://127.0.0.1:4000/v1' } } }] },
    });
    expect(stdout).not.toContain('opus');
  }
});

test('`validate` reports variables without effect only if the spec has agents', async () => {
  const own = await type(SET, 'validate', 'own.yaml');
  expect(own.stderr).toContain(': without effect, since each agent has an `llm` of its own\n');
  const command = await type(SET, 'validate', 'command.yaml');
  expect([command.code, command.stderr]).toEqual([0, '']);
});

test('`run` reports the override too, and then that the key of that provider is not set', async () => {
  const { code, stderr } = await type(SET, 'run', 'ask.yaml');
  expect(code).toBe(3);
  expect(stderr).toContain(SAID);
  expect(stderr).toContain('OPENAI_API_KEY');
});

test.each(['validate', 'inspect', 'run'])('`%s` refuses a bad value by the name of its variable', async (command) => {
  const bad = { VOIDBOX_LLM_PROVIDER: 'codx' };
  const { code, stdout, stderr } = await type(bad, command, 'ask.yaml');
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain('VOIDBOX_LLM_PROVIDER is "codx", which is not a provider; did you mean "codex"?');
  const { stderr: asJson } = await type(bad, command, 'ask.yaml', '--json');
  expect(JSON.parse(asJson)).toMatchObject({ error: { code: 'cli/variable-invalid' } });
});

test('commands that compile nothing do not read the variables', async () => {
  expect((await type({ VOIDBOX_LLM_PROVIDER: 'codx' }, 'runs')).code).toBe(0);
});

const withAgents = readdirSync(EXAMPLES).filter(
  (file) => file.endsWith('.yaml') && readFileSync(join(EXAMPLES, file), 'utf8').includes('llm: {'),
);

test('there are examples with agents', () => expect(withAgents.length).toBeGreaterThanOrEqual(6));

test.each(withAgents)('%s runs against another model as it is', async (file) => {
  const { code, stdout, stderr } = await type(SET, 'inspect', join(EXAMPLES, file), '--json');
  expect([code, stderr]).toEqual([0, `${SAID}'s \`llm\`\n`]);
  expect(stdout).toContain('"provider":"codex"');
  expect(stdout).not.toContain('"provider":"claude"');
});
