/** Providers of Claude's command line whose servers are on the worker's own host, and the results of failed calls. */
import { expect, test } from 'vitest';
import { startFakeModel } from '../../bench/fake-model/fake-model.ts';
import { Rig } from './rig.ts';

const KEY = 'sk-of-the-gateway-41c7';

const three = (port: number): string => `api_version: v1
kind: pipeline
name: three
sandbox: { memory_mb: 768 }
pipeline:
  boxes:
    - name: one
      prompt: Say one.
      llm: { provider: ollama, base_url: "http://localhost:${port}" }
    - name: two
      prompt: Say two.
      llm: { provider: lm-studio, model: local, base_url: "http://10.0.2.2:${port}" }
    - name: three
      prompt: Say three.
      llm: { provider: custom, model: local, base_url: "http://127.0.0.1:${port}", api_key_env: GATEWAY_KEY }
    - { name: merge, run: { program: cat, args: [/workspace/input.json] } }
  stages:
    - { type: fan_out, boxes: [one, two, three] }
    - { type: box, name: merge }
`;

test('three agents of servers on this host side by side, each with its own key, and a merge in their order', async () => {
  await using model = await startFakeModel(({ conversation }) => ({
    say: `said ${['one', 'two', 'three'].find((word) => conversation.includes(`Say ${word}.`)) ?? 'nothing'}`,
  }));
  await using rig = new Rig({ GATEWAY_KEY: KEY });
  const run = await rig.cli('run', rig.spec('spec.yaml', three(model.port)), '--run-id', 'three', '--json');
  expect(run.code, run.stderr).toBe(0);
  const json = JSON.parse(run.stdout) as {
    readonly outputText: string;
    readonly stages: readonly { readonly usage: { readonly costUsd?: number } }[];
  };
  const merged = JSON.parse(json.outputText) as readonly { readonly name: string; readonly output: string }[];
  expect(merged.map(({ name, output }) => [name, output])).toEqual([
    ['one', 'said one'],
    ['two', 'said two'],
    ['three', 'said three'],
  ]);
  // A server of one's own costs nothing, whatever the command line reckons.
  expect(json.stages.slice(0, 2).map(({ usage }) => usage.costUsd)).toEqual([0, 0]);
  const asked = model.requests.filter(({ path }) => path.endsWith('/messages'));
  const keyOf = (word: string): unknown => {
    const headers = asked.find(({ body }) => body.includes(`Say ${word}.`))?.headers;
    return headers?.['x-api-key'] ?? headers?.['authorization'];
  };
  expect([keyOf('one'), keyOf('two'), keyOf('three')]).toEqual(['Bearer ollama', 'Bearer lm-studio', KEY]);
  await rig.assertNothingLeft();
});

const one = (port: number): string => `api_version: v1
kind: pipeline
name: one
sandbox: { memory_mb: 768 }
pipeline:
  boxes:
    - name: think
      prompt: Answer.
      llm: { provider: custom, model: local, base_url: "http://127.0.0.1:${port}", api_key_env: GATEWAY_KEY }
`;

interface Failed {
  readonly stages: readonly {
    readonly durationMs: number;
    readonly failure: { readonly code: string; readonly message: string };
  }[];
}

test('a key that the server refuses ends the agent, though the command line would ask for minutes', async () => {
  await using denied = await startFakeModel(() => ({ status: 401, message: 'the key is not known' }));
  await using rig = new Rig({ GATEWAY_KEY: KEY });
  const run = await rig.cli('run', rig.spec('spec.yaml', one(denied.port)), '--json');
  expect(run.code, run.stderr).toBe(1);
  const [stage] = (JSON.parse(run.stdout) as Failed).stages;
  expect(stage).toMatchObject({ failure: { code: 'agent/api-error' } });
  expect(stage!.failure.message).toContain(
    'refused its key or login (401 authentication_failed); the server is http://127.0.0.1:',
  );
  expect(denied.requests.length).toBeLessThan(6);
  // Most of it is the start of the command line on an emulated CPU; its ten tries would take longer.
  expect(stage!.durationMs).toBeLessThan(180_000);
  await rig.assertNothingLeft();
});

/** It asks ten times again, with growing pauses, and takes four minutes to give up. */
const CUT_LIMIT_MS = 900_000;

test(
  'a failed call of the API fails the stage, though the command line calls it a success: answers that never end',
  { timeout: CUT_LIMIT_MS },
  async () => {
    await using cut = await startFakeModel(() => ({ cut: 'half an ans' }));
    await using rig = new Rig({ GATEWAY_KEY: KEY });
    const run = await rig.cli('run', rig.spec('spec.yaml', one(cut.port)), '--json');
    expect(run.code, run.stderr).toBe(1);
    expect((JSON.parse(run.stdout) as Failed).stages).toMatchObject([{ failure: { code: 'agent/api-error' } }]);
    expect(cut.requests.length, 'it tries again by itself, within bounds').toBeLessThan(40);
    await rig.assertNothingLeft();
  },
);
