/** The unmodified command line of Codex in real VMs, and what survives it: dead workers, dead VMs, dead streams. */
import { expect, test } from 'vitest';
import { type ModelScript, startFakeModel } from '../../bench/fake-model/fake-model.ts';
import { CHANGES_IN_TWO_VMS, loseInRepository } from '../rig/git/repository-losses.ts';
import { Rig, until } from './rig.ts';

const KEY = { OPENAI_API_KEY: 'sk-of-the-lane' };

const one = (port: number, more = ''): string => `api_version: v1
kind: agent
name: one
llm: { provider: codex, model: gpt-5, base_url: "http://127.0.0.1:${port}/v1" }
agent: { prompt: "Write the file and answer."${more} }
`;

/** Long enough to be killed in, before the answer that counts. */
const SLOW: ModelScript = ({ turn }) =>
  turn === 0
    ? { run: 'echo a line >> /workspace/lines.txt; cat /workspace/lines.txt | tr a-z A-Z' }
    : [15_000, { say: 'written' }];

test('its worker dies: the next one reads on, the same command answers, and the model is asked nothing twice', async () => {
  await using model = await startFakeModel(SLOW);
  await using rig = new Rig(KEY);
  await rig.launch(rig.spec('spec.yaml', one(model.port)), 'worker-dies');
  await rig.eventOf('worker-dies', 'agent-tool');
  rig.kill((await rig.liveStack()).workerPid);
  expect((await rig.finish('worker-dies')).outcome.state).toBe('succeeded');
  expect((await rig.eventOf('worker-dies', 'stage-reattached')).stage).toBe('one');
  expect(model.requests).toHaveLength(2);
  const events = await rig.events('worker-dies');
  expect(events.filter(({ body }) => body.type === 'stage-started')).toHaveLength(1);
  expect(events.filter(({ body }) => body.type === 'agent-tool')).toHaveLength(1);
  expect(events.flatMap(({ body }) => (body.type === 'agent-text' ? [body.text] : []))).toEqual(['written']);
  await rig.assertNothingLeft();
});

test('its VM dies: the agent continues in a new one with its session and files, and repeats nothing to the model', async () => {
  await using model = await startFakeModel(SLOW);
  await using rig = new Rig(KEY);
  await rig.launch(rig.spec('spec.yaml', one(model.port)), 'vm-dies');
  await rig.eventOf('vm-dies', 'stage-progress');
  rig.kill((await rig.keeperOf('one')).pid);
  expect((await rig.finish('vm-dies')).outcome.state).toBe('succeeded');
  const events = await rig.events('vm-dies');
  expect(events.filter(({ body }) => body.type === 'vm-lost')).toHaveLength(1);
  expect(events.filter(({ body }) => body.type === 'stage-resumed')).toHaveLength(1);
  expect(events.flatMap(({ body }) => (body.type === 'stage-started' ? [body.attempt] : []))).toHaveLength(2);
  expect(events.filter(({ body }) => body.type === 'agent-tool')).toHaveLength(1);
  const asked = model.requests.at(-1)!.body;
  expect(asked, 'the first prompt').toContain('Write the file and answer.');
  expect(asked, 'the result of the call in the lost VM').toContain('A LINE');
  expect(asked, 'what happened').toContain('The machine that you worked on was lost');
  await rig.assertNothingLeft();
});

test('its VM dies: the next one has the login too, from a variable that held all of it, and the session continues', async () => {
  await using model = await startFakeModel(SLOW);
  const tokens = { id_token: 'a.b.c', access_token: 'access-canary-1b8e', refresh_token: 'refresh-canary-77d0' };
  const CODEX_AUTH_JSON = JSON.stringify({ tokens: { ...tokens, account_id: 'account-1' } }, null, 2);
  await using rig = new Rig({ CODEX_AUTH_JSON });
  const spec = one(model.port).replace('provider: codex,', 'provider: codex-personal,');
  await rig.launch(rig.spec('spec.yaml', spec), 'login-dies');
  await rig.eventOf('login-dies', 'stage-progress');
  rig.kill((await rig.keeperOf('one')).pid);
  expect((await rig.finish('login-dies')).outcome.state).toBe('succeeded');
  const events = await rig.events('login-dies');
  expect(events.filter(({ body }) => body.type === 'stage-resumed')).toHaveLength(1);
  const asked = model.requests.filter(({ path }) => path.endsWith('/responses'));
  expect(asked.map(({ headers }) => headers['authorization'])).toEqual(
    asked.map(() => `Bearer ${tokens.access_token}`),
  );
  expect(asked.at(-1)!.body).toContain('The machine that you worked on was lost');
  expect(JSON.stringify(model.requests)).not.toContain(tokens.refresh_token);
  await rig.assertNothingLeft();
});

