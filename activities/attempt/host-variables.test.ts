import { expect, test } from 'vitest';
import { AGENT_DEFAULTS } from '../../domain/plan/defaults.ts';
import type { AgentWork } from '../../domain/plan/plan.ts';
import { hostVariablesOf } from '../../domain/plan-rules/variables.ts';
import { createRedactor } from '../../domain/security/redactor.ts';
import { plainStage } from '../../test/rig/runs/mock-worker.ts';
import { readSecrets, resolveEnvironment, type StageEnvironment } from './host-variables.ts';
import type { VmStage } from '../calls/requests.ts';
import type { Starter } from '../ports/starters.ts';

const TOKENS = { id_token: 'a.id.c', access_token: 'an.access.token', refresh_token: 'rt-refresh-token' };
const LOGIN = JSON.stringify({ tokens: { ...TOKENS, account_id: 'account-1' } }, null, 2);

function agentStage(said: Partial<AgentWork> = {}, apiKeyEnv: string | null = null): VmStage {
  const llm = { provider: 'codex-personal', model: null, baseUrl: null, apiKeyEnv, credentialProxy: false } as const;
  return plainStage('think', 'think', ['-'], { work: { ...AGENT_DEFAULTS, kind: 'agent', prompt: 'x', llm, ...said } });
}

function resolve(
  stage: VmStage,
  variables: Readonly<Record<string, string>>,
  starter: Starter = { kind: 'any' },
): Promise<StageEnvironment> {
  return resolveEnvironment(
    {
      hostVariables: { get: async () => ({}) },
      lentVariables: { read: async () => variables },
      starters: { starterOf: async () => starter },
    },
    { runId: 'run', stage, hostVariables: hostVariablesOf([stage]) },
  );
}

const never = (): Promise<never> => Promise.reject(new Error('not asked for'));
const secret = (name: string): AgentWork['env'] => [{ name, value: { kind: 'from-host', fromHost: name } }];

test.each([
  ['by the name of its provider', agentStage(), 'CODEX_AUTH_JSON'],
  ['by a name of its own', agentStage({}, 'TEAM_LOGIN'), 'TEAM_LOGIN'],
  ['as a secret of the stage', agentStage({ env: secret('CODEX_AUTH_JSON') }), 'CODEX_AUTH_JSON'],
  ['of an agent that is played', agentStage({ env: secret('CODEX_AUTH_JSON'), played: true }), 'CODEX_AUTH_JSON'],
])('a login that a worker lends, %s, is a file without its refresh token, and no variable', async (_, stage, name) => {
  const { env, credentials } = await resolve(stage, { [name]: LOGIN });
  expect(env).toEqual({});
  expect(credentials.map(({ guestPath }) => guestPath)).toEqual(['/run/credentials/codex-auth.json']);
  expect(credentials[0]!.text).toContain(TOKENS.access_token);
  expect(credentials[0]!.text).not.toContain(TOKENS.refresh_token);
});

test('each token of a login is redacted on its own, also the token that no guest gets', async () => {
  const { secrets } = await resolve(agentStage(), { CODEX_AUTH_JSON: LOGIN });
  const { text } = createRedactor(secrets);
  for (const token of Object.values(TOKENS)) {
    expect(text(`Bearer ${token}!`)).toBe('Bearer [redacted]!');
    expect(text(JSON.stringify(JSON.stringify({ token })))).toContain('[redacted]');
    expect(text(Buffer.from(`user:${token}:x`).toString('base64'))).toContain('[redacted]');
  }
  const sources = {
    hostVariables: { get: async () => ({ X: LOGIN }) },
    lentVariables: { read: never },
    starters: { starterOf: never },
  };
  expect((await readSecrets(sources, 'run', ['X'])).map(({ value }) => value)).toEqual([
    LOGIN,
    ...Object.values(TOKENS),
  ]);
});

test('an invalid login is refused with the name of its variable, and the error does not contain its value', async () => {
  await expect(resolve(agentStage(), { CODEX_AUTH_JSON: 'sk-some-key' })).rejects.toMatchObject({
    code: 'host/login-invalid',
    message: expect.stringMatching(/^stage think uses the login in CODEX_AUTH_JSON, (?!.*sk-some-key)/) as string,
  });
});

test('other agents get their key as a variable', async () => {
  const { env, credentials } = await resolve(agentStage({ llm: null }), { ANTHROPIC_API_KEY: 'sk-key' });
  expect({ env, credentials }).toEqual({ env: { ANTHROPIC_API_KEY: 'sk-key' }, credentials: [] });
});

const CONFINED: readonly Starter[] = [
  { kind: 'token', name: 'ci', baseDir: '/u', allowGit: [] },
  { kind: 'deployment', name: 'review', version: 1, delivery: 'd', baseDir: '/u', allow: [], allowGit: [] },
];

test.each(CONFINED)('a run of a $kind gets no variable that the worker lends', async (starter) => {
  const plain = plainStage('print', 'print', ['env']);
  const stage = { ...plain, work: { ...plain.work, env: secret('API_TOKEN') } } as VmStage;
  expect((await resolve(stage, { API_TOKEN: 'lent' })).env).toEqual({ API_TOKEN: 'lent' });
  await expect(resolve(stage, { API_TOKEN: 'lent' }, starter)).rejects.toMatchObject({ code: 'host/variable-missing' });
});
