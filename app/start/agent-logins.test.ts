import { Buffer } from 'node:buffer';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { AGENT_DEFAULTS, STAGE_DEFAULTS } from '../../domain/plan/defaults.ts';
import type { AgentWork, LlmProvider, StagePlan } from '../../domain/plan/plan.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { hasLogin, readLogins } from './agent-logins.ts';

const NOW_MS = Date.UTC(2026, 10, 24, 12);
const TOKENS = { accessToken: 'sk-ant-oat01-access', refreshToken: 'sk-ant-ort01-refresh' };

const NO_SERVER = { model: null, baseUrl: null, apiKeyEnv: null, credentialProxy: false };

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
  const llm = { provider, ...NO_SERVER };
  const work = { ...AGENT_DEFAULTS, kind: 'agent', prompt: 'x', llm, ...said } as const;
  return { ...STAGE_DEFAULTS, id: 'think', scope: 'think', work, timeoutMs: 1_200_000 };
}

function logins(stages: readonly StagePlan[], variables: Readonly<Record<string, string>> = {}): object {
  const env = readEnvironment({ HOME: home, ...variables });
  return readLogins(stages, { env, now: () => new Date(NOW_MS) });
}

test('the access token becomes the value of the variable, and the refresh token stays in its file', () => {
  login({ claudeAiOauth: { ...TOKENS, expiresAt: NOW_MS + 1_200_000 } });
  const found = logins([stage('claude-personal')]);
  expect(found).toEqual({
    CLAUDE_CODE_OAUTH_TOKEN: TOKENS.accessToken,
    // For the worker, which checks the end again.
    'login-end:CLAUDE_CODE_OAUTH_TOKEN': '2026-11-24T12:20:00.000Z',
  });
  expect(JSON.stringify(found)).not.toContain(TOKENS.refreshToken);
});

test('a login that ends before the time limit of the agent is refused, and the message contains no token', () => {
  login({ claudeAiOauth: { ...TOKENS, expiresAt: NOW_MS + 1_199_999 } });
  expect(() => logins([stage('claude-personal')])).toThrow(
    expect.objectContaining({
      code: 'host/login-expires',
      message:
        'the login of Claude on this machine ends at 2026-11-24T12:19:59.999Z, and stage think may take 1200 s from now',
    }),
  );
});

test('other providers, mocked agents and agents whose variable is set do not read the login', () => {
  login({ claudeAiOauth: { ...TOKENS, expiresAt: 0 } });
  const env = [{ name: 'ANTHROPIC_API_KEY', value: { kind: 'literal', text: 'x' } }] as const;
  expect(logins([stage('claude'), stage('codex'), stage('custom')])).toEqual({});
  expect(logins([stage('claude-personal', { played: true }), stage('claude-personal', { env })])).toEqual({});
  expect(logins([stage('claude-personal')], { CLAUDE_CODE_OAUTH_TOKEN: 'mine' })).toEqual({});
});

test('a run with variables of its own gets the login in the home, and no variable of the process', () => {
  login({ claudeAiOauth: { ...TOKENS, expiresAt: NOW_MS * 2 } });
  const env = readEnvironment({ HOME: home, CLAUDE_CODE_OAUTH_TOKEN: 'of the process' });
  const machine = { env, now: () => new Date(NOW_MS) };
  const stages = [stage('claude-personal')];
  expect(readLogins(stages, machine, {})).toMatchObject({ CLAUDE_CODE_OAUTH_TOKEN: TOKENS.accessToken });
  expect(readLogins(stages, machine, { CLAUDE_CODE_OAUTH_TOKEN: 'of the request' })).toEqual({});
  // The caller is a token and not the user of this machine.
  expect(readLogins(stages, { ...machine, confinedTo: '/uploads' }, {})).toEqual({});
  expect(readLogins(stages, machine)).toEqual({});
});

test.each([
  ['no file', null],
  ['no JSON', '{'],
  ['null', 'null'],
  ['no login', {}],
  ['no token', { claudeAiOauth: { expiresAt: NOW_MS * 2 } }],
  ['no time', { claudeAiOauth: { ...TOKENS, expiresAt: 'soon' } }],
  ['an impossible time', { claudeAiOauth: { ...TOKENS, expiresAt: 1e300 } }],
  ['more than a login has', ' '.repeat(1024 * 1024 + 1)],
])('%s: the variable is demanded by its name', (_, file) => {
  if (file !== null) login(file);
  expect(logins([stage('claude-personal')])).toEqual({});
});

