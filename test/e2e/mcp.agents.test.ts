/**
 * The unmodified command lines of Codex and Claude start an MCP server in their VM, offer its tool to the model and call it. The server
 * has a variable of the host, whose name is another one until it starts.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type FakeModel, startFakeModel } from '../../bench/fake-model/fake-model.ts';
import type { RunEventBody } from '../../domain/run/event.ts';
import { filesWith } from '../rig/files-with.ts';
import { SCALES_SERVER, WEIGH } from '../rig/servers/mcp-scales-server.ts';
import { Rig } from './rig.ts';

const TOKEN = 'scales-canary-4d1f9b07';
const KEYS = { OPENAI_API_KEY: 'sk-of-the-lane', ANTHROPIC_API_KEY: 'sk-ant-of-the-lane', SCALES_TOKEN: TOKEN };

const spec = (llm: string): string => `api_version: v1
kind: agent
name: weigh
llm: ${llm}
sandbox:
  image: dev
  mounts: [{ host: ./scales, guest: /srv/scales }]
agent:
  prompt: What does the tea weigh?
  skills: [{ command: node, args: [/srv/scales/scales.cjs], env: { SCALES_TOKEN: "" } }]
`;

const llmOf = {
  codex: (port: number) => `{ provider: codex, model: gpt-5, base_url: "http://127.0.0.1:${port}/v1" }`,
  claude: (port: number) => `{ provider: claude, base_url: "http://127.0.0.1:${port}" }`,
};

/** The requests to the model for this stage, in order. */
async function askedBy(rig: Rig, provider: keyof typeof llmOf, model: FakeModel): Promise<readonly string[]> {
  mkdirSync(join(rig.specDir, 'scales'));
  writeFileSync(join(rig.specDir, 'scales', 'scales.cjs'), SCALES_SERVER);
  const file = rig.spec('spec.yaml', spec(llmOf[provider](model.port)));
  const run = await rig.cli('run', file, '--run-id', 'weigh', '--json');
  expect(run.code, run.stdout + run.stderr).toBe(0);
  expect(JSON.parse(run.stdout)).toMatchObject({ outputText: 'It is weighed.' });
  return model.requests.filter(({ body }) => body.includes('What does the tea weigh?')).map(({ body }) => body);
}

/** The server's description of its tool, as the model got it. */
const toldOf = (body: string): string | undefined => /Weighs by [^\]]*\]/.exec(body)?.[0];
const RESULT = 'The tea weighs 4711 grams.';
const DIGEST = createHash('sha256').update(TOKEN).digest('hex');

/** The name of the tool for Claude and for a script. */
const TOOL = `mcp__node__${WEIGH}`;
const WEIGHS = { call: TOOL, input: { thing: 'The tea' } };

/** Claude gives the model only the names of tools, until the model asks for their definitions. */
const CLAUDES_CALLS = [{ call: 'ToolSearch', input: { query: `select:${TOOL}` } }, WEIGHS];

async function toolsOf(rig: Rig): Promise<readonly RunEventBody[]> {
  return (await rig.events('weigh')).flatMap(({ body }) => (body.type === 'agent-tool' ? [body] : []));
}

test('claude offers the tool of an MCP server in its VM, calls it and hands its result on', async () => {
  await using model = await startFakeModel(({ turn }) => CLAUDES_CALLS[turn] ?? { say: 'It is weighed.' });
  await using rig = new Rig(KEYS);
  const asked = await askedBy(rig, 'claude', model);
  expect(asked).toHaveLength(3);
  expect(asked[0]).toContain(TOOL);
  // It starts servers with all of its own variables.
  expect(toldOf(asked[1]!)).toBe(`Weighs by ${DIGEST} beside [ANTHROPIC_API_KEY,VOIDBOX_MCP_1_SCALES_TOKEN]`);
  expect(asked[1]).not.toContain(RESULT);
  expect(asked[2]).toContain(RESULT);
  expect(await toolsOf(rig)).toMatchObject([
    { tool: 'ToolSearch', failed: false },
    { tool: TOOL, failed: false },
  ]);
  await rig.assertNothingLeft();
  expect(filesWith(rig.stateDir, TOKEN)).toEqual([]);
});

test('codex offers the tool of an MCP server in its VM from its first call of the model on, calls it and hands its result on', async () => {
  await using model = await startFakeModel(({ turn }) => (turn === 0 ? WEIGHS : { say: 'It is weighed.' }));
  await using rig = new Rig(KEYS);
  const asked = await askedBy(rig, 'codex', model);
  expect(asked).toHaveLength(2);
  expect(toldOf(asked[0]!)).toBe(`Weighs by ${DIGEST} beside []`);
  expect(asked[0]).not.toContain(RESULT);
  expect(asked[1]).toContain(RESULT);
  expect(await toolsOf(rig)).toMatchObject([
    { stage: 'weigh', tool: `node.${WEIGH}`, detail: '{"thing":"The tea"}', failed: false },
  ]);
  const transcript = await rig.cli('logs', 'weigh', '--raw');
  const items = transcript.stdout
    .split('\n')
    .filter((line) => line.includes('"mcp_tool_call"') && line.includes('"item.completed"'));
  expect(items, transcript.stdout).toHaveLength(1);
  expect(items[0]).toContain(RESULT);
  await rig.assertNothingLeft();
  expect(filesWith(rig.stateDir, TOKEN)).toEqual([]);
});

test('codex fails with the reason if an MCP server does not start', async () => {
  await using model = await startFakeModel(() => ({ say: 'It is weighed.' }));
  await using rig = new Rig(KEYS);
  const gone = spec(llmOf.codex(model.port)).replace('scales.cjs', 'none.cjs');
  mkdirSync(join(rig.specDir, 'scales'));
  const run = await rig.cli('run', rig.spec('spec.yaml', gone), '--run-id', 'weigh');
  expect(run.code).toBe(1);
  expect(run.stdout + run.stderr).toMatch(/required MCP servers failed to initialize/i);
  expect(model.requests.filter(({ body }) => body.includes('What does the tea weigh?'))).toEqual([]);
  await rig.assertNothingLeft();
});
