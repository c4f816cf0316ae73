/**
 * Agents that the mock agent plays, by the real command line in real VMs: their work, their events, and what survives.
 */
import { expect, test } from 'vitest';
import { filesWith } from '../rig/files-with.ts';
import { Rig } from './rig.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

const scripted = (steps: readonly object[]): string => `'${JSON.stringify(steps).replaceAll("'", "''")}'`;

/** The token of an MCP server. No other text looks like it. */
const TOKEN = 'mcp-canary-a81f05b2c9';

const REVIEW = `api_version: v1
kind: pipeline
name: review
sandbox: { memory_mb: 256 }
pipeline:
  boxes:
    - { name: facts, run: { program: echo, args: ['three files'] } }
    - name: review
      llm: { provider: claude }
      prompt: Review the change.
      skills:
        - { name: style, content: Write short sentences. }
        - { command: market-mcp, env: { MARKET_TOKEN: "" } }
      env:
        MOCK_AGENT_SCRIPT: ${scripted([
          { say: 'I look first.' },
          { run: 'cat /workspace/.claude/skills/style/SKILL.md' },
          { run: 'grep -o "MARKET_TOKEN.*" .mcp.json; echo "handed: $VOIDBOX_MCP_2_MARKET_TOKEN"' },
          { result: 'LGTM' },
        ])}
    - name: count
      llm: { provider: codex }
      prompt: Count.
      output_schema: { type: object, required: [ok], properties: { ok: { type: boolean } } }
`;

test('a pipeline of a command and two agents: output, log, cost, transcript; `run` refuses it without `--mock-agents`', async () => {
  await using rig = new Rig({ MARKET_TOKEN: TOKEN });
  const spec = rig.spec('spec.yaml', REVIEW);
  const refused = await rig.cli('run', spec);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toMatch(/stage review is an agent[\s\S]*--mock-agents/);

  const run = await rig.cli('run', spec, '--mock-agents', '--run-id', 'agents', '--json');
  expect(run.code, run.stderr).toBe(0);
  const json = JSON.parse(run.stdout) as {
    readonly mockAgents: readonly string[];
    readonly outputText: string;
    readonly stages: readonly { readonly id: string; readonly isolation: string; readonly usage: object }[];
  };
  expect(json.mockAgents).toEqual(['review', 'count']);
  expect(JSON.parse(json.outputText)).toMatchObject({ ok: expect.any(Boolean) });
  expect(json.stages[1]).toMatchObject({
    id: 'review',
    isolation: 'microvm',
    usage: { costUsd: 0.003, inputTokens: expect.any(Number), outputTokens: expect.any(Number) },
  });

  const log = await rig.cli('logs', 'agents', '--stage', 'review');
  expect(log.stdout).toContain('I look first.');
  expect(log.stdout).toContain('Bash');
  expect(log.stdout).not.toContain('"type"');
  const raw = await rig.cli('logs', 'agents', '--stage', 'review', '--raw');
  const lines = raw.stdout.trimEnd().split('\n');
  expect(JSON.parse(lines[0]!)).toMatchObject({ type: 'system', subtype: 'init', skills: ['style'] });
  expect(JSON.parse(lines.at(-1)!)).toMatchObject({ type: 'result', result: 'LGTM' });
  const status = await rig.cli('status', 'agents');
  expect(status.stdout).toContain('played by the mock agent: review, count');
  expect(status.stdout).toMatch(/✓ review .*mock agent, tokens .* in, .* out · \$0\.0030/);
  const artifacts = await rig.cli('artifacts', 'agents');
  expect(artifacts.stdout).toMatch(/review\.transcript\.jsonl/);

  // The server's variable: its file names it, the agent's command has it, and nothing that is kept does.
  expect(raw.stdout).toContain('${VOIDBOX_MCP_2_MARKET_TOKEN}');
  expect(raw.stdout).toContain('handed: [redacted]');
  await rig.assertNothingLeft();
  expect(filesWith(rig.stateDir, TOKEN)).toEqual([]);
  expect(filesWith(rig.stateDir, 'Write short sentences.').length, 'the control').toBeGreaterThan(0);
});

const SLOW = `api_version: v1
kind: pipeline
name: slow
sandbox: { memory_mb: 256 }
pipeline:
  boxes:
    - name: think
      prompt: Think.
      env:
        MOCK_AGENT_SCRIPT: ${scripted([{ say: 'before' }, { sleep_ms: 12_000 }, { say: 'after' }, { result: 'done' }])}
`;

test('the worker dies while an agent works: the next one reads on, and no event is recorded twice', async () => {
  const rig = theRig();
  await rig.launch(rig.spec('spec.yaml', SLOW), 'slow-agent', '--mock-agents');
  await rig.eventOf('slow-agent', 'agent-text');
  rig.kill((await rig.liveStack()).workerPid);
  expect((await rig.finish('slow-agent')).outcome.state).toBe('succeeded');
  expect((await rig.eventOf('slow-agent', 'stage-reattached')).stage).toBe('think');
  const told = (await rig.events('slow-agent')).flatMap(({ body }) => (body.type === 'agent-text' ? [body.text] : []));
  expect(told.slice(0, 2)).toEqual(['before', 'after']);
  expect(new Set(told).size).toBe(told.length);
  const started = (await rig.events('slow-agent')).filter(({ body }) => body.type === 'stage-started');
  expect(started).toHaveLength(1);
});

const CUT = `api_version: v1
kind: pipeline
name: cut
sandbox: { memory_mb: 256 }
pipeline:
  boxes:
    - name: half
      prompt: Answer.
      env: { MOCK_AGENT_SCRIPT: ${scripted([{ say: 'half an ans' }, { cut: true }])} }
    - name: limited
      prompt: Answer.
      env: { MOCK_AGENT_SCRIPT: ${scripted([{ fail: 'rate limit reached' }])} }
  stages:
    - { type: fan_out, boxes: [half, limited] }
`;

test('half an answer is no answer, and a failed call of the model says what failed', async () => {
  const rig = theRig();
  const run = await rig.cli('run', rig.spec('spec.yaml', CUT), '--mock-agents', '--run-id', 'cut', '--json');
  expect(run.code).toBe(1);
  const { stages } = JSON.parse(run.stdout) as { readonly stages: readonly object[] };
  expect(stages).toMatchObject([
    { id: 'half', state: 'failed', failure: { code: 'agent/truncated' } },
    { id: 'limited', state: 'failed', failure: { code: 'agent/api-error' } },
  ]);
  expect(JSON.stringify(stages)).toContain('rate limit reached');
});
