/** The unmodified command line of Codex in a real VM, through the door, against a model server that plays a script. */
import { expect, test } from 'vitest';
import { type ModelScript, startFakeModel } from '../rig/fake-model.ts';
import { Rig } from './rig.ts';

/** Nothing else in the run's records, events or artifacts looks like it. */
const KEY = 'sk-canary-5f1c93d7a2';

const edits = (port: number): string => `api_version: v1
kind: pipeline
name: edits
llm: { provider: codex, model: gpt-5, base_url: "http://127.0.0.1:${port}/v1" }
pipeline:
  boxes:
    - name: write
      prompt: Write the file notes.txt.
      skills: [{ name: style, content: Write short sentences. }]
      outputs: [{ name: notes, guest: /workspace/notes.txt }]
    - name: read
      inputs: [{ from: notes, guest: /workspace/notes }]
      run: { program: cat, args: [/workspace/input.json, /workspace/notes/notes.txt] }
`;

const WRITES: ModelScript = ({ turn }) =>
  turn === 0
    ? { run: 'id -un > notes.txt; ls .claude/skills/style >> notes.txt; echo "$OPENAI_API_KEY"' }
    : { say: 'The notes are written.' };

test('codex edits files in its VM and answers; its key is in the requests and nowhere else', async () => {
  await using model = await startFakeModel(WRITES);
  await using rig = new Rig({ OPENAI_API_KEY: KEY });
  const run = await rig.cli('run', rig.spec('spec.yaml', edits(model.port)), '--run-id', 'edits', '--json');
  expect(run.code, run.stderr).toBe(0);
  const json = JSON.parse(run.stdout) as { readonly outputText: string; readonly stages: readonly object[] };
  expect(json.outputText).toBe('The notes are written.sandbox\nSKILL.md\n');
  expect(json.stages[0]).toMatchObject({
    id: 'write',
    isolation: 'microvm',
    usage: { inputTokens: 2_000, outputTokens: 40 },
  });
  expect(json).toMatchObject({ mockAgents: [] });
  expect(model.requests.length).toBe(2);
  for (const { headers } of model.requests) expect(headers['authorization']).toBe(`Bearer ${KEY}`);

  const log = await rig.cli('logs', 'edits', '--stage', 'write');
  expect(log.stdout).toContain('The notes are written.');
  expect(log.stdout).toContain('echo "$OPENAI_API_KEY"');
  const raw = await rig.cli('logs', 'edits', '--stage', 'write', '--raw');
  expect(raw.stdout).toContain('[redacted]');
  const status = await rig.cli('status', 'edits', '--json');
  for (const { stdout } of [run, log, raw, status]) expect(stdout).not.toContain(KEY);
  await rig.assertNothingLeft();
});
