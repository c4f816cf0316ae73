/**
 * `agents/recordings` contains the output of the unmodified command lines, and `agents/streams.test.ts` reads it. These
 * tests compare the recordings with the output of the current command lines. `UPDATE=1 npm run test:agents
 * test/e2e/recordings` records them again.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { claude } from '../../agents/claude.ts';
import { codex } from '../../agents/codex.ts';
import type { AgentProvider } from '../../agents/provider.ts';
import type { JsonValue, LlmPlan } from '../../domain/plan/plan.ts';
import { runAgentOnHost } from '../rig/vms/agent-on-host.ts';
import { type ModelScript, startFakeModel } from '../../bench/fake-model/fake-model.ts';
import { settled } from '../rig/runs/normalized-stream.ts';

const TOOLS: ModelScript = ({ turn }) => {
  if (turn === 0) return { saying: 'I write the file.', run: 'echo grüße > hello.txt' };
  return turn === 1 ? { run: 'cat missing.txt' } : { say: 'It is written.' };
};

interface Scenario {
  readonly script: ModelScript;
  readonly outputSchema?: JsonValue;
  /** Replaces the model of the provider. */
  readonly model?: string;
  readonly providers?: readonly string[];
}

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  tools: { script: TOOLS },
  refused: { script: () => ({ status: 400, message: 'the model is not known' }) },
  // Claude Code has prices for models of its own; for any other model it invents a price and reports it.
  unpriced: { script: () => ({ say: 'hi' }), model: 'my-finetune-7', providers: ['claude'] },
  schema: {
    script: () => ({ answer: { ok: true } }),
    outputSchema: {
      type: 'object',
      required: ['ok'],
      properties: { ok: { type: 'boolean' } },
      additionalProperties: false,
    },
  },
};

const PROVIDERS: Readonly<
  Record<string, { readonly provider: AgentProvider; readonly model: string | null; readonly path: string }>
> = {
  claude: { provider: claude, model: null, path: '' },
  codex: { provider: codex, model: 'gpt-5', path: '/v1' },
};

const CASES = Object.keys(PROVIDERS).flatMap((name) =>
  Object.entries(SCENARIOS)
    .filter(([, { providers }]) => providers?.includes(name) ?? true)
    .map(([scenario]) => [name, scenario] as const),
);

test.each(CASES)('what %s prints is what its recording of "%s" says', async (name, scenario) => {
  const { provider, model, path } = PROVIDERS[name]!;
  const { script, outputSchema, model: asked = model } = SCENARIOS[scenario]!;
  await using server = await startFakeModel(script);
  const baseUrl = `http://127.0.0.1:${server.port}${path}`;
  const llm: LlmPlan = { provider: provider.name, model: asked, baseUrl, apiKeyEnv: null, credentialProxy: false };
  const task = { prompt: 'Write hello.txt.', llm, skills: [], outputSchema, limits: {}, resume: null };
  const { code, stdout, stderr } = await runAgentOnHost(provider, task);
  expect(code, stderr).toBe(scenario === 'refused' ? 1 : 0);
  const printed = settled(stdout);
  const file = new URL(`../../agents/recordings/${name}-${scenario}.jsonl`, import.meta.url);
  if (process.env['UPDATE'] === '1') writeFileSync(file, printed);
  expect(printed).toBe(readFileSync(file, 'utf8'));
});
