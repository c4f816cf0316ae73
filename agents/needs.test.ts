/** Compares what the domain says a provider needs with what its file in this folder calls. */
import { posix } from 'node:path';
import { expect, it } from 'vitest';
import { agentPartsOf, cliOf, llmInGuest } from '../domain/agent/agent-cli.ts';
import { credentialFileOf, credentialsOf, GUEST_CREDENTIALS } from '../domain/agent/credentials.ts';
import { AGENT_DEFAULTS, SANDBOX_DEFAULTS, STAGE_DEFAULTS } from '../domain/plan/defaults.ts';
import { type AgentWork, LLM_PROVIDERS, type LlmPlan, type LlmProvider, type StagePlan } from '../domain/plan/plan.ts';
import { findUnsupportedParts } from '../domain/plan-rules/unsupported.ts';
import { demandedVariablesOf } from '../domain/plan-rules/variables.ts';
import { providerOf } from './registry.ts';

function llm(provider: LlmProvider, said: Partial<LlmPlan> = {}): LlmPlan {
  return { provider, model: null, baseUrl: null, apiKeyEnv: null, credentialProxy: false, ...said };
}

function agent(plan: LlmPlan | null, said: Partial<AgentWork> = {}): AgentWork {
  return { ...AGENT_DEFAULTS, kind: 'agent', prompt: 'x', llm: plan, ...said };
}

function stage(work: AgentWork): StagePlan {
  return { ...STAGE_DEFAULTS, id: 'a', scope: 'vm', work };
}

it('the command line of a provider is the one that its VM gets', () => {
  for (const provider of LLM_PROVIDERS) {
    expect(cliOf(llm(provider)), provider).toBe(providerOf(llm(provider)).cli);
    expect(providerOf(llm(provider)).name).toBe(provider);
  }
  expect(cliOf(null)).toBe(providerOf(null).cli);
});

const hostVariable = (plan: LlmPlan | null, said: Partial<AgentWork> = {}): readonly unknown[] =>
  credentialsOf(agent(plan, said)).map(({ name, value }) => [
    name,
    value.kind === 'from-host' ? value.fromHost : value,
  ]);

it('its key is a variable of the host, by the name that it has there', () => {
  expect(hostVariable(null)).toEqual([['ANTHROPIC_API_KEY', 'ANTHROPIC_API_KEY']]);
  expect(hostVariable(llm('claude', { apiKeyEnv: 'TEAM_KEY' }))).toEqual([['ANTHROPIC_API_KEY', 'TEAM_KEY']]);
  expect(hostVariable(llm('claude-personal'))).toEqual([['CLAUDE_CODE_OAUTH_TOKEN', 'CLAUDE_CODE_OAUTH_TOKEN']]);
  expect(hostVariable(llm('codex'))).toEqual([['OPENAI_API_KEY', 'OPENAI_API_KEY']]);
  expect(hostVariable(llm('codex-personal'))).toEqual([['CODEX_AUTH_JSON', 'CODEX_AUTH_JSON']]);
  for (const provider of ['ollama', 'lm-studio', 'custom'] as const) expect(hostVariable(llm(provider))).toEqual([]);
  expect(hostVariable(llm('custom', { apiKeyEnv: 'GATEWAY' }))).toEqual([['ANTHROPIC_API_KEY', 'GATEWAY']]);
});

it('a login that is a file lies in the guest’s memory, where its command line finds it by a link', () => {
  const task = { prompt: '', skills: [], outputSchema: undefined, limits: {}, resume: null };
  for (const provider of LLM_PROVIDERS) {
    const plan = llm(provider);
    const file = credentialFileOf({ llm: plan });
    const { links = [] } = providerOf(plan).command({ ...task, llm: plan });
    expect(links.map(({ target }) => target)).toEqual(file === null ? [] : [file.guestPath]);
    expect(links.every(({ target }) => posix.dirname(target) === GUEST_CREDENTIALS)).toBe(true);
  }
  expect(credentialFileOf({ llm: llm('codex-personal') })?.name).toBe('CODEX_AUTH_JSON');
});

