/** The unmodified command lines with skills: as documents in a git workspace, and Codex as it answers the prompts of a step machine. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type ModelScript, startFakeModel } from '../../bench/fake-model/fake-model.ts';
import { Rig, until } from './rig.ts';

const SKILL = `import { skill, terminal, z } from 'voidbox/skill-kit';
export default skill({ name: 'count', version: '1.0.0', description: 'A test.', entry: 'write' })
  .step('write', {
    prompt: 'Write a line to lines.txt.',
    response: z.object({ written: z.number() }),
    next: 'read',
  })
  .step('read', {
    prompt: ({ store }) => 'You wrote ' + store.steps.write.written + '. What does it say?',
    response: z.object({ line: z.string() }),
    next: terminal,
  })
  .build();
`;

const spec = (port: number): string => `api_version: v1
kind: workflow
name: count
llm: { provider: codex, model: gpt-5, base_url: "http://127.0.0.1:${port}/v1" }
workflow:
  steps:
    - { name: count, skill: { use: ./skills/count }, timeout_secs: 240 }
`;

/** By how often the conversation has an answer of the model: one conversation for all prompts. */
const ANSWERS: ModelScript = ({ turn }) => {
  switch (turn) {
    case 0:
      return { run: 'echo of one conversation >> lines.txt' };
    case 1:
      return { say: 'I wrote a line.' };
    case 2:
      return { say: '```json\n{"written":1}\n```' };
    case 3:
      return { run: 'cat lines.txt' };
    default:
      return [6_000, { say: '{"line":"of one conversation"}' }];
  }
};

test('Codex answers in one conversation and one VM, corrects what is refused, and survives its worker', async () => {
  await using model = await startFakeModel(ANSWERS);
  await using rig = new Rig({ OPENAI_API_KEY: 'sk-of-the-lane' });
  mkdirSync(join(rig.specDir, 'skills/count'), { recursive: true });
  writeFileSync(join(rig.specDir, 'skills/count/skill.ts'), SKILL);
  await rig.launch(rig.spec('spec.yaml', spec(model.port)), 'count');
  await until('the fifth request', 200_000, async () => {
    const end = (await rig.events('count')).find(({ body }) => body.type === 'run-finished');
    expect(end?.body, `it ended after ${model.requests.length} requests`).toBe(undefined);
    return model.requests.length >= 5;
  });
  rig.kill((await rig.liveStack()).workerPid);
  expect((await rig.finish('count')).outcome.failure).toBe(null);
  expect((await rig.cli('result', 'count')).stdout).toBe('{"line":"of one conversation"}');
  expect(model.requests).toHaveLength(5);
  const steps = (await rig.events('count')).flatMap(({ body }) =>
    body.type === 'skill-step' ? [[body.step, body.refusal === null]] : [],
  );
  expect(steps).toEqual([
    ['write', true],
    ['write', false],
    ['read', true],
  ]);
  expect(model.requests.at(-1)!.body).toContain('Write a line to lines.txt.');
  await rig.assertNothingLeft();
});

const CANARY = 'canary-skill-7b1: Write sentences of quux-9c2f words.';

const inWorkspace = (llm: string): string => `api_version: v1
kind: pipeline
name: fix
llm: ${llm}
pipeline:
  boxes:
    - name: fix
      prompt: Write the file notes.txt and commit it.
      workspace: { git: ./app }
      skills: [{ name: canary-skill-7b1, content: Write sentences of quux-9c2f words. }]
`;

const COMMIT = { run: 'pwd > notes.txt; git add notes.txt; git commit -qm notes' };
/**
 * Its settings make it fetch without asking another host first. It gives the model only the name of this tool, until
 * the model asks for more.
 */
const FETCHES = [
  { call: 'ToolSearch', input: { query: 'select:WebFetch' } },
  { call: 'WebFetch', input: { url: 'https://fetched.example/', prompt: 'What is it?' } },
];

test.each([
  ['claude', (port: number) => `{ provider: claude, base_url: "http://127.0.0.1:${port}" }`, [...FETCHES, COMMIT]],
  ['codex', (port: number) => `{ provider: codex, model: gpt-5, base_url: "http://127.0.0.1:${port}/v1" }`, [COMMIT]],
] as const)(
  '%s has its skills and settings in a git workspace, and the patch contains no file of them',
  async (_, llm, calls) => {
    await using model = await startFakeModel(({ turn }) => calls[turn] ?? { say: 'written' });
    await using rig = new Rig({ OPENAI_API_KEY: 'sk-of-the-lane', ANTHROPIC_API_KEY: 'sk-ant-of-the-lane' });
    const app = join(rig.specDir, 'app');
    mkdirSync(app);
    const git = ['-C', app, '-c', 'user.name=a', '-c', 'user.email=a@b'];
    execFileSync('git', [...git, 'init', '-q']);
    execFileSync('git', [...git, 'commit', '-q', '--allow-empty', '-m', 'first']);
    const run = await rig.cli('run', rig.spec('spec.yaml', inWorkspace(llm(model.port))), '--run-id', 'fix', '--json');
    expect(run.code, run.stdout + run.stderr).toBe(0);
    const asked = model.requests.filter(({ body }) => body.includes('Write the file notes.txt'));
    expect(asked).toHaveLength(calls.length + 1);
    expect(asked[0]!.body.split(`- ${CANARY}`), 'it is offered once').toHaveLength(2);
    const refused = (await rig.events('fix')).flatMap(({ body }) =>
      body.type === 'network' && body.kind === 'refused' ? [body.host] : [],
    );
    expect(refused).toEqual(calls.length === 1 ? [] : ['fetched.example']);
    expect((await rig.cli('artifacts', 'fix', 'get', 'fix.changes.patch')).code).toBe(0);
    const patch = readFileSync(join(rig.specDir, 'fix.changes.patch'), 'utf8');
    expect(patch.match(/^\+.*/gm)).toEqual(['+++ b/notes.txt', '+/workspace/repository']);
    await rig.assertNothingLeft();
  },
);
