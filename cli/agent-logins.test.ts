import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { AGENT_DEFAULTS, STAGE_DEFAULTS } from '../domain/plan/defaults.ts';
import type { AgentWork, LlmProvider, StagePlan } from '../domain/plan/plan.ts';
import { readEnvironment } from '../setup/environment.ts';
import { loginsFor } from './agent-logins.ts';

const NOW_MS = Date.UTC(2026, 10, 24, 12);
const TOKENS = { accessToken: 'sk-ant-oat01-access', refreshToken: 'sk-ant-ort01-refresh' };

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'voidbox-login-'));
  mkdirSync(join(home, '.claude'));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

function login(file: unknown): void {
  const text = typeof file === 'string' ? file : JSON.stringify(file);
  writeFileSync(join(home, '.claude', '.credentials.json'), text, { mode: 0o600 });
}

function stage(provider: LlmProvider, said: Partial<AgentWork> = {}): StagePlan {
  const llm = { provider, model: null, baseUrl: null, apiKeyEnv: null, credentialProxy: false };
  const work = { ...AGENT_DEFAULTS, kind: 'agent', prompt: 'x', llm, ...said } as const;
  return { ...STAGE_DEFAULTS, id: 'think', scope: 'think', work, timeoutMs: 1_200_000 };
}

function logins(stages: readonly StagePlan[], variables: Readonly<Record<string, string>> = {}): object {
  const env = readEnvironment({ HOME: home, ...variables });
  return loginsFor(stages, { env, now: () => new Date(NOW_MS) });
}

test('the access token stands for the variable, and the refresh token stays where it is', () => {
  login({ claudeAiOauth: { ...TOKENS, expiresAt: NOW_MS + 1_200_000 } });
  const found = logins([stage('claude-personal')]);
  expect(found).toEqual({ CLAUDE_CODE_OAUTH_TOKEN: TOKENS.accessToken });
  expect(JSON.stringify(found)).not.toContain(TOKENS.refreshToken);
});

test('one that ends before the agent must is refused, and no token is in the message', () => {
  login({ claudeAiOauth: { ...TOKENS, expiresAt: NOW_MS + 1_199_999 } });
  expect(() => logins([stage('claude-personal')])).toThrow(
    expect.objectContaining({
      code: 'host/login-expires',
      message:
        'the login of Claude on this machine ends at 2026-11-24T12:19:59.999Z, and stage think may take 1200 s from now',
    }),
  );
});

test('nobody else reads it: other providers, agents that are played, a variable that is set', () => {
  login({ claudeAiOauth: { ...TOKENS, expiresAt: 0 } });
  const env = [{ name: 'ANTHROPIC_API_KEY', value: { kind: 'literal', text: 'x' } }] as const;
  expect(logins([stage('claude'), stage('codex'), stage('custom')])).toEqual({});
  expect(logins([stage('claude-personal', { played: true }), stage('claude-personal', { env })])).toEqual({});
  expect(logins([stage('claude-personal')], { CLAUDE_CODE_OAUTH_TOKEN: 'mine' })).toEqual({});
});

test.each([
  ['no file', null],
  ['no JSON', '{'],
  ['null', 'null'],
  ['no login', {}],
  ['no token', { claudeAiOauth: { expiresAt: NOW_MS * 2 } }],
  ['no time', { claudeAiOauth: { ...TOKENS, expiresAt: 'soon' } }],
  ['a time that is none', { claudeAiOauth: { ...TOKENS, expiresAt: 1e300 } }],
  ['more than a login has', ' '.repeat(1024 * 1024 + 1)],
])('%s: the variable is demanded by its name', (_, file) => {
  if (file !== null) login(file);
  expect(logins([stage('claude-personal')])).toEqual({});
});