const TWO = (cut: number, denied: number): string => `api_version: v1
kind: pipeline
name: two
pipeline:
  boxes:
    - name: half
      prompt: Answer.
      llm: { provider: codex, model: gpt-5, base_url: "http://127.0.0.1:${cut}/v1" }
    - name: denied
      prompt: Answer.
      llm: { provider: codex, model: gpt-5, base_url: "http://127.0.0.1:${denied}/v1" }
  stages:
    - { type: fan_out, boxes: [half, denied] }
`;

test('a stream that is cut is no answer, and a refused key fails with the message of the server', async () => {
  await using cut = await startFakeModel(() => ({ cut: 'half an ans' }));
  await using denied = await startFakeModel(() => ({ status: 401, message: 'the key is not known' }));
  await using rig = new Rig(KEY);
  const spec = rig.spec('spec.yaml', TWO(cut.port, denied.port));
  const run = await rig.cli('run', spec, '--run-id', 'two', '--json');
  expect(run.code, run.stderr).toBe(1);
  const { stages } = JSON.parse(run.stdout) as { readonly stages: readonly object[] };
  expect(stages).toMatchObject([
    { id: 'half', state: 'failed', failure: { code: 'agent/api-error' } },
    { id: 'denied', state: 'failed', failure: { code: 'agent/api-error' } },
  ]);
  expect(JSON.stringify(stages[1])).toContain('the key is not known');
  expect(cut.requests.length, 'it tries again by itself, within bounds').toBeLessThan(20);
  await rig.assertNothingLeft();
});

test('a stream that is cut once is asked for again by the command line itself', async () => {
  let asked = 0;
  await using model = await startFakeModel(() => ((asked += 1) === 1 ? { cut: 'half an ans' } : { say: 'whole' }));
  await using rig = new Rig(KEY);
  const run = await rig.cli('run', rig.spec('spec.yaml', one(model.port)), '--json');
  expect(run.code, run.stderr).toBe(0);
  expect(JSON.parse(run.stdout)).toMatchObject({ outputText: 'whole' });
  await rig.assertNothingLeft();
});

test('an answer that does not fit its schema is sent back in the same session', async () => {
  await using model = await startFakeModel(({ conversation }) => ({
    say: conversation.includes('does not fit') || conversation.includes('Correct it') ? '{"ok":true}' : '{"ok":"yes"}',
  }));
  await using rig = new Rig(KEY);
  const schema = 'output_schema: { type: object, required: [ok], properties: { ok: { type: boolean } } }';
  const spec = `api_version: v1
kind: pipeline
name: schema
llm: { provider: codex, model: gpt-5, base_url: "http://127.0.0.1:${model.port}/v1" }
pipeline:
  boxes:
    - { name: check, prompt: "Is it ok?", ${schema} }
`;
  const run = await rig.cli('run', rig.spec('spec.yaml', spec), '--json');
  expect(run.code, run.stderr).toBe(0);
  expect(JSON.parse((JSON.parse(run.stdout) as { readonly outputText: string }).outputText)).toEqual({ ok: true });
  expect(model.requests).toHaveLength(2);
  expect(model.requests[1]!.body, 'the session goes on').toContain('Is it ok?');
  await until('its VM to end', 15_000, () => rig.keepers().length === 0);
  await rig.assertNothingLeft();
});

test('its VM is lost in a git repository: commits, changes and skills are in the next one, and the patch has all', async () => {
  await using model = await startFakeModel(CHANGES_IN_TWO_VMS);
  await using rig = new Rig(KEY);
  await loseInRepository(
    rig,
    model,
    `{ provider: codex, model: gpt-5, base_url: "http://127.0.0.1:${model.port}/v1" }`,
  );
});
