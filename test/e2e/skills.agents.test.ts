/** The unmodified command line of Codex answers the prompts of a step machine in a real VM. */
import { mkdirSync, writeFileSync } from 'node:fs';
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