/** Has the form of OpenAI's tokens, whose middle part counts. */
const token = (claims: object): string =>
  ['{}', JSON.stringify(claims), 'sign'].map((part) => Buffer.from(part).toString('base64url')).join('.');

const authFile = (access: string): string =>
  JSON.stringify({
    OPENAI_API_KEY: null,
    tokens: { id_token: 'a.b.c', access_token: access, refresh_token: 'rt-refresh', account_id: 'acc-1' },
    last_refresh: '2026-11-24T08:00:00Z',
  });

function codexLogin(text: string): void {
  mkdirSync(join(home, '.codex'), { recursive: true });
  writeFileSync(join(home, '.codex', 'auth.json'), text, { mode: 0o600 });
}

describe('the login of Codex', () => {
  const LONG = token({ exp: NOW_MS / 1000 + 1_200 });

  test('the login becomes the value of the variable, without its refresh token', () => {
    codexLogin(authFile(LONG));
    const found = logins([stage('codex-personal')]);
    expect(Object.keys(found)).toEqual(['CODEX_AUTH_JSON', 'login-end:CODEX_AUTH_JSON']);
    expect(JSON.stringify(found)).toContain(LONG);
    expect(JSON.stringify(found)).not.toContain('rt-refresh');
    expect(logins([stage('codex'), stage('claude-personal')])).toEqual({});
  });

  test('a variable that has a whole login is handed over without its refresh token, by whatever name', () => {
    const env = [{ name: 'CODEX_AUTH_JSON', value: { kind: 'from-host', fromHost: 'CODEX_AUTH_JSON' } }] as const;
    const team = stage('codex-personal');
    const named = {
      ...team,
      work: { ...team.work, llm: { ...NO_SERVER, provider: 'codex-personal', apiKeyEnv: 'TEAM_LOGIN' } },
    } as StagePlan;
    const whole = authFile(LONG);
    const found = logins([stage('codex-personal', { env }), named], { CODEX_AUTH_JSON: whole, TEAM_LOGIN: whole });
    expect(
      Object.keys(found)
        .filter((name) => !name.includes(':'))
        .toSorted(),
    ).toEqual(['CODEX_AUTH_JSON', 'TEAM_LOGIN']);
    expect(JSON.stringify(found)).not.toContain('rt-refresh');
  });

  test('a login that ends before the time limit of the agent is refused, from a file and from a variable', () => {
    const short = authFile(token({ exp: NOW_MS / 1000 + 1_199 }));
    codexLogin(short);
    for (const variables of [{}, { CODEX_AUTH_JSON: short }] as const)
      expect(() => logins([stage('codex-personal')], variables)).toThrow(
        expect.objectContaining({
          code: 'host/login-expires',
          message: expect.stringContaining('the login of Codex on this machine ends at 2026-11-24T12:19:59.000Z'),
        }),
      );
  });

  test('a token without an expiry is accepted', () => {
    expect(logins([stage('codex-personal')], { CODEX_AUTH_JSON: authFile('opaque') })).not.toEqual({});
    codexLogin(authFile(token({})));
    expect(logins([stage('codex-personal')])).not.toEqual({});
  });

  test('a variable that is not a login is refused, and the message does not contain its value', () => {
    expect(() => logins([stage('codex-personal')], { CODEX_AUTH_JSON: 'sk-some-key' })).toThrow(
      expect.objectContaining({ code: 'host/login-invalid', message: expect.not.stringContaining('sk-some-key') }),
    );
  });

  test('a login by a key, and none at all: the variable is demanded by its name', () => {
    expect(logins([stage('codex-personal')])).toEqual({});
    codexLogin(JSON.stringify({ OPENAI_API_KEY: 'sk-key' }));
    expect(logins([stage('codex-personal')])).toEqual({});
    expect(hasLogin('CODEX_AUTH_JSON', readEnvironment({ HOME: home }))).toBe(false);
    codexLogin(authFile('x'));
    expect(hasLogin('CODEX_AUTH_JSON', readEnvironment({ HOME: home }))).toBe(true);
    expect(hasLogin('OTHER', readEnvironment({ HOME: home }))).toBe(false);
  });
});
