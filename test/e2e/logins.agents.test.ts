/**
 * The login of a person in the VM of the real Claude: how the agent uses it, which parts it never sees, and when it
 * ends.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type ModelRequest, startFakeModel } from '../../bench/fake-model/fake-model.ts';
import { filesWith } from '../rig/files-with.ts';
import { Rig } from './rig.ts';

const ACCESS = 'sk-ant-oat01-canary-access-5d20';
const REFRESH = 'sk-ant-ort01-canary-refresh-c83e';

/** Writes the login like `claude` after a login or a renewal. */
function logIn(
  rig: Rig,
  accessToken: string,
  expiresAt: number,
): { readonly file: string; readonly variables: Readonly<Record<string, string>> } {
  const home = join(rig.specDir, 'claude-home');
  const file = join(home, '.credentials.json');
  mkdirSync(home, { recursive: true });
  const login = { accessToken, refreshToken: REFRESH, expiresAt, scopes: [] };
  writeFileSync(file, JSON.stringify({ claudeAiOauth: login }), { mode: 0o600 });
  return { file, variables: { CLAUDE_CONFIG_DIR: home } };
}

function keysOf({ headers }: ModelRequest): readonly unknown[] {
  return [headers['x-api-key'], headers['authorization']].filter((sent) => sent !== undefined);
}

const subscribed = (port: number): string => `api_version: v1
kind: agent
name: subscribed
llm: { provider: claude-personal, base_url: "http://127.0.0.1:${port}" }
agent: { prompt: Look at your login., timeout_secs: 600 }
`;

/** Claude renews a login within minutes before it ends: this one has more left than the stage, and less than an hour. */
const LEFT_MS = 40 * 60_000;

test('claude works by the access token of a subscriber, which it sends as a bearer token and never renews', async () => {
  await using model = await startFakeModel(({ turn }) =>
    turn === 0
      ? {
          run: 'echo "login: [$CLAUDE_CODE_OAUTH_TOKEN]"; echo "$(find ~ -name .credentials.json | wc -l) files of it"',
        }
      : { say: 'I looked.' },
  );
  await using rig = new Rig();
  const { file, variables } = logIn(rig, ACCESS, Date.now() + LEFT_MS);
  const spec = rig.spec('spec.yaml', subscribed(model.port));
  const run = await rig.startWith(variables, 'run', spec, '--run-id', 'subscribed', '--json').done;
  expect(run.code, run.stdout + run.stderr).toBe(0);
  expect(run.stderr).toContain(`the login of Claude on this machine (${file})`);
  expect(JSON.parse(run.stdout)).toMatchObject({ outputText: 'I looked.' });

  const asked = model.requests.filter(({ path }) => path.endsWith('/messages'));
  expect(asked.length).toBeGreaterThanOrEqual(2);
  expect(new Set(model.requests.flatMap(keysOf))).toEqual(new Set([`Bearer ${ACCESS}`]));
  for (const { headers } of asked) expect(headers['authorization']).toBe(`Bearer ${ACCESS}`);
  // It keeps its login from the shells that it starts, and writes it nowhere.
  expect(asked.at(-1)!.body).toContain('login: []\\n0 files of it');
  // The agent asks this server for no renewal, nor, as the door would tell, any other server.
  expect(model.requests.map(({ path }) => path).filter((path) => path.includes('oauth'))).toEqual([]);
  const refused = (await rig.events('subscribed')).flatMap(({ body }) =>
    body.type === 'network' && body.kind === 'refused' ? [body] : [],
  );
  expect(refused).toEqual([]);
  expect(JSON.stringify(model.requests)).not.toContain(REFRESH);

  const shown = [run, await rig.cli('logs', 'subscribed', '--raw'), await rig.cli('status', 'subscribed', '--json')];
  for (const { stdout, stderr } of shown) expect(stdout + stderr).not.toMatch(new RegExp(`${ACCESS}|${REFRESH}`));
  await rig.assertNothingLeft();
  for (const token of [ACCESS, REFRESH]) expect(filesWith(rig.stateDir, token)).toEqual([]);
  expect(filesWith(rig.stateDir, 'I looked.').length, 'the control').toBeGreaterThan(0);
});