it('Codex with a subscription calls only the configured server', () => {
  const argsOf = (baseUrl: string | null): string => {
    const plan = llm('codex-personal', { baseUrl });
    const task = { prompt: '', llm: plan, skills: [], outputSchema: undefined, limits: {}, resume: null };
    return providerOf(plan).command(task).args.join(' ');
  };
  expect(argsOf(null)).toContain('"base_url"="https://chatgpt.com/backend-api/codex"');
  expect(argsOf(null)).toContain('"requires_openai_auth"=true');
  expect(argsOf(null)).toContain('chatgpt_base_url="https://chatgpt.com/backend-api"');
  expect(argsOf('http://llm:8080/v1')).toContain('chatgpt_base_url="http://llm:8080/v1"');
  expect(argsOf('http://llm:8080/v1')).not.toContain('chatgpt.com');
});

it('no key is asked for where the stage sets one, and where the mock agent plays', () => {
  const env = [{ name: 'ANTHROPIC_AUTH_TOKEN', value: { kind: 'literal', text: 'x' } }] as const;
  expect(hostVariable(null, { env })).toEqual([]);
  expect(hostVariable(null, { played: true })).toEqual([]);
  expect(demandedVariablesOf([stage(agent(llm('codex')))])).toEqual([{ name: 'OPENAI_API_KEY', stage: 'a' }]);
  expect(demandedVariablesOf([stage(agent(llm('codex'), { played: true }))])).toEqual([]);
});

it('a VM gets the image that its command line needs, unless it has one', () => {
  const parts = (plan: LlmPlan | null, sandbox = SANDBOX_DEFAULTS): unknown =>
    agentPartsOf({ id: 'vm', sandbox }, [stage(agent(plan))]);
  expect(parts(null)).toEqual({ layers: ['claude'], image: { kind: 'dev' } });
  expect(parts(llm('codex'))).toEqual({ layers: ['codex'], image: undefined });
  expect(agentPartsOf({ id: 'other', sandbox: SANDBOX_DEFAULTS }, [stage(agent(null))])).toEqual({
    layers: [],
    image: undefined,
  });
});

it('a server of the worker’s host has another name in the guest', () => {
  const at = (plan: LlmPlan): unknown => llmInGuest({ llm: plan })?.baseUrl;
  expect(at(llm('codex', { baseUrl: 'http://localhost:8080/v1' }))).toBe('http://llm:8080/v1');
  expect(at(llm('codex', { baseUrl: 'https://gateway.example.com/v1' }))).toBe('https://gateway.example.com/v1');
  expect(at(llm('codex'))).toBeNull();
  expect([at(llm('ollama')), at(llm('lm-studio'))]).toEqual(['http://llm:11434', 'http://llm:1234']);
});

const CODEX = { ...SANDBOX_DEFAULTS, memoryMib: 256 };

it.each([
  ['less memory than its command line starts with', { ...CODEX, memoryMib: 255 }, {}, '255 MiB are too little'],
  ['a VM that is simulated', { ...CODEX, mode: 'mock', isolation: 'none' } as const, {}, 'simulated (`mode: mock`)'],
  ['a key that stays on the host', CODEX, { credentialProxy: true }, '`credential_proxy`'],
])('%s is refused before anything starts', (_, sandbox, said, reason) => {
  const refused = (work: AgentWork, of: typeof sandbox = sandbox): readonly string[] =>
    findUnsupportedParts({
      version: 1,
      name: 'x',
      kind: 'workflow',
      stages: [stage(work)],
      scopes: [{ id: 'vm', stages: ['a'], sandbox: of }],
      output: { kind: 'stage', stage: 'a' },
      maxParallel: 1,
      hostVariables: [],
    }).map((part) => part.reason);
  expect(refused(agent(llm('codex', said)))).toEqual([expect.stringContaining(reason)]);
  expect(refused(agent(llm('codex', said), { played: true }))).toEqual([]);
  expect(refused(agent(llm('codex')), CODEX)).toEqual([]);
});
