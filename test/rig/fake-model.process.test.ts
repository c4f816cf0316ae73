/**
 * The unmodified command line of Codex on this machine against the fake model: the real program understands the answers
 * of the rig.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { codex } from '../../agents/codex.ts';
import type { AgentTask } from '../../agents/provider.ts';
import type { AgentOutcome, AgentSaying } from '../../agents/stream.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { resolveOptionalPieces } from '../../setup/resolve.ts';
import { type ModelScript, startFakeModel } from '../../bench/fake-model/fake-model.ts';
import { SCALES_SERVER, WEIGH } from './servers/mcp-scales-server.ts';

/** Includes a download of 170 MB. */
const SETUP_LIMIT_MS = 1_200_000;

let program: string;
beforeAll(async () => {
  const found = await resolveOptionalPieces(readEnvironment(), ['codex'], { install: true });
  program = join(found.get('codex')!, 'bin', 'codex');
}, SETUP_LIMIT_MS);

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(homedir(), '.voidbox-codex-'));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

interface Ended {
  readonly code: number | null;
  readonly sayings: readonly AgentSaying[];
  readonly outcome: AgentOutcome;
  readonly stdout: string;
}

async function ask(
  prompt: string,
  port: number,
  { resume = null, skills = [] }: Partial<Pick<AgentTask, 'resume' | 'skills'>> = {},
): Promise<Ended> {
  const llm = {
    provider: 'codex',
    model: 'gpt-5',
    baseUrl: `http://127.0.0.1:${port}/v1`,
    apiKeyEnv: null,
    credentialProxy: false,
  } as const;
  const { args } = codex.command({ prompt, llm, skills, outputSchema: undefined, limits: {}, resume });
  const child = spawn(program, args, {
    cwd: home,
    env: { PATH: process.env['PATH'], HOME: home, OPENAI_API_KEY: 'sk-of-the-test' },
    stdio: ['pipe', 'pipe', 'inherit'],
    timeout: 60_000,
  });
  child.stdin.end(prompt);
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  const stream = codex.stream();
  const sayings = stdout.split('\n').flatMap((line) => stream.line(line));
  return { code, sayings, outcome: stream.outcome(), stdout };
}

const WRITES: ModelScript = ({ turn }) => (turn === 0 ? { run: 'echo hello > hello.txt' } : { say: 'It is written.' });

it('a call of its shell happens, and the key is sent as the API asks for it', async () => {
  await using model = await startFakeModel(WRITES);
  const { code, sayings, outcome, stdout } = await ask('Write hello.txt.', model.port);
  expect({ code, failure: outcome.failure, text: outcome.text }, stdout).toEqual({
    code: 0,
    failure: null,
    text: 'It is written.',
  });
  expect(readFileSync(join(home, 'hello.txt'), 'utf8')).toBe('hello\n');
  expect(sayings).toContainEqual(expect.objectContaining({ kind: 'tool', failed: false }));
  expect(outcome.usage).toMatchObject({ inputTokens: expect.any(Number), outputTokens: 40 });
  expect(model.requests.map(({ path, headers }) => [path, headers['authorization']])).toEqual([
    ['/v1/responses', 'Bearer sk-of-the-test'],
    ['/v1/responses', 'Bearer sk-of-the-test'],
  ]);
});

it('a call of a tool of an MCP server reaches the server, and its result reaches the model', async () => {
  writeFileSync(join(home, 'scales.cjs'), SCALES_SERVER);
  const weighs = { call: `mcp__node__${WEIGH}`, input: { thing: 'The tea' } };
  await using model = await startFakeModel(({ turn }) => (turn === 0 ? weighs : { say: 'It is weighed.' }));
  const skills = [{ kind: 'server', command: 'node', args: [join(home, 'scales.cjs')], env: [] }] as const;
  const { code, sayings, stdout } = await ask('Weigh the tea.', model.port, { skills });
  expect(code, stdout).toBe(0);
  expect(sayings).toContainEqual(expect.objectContaining({ kind: 'tool', tool: `node.${WEIGH}`, failed: false }));
  expect(model.requests.map(({ body }) => body.includes('The tea weighs 4711 grams.'))).toEqual([false, true]);
});

it('a tool that is not offered ends its turn, and the error names those that are', async () => {
  await using model = await startFakeModel(() => ({ call: 'mcp__none__weigh', input: {} }));
  const { outcome, stdout } = await ask('Weigh the tea.', model.port);
  expect(outcome.failure?.message, stdout).toMatch(/the tool mcp__none__weigh is not offered: exec_command, /);
  expect(model.requests).toHaveLength(1);
});

it('its session continues when it is asked again', async () => {
  await using model = await startFakeModel(({ conversation }) => ({
    say: conversation.includes('the first') && conversation.includes('the second') ? 'both' : 'one',
  }));
  const first = await ask('This is the first.', model.port);
  expect(first.outcome).toMatchObject({ hasEnded: true, text: 'one', sessionId: expect.any(String) });
  const second = await ask('This is the second.', model.port, { resume: first.outcome.sessionId });
  expect(second.outcome).toMatchObject({ hasEnded: true, text: 'both' });
});

it('a call that fails, and answers that never end, fail its turn', async () => {
  await using denied = await startFakeModel(() => ({ status: 401, message: 'the key is not known' }));
  const refused = await ask('Answer.', denied.port);
  expect(refused.outcome.failure?.code, refused.stdout).toBe('agent/api-error');
  expect(refused.outcome.failure?.message).toContain('the key is not known');
  expect(refused.code).not.toBe(0);
  await using cut = await startFakeModel(() => ({ cut: 'half an ans' }));
  const half = await ask('Answer.', cut.port);
  expect(half.outcome, half.stdout).toMatchObject({ hasEnded: true, failure: { code: 'agent/api-error' } });
  expect(existsSync(join(home, 'hello.txt'))).toBe(false);
});