/** Longer than either agent takes. The rest of the first login is then short enough for a test to wait for its end. */
const TIMEOUT_S = 150;
/** The time in which `voidbox run` reads its spec. */
const START_MS = 20_000;
/** Less than the time that an agent needs to start. */
const TOO_LITTLE_MS = 55_000;
const ACCESS_OF_LATER = 'sk-ant-oat01-canary-later-97ae';

/** Boxes, each in a VM of its own: a retry takes over no result of a VM in which a stage failed. */
const waiting = (port: number): string => `api_version: v1
kind: pipeline
name: waiting
llm: { provider: claude-personal, base_url: "http://127.0.0.1:${port}" }
pipeline:
  boxes:
    - { name: draft, prompt: Draft the text., timeout_secs: ${TIMEOUT_S} }
    - { name: release, approval: { message: "Publish it?" } }
    - { name: publish, prompt: Publish the text., timeout_secs: ${TIMEOUT_S} }
`;

test('a login that ends while the run waits fails the agent that would start, and with a later login a retry continues', async () => {
  await using model = await startFakeModel(({ conversation }) => ({
    say: conversation.includes('Publish the text.') ? 'It is published.' : 'It is drafted.',
  }));
  await using rig = new Rig();
  const keysFor = (prompt: string): readonly unknown[] => [
    ...new Set(model.requests.filter(({ body }) => body.includes(prompt)).flatMap(keysOf)),
  ];
  const endsAtMs = Date.now() + TIMEOUT_S * 1_000 + START_MS;
  const { variables } = logIn(rig, ACCESS, endsAtMs);
  const spec = rig.spec('spec.yaml', waiting(model.port));
  const started = await rig.startWith(variables, 'run', spec, '--detach', '--run-id', 'waits').done;
  expect(started.code, started.stderr).toBe(0);
  await rig.eventOf('waits', 'stage-asking', TIMEOUT_S * 1_000);
  await sleep(endsAtMs - TOO_LITTLE_MS - Date.now());
  expect((await rig.cli('approve', 'waits')).code).toBe(0);
  expect((await rig.finish('waits')).outcome.state).toBe('failed');

  const status = await rig.cli('status', 'waits', '--json');
  expect((JSON.parse(status.stdout) as { readonly stages: readonly object[] }).stages).toMatchObject([
    { id: 'draft', state: 'succeeded' },
    { id: 'release', state: 'succeeded' },
    { id: 'publish', state: 'failed', failure: { code: 'host/login-expires' } },
  ]);
  const ends = new Date(endsAtMs).toISOString();
  expect((await rig.cli('status', 'waits')).stdout).toContain(
    `the login of Claude that stage publish was given ends at ${ends}: start \`claude\` once on the machine that started the run to renew the login, then retry the run, which reuses the stages that succeeded (\`voidbox retry\`)`,
  );
  const booted = (await rig.events('waits')).flatMap(({ body }) => (body.type === 'vm-starting' ? [body.scope] : []));
  expect(booted, 'no VM for an agent that cannot work').toEqual(['draft']);
  expect([keysFor('Draft the text.'), keysFor('Publish the text.')]).toEqual([[`Bearer ${ACCESS}`], []]);

  const drafted = model.requests.length;
  logIn(rig, ACCESS_OF_LATER, Date.now() + LEFT_MS);
  const retry = await rig.startWith(variables, 'retry', 'waits', '--run-id', 'goes-on', '--json').done;
  expect(retry.code, retry.stdout + retry.stderr).toBe(0);
  expect(JSON.parse(retry.stdout)).toMatchObject({ outputText: 'It is published.' });
  const given = (await rig.events('goes-on')).flatMap(({ body }) => (body.type === 'stage-given' ? [body.stage] : []));
  expect(given.toSorted()).toEqual(['draft', 'release']);
  expect(keysFor('Publish the text.')).toEqual([`Bearer ${ACCESS_OF_LATER}`]);
  expect(new Set(model.requests.slice(drafted).flatMap(keysOf))).toEqual(new Set([`Bearer ${ACCESS_OF_LATER}`]));
  await rig.assertNothingLeft();
  for (const token of [ACCESS, ACCESS_OF_LATER, REFRESH]) expect(filesWith(rig.stateDir, token)).toEqual([]);
});
