/**
 * The unmodified command line of Claude in real VMs of the dev image, through the door, against a model that plays a script; and what
 * survives it: dead workers, dead VMs, dead streams.
 */
import { expect, test } from 'vitest';
import { type FakeModel, type ModelScript, startFakeModel } from '../../bench/fake-model/fake-model.ts';
import { filesWith } from '../rig/files-with.ts';
import { CHANGES_IN_TWO_VMS, loseInRepository } from '../rig/git/repository-losses.ts';
import { Rig } from './rig.ts';

const KEY = 'sk-ant-canary-77b0e1c4';

const edits = (port: number): string => `api_version: v1
kind: pipeline
name: edits
llm: { provider: claude, base_url: "http://127.0.0.1:${port}" }
pipeline:
  boxes:
    - name: write
      prompt: Write the file notes.txt and commit it.
      skills: [{ name: canary-skill-7b1, content: Write sentences of quux-9c2f words. }]
      outputs: [{ name: notes, guest: /workspace/notes.txt }]
    - name: read
      inputs: [{ from: notes, guest: /workspace/notes }]
      run: { program: cat, args: [/workspace/input.json, /workspace/notes/notes.txt] }
`;

const COMMIT = 'git init -q . && git add notes.txt && git -c user.name=a -c user.email=a@b.c commit -qm notes';

const WRITES: ModelScript = ({ turn }) =>
  turn === 0
    ? { run: `id -un > notes.txt; ${COMMIT}; git log --format=%s >> notes.txt; echo "$ANTHROPIC_API_KEY"` }
    : { say: 'The notes are written.' };

test('claude edits files in its VM, commits them and answers; its key is in the requests and nowhere else', async () => {
  await using model = await startFakeModel(WRITES);
  await using rig = new Rig({ ANTHROPIC_API_KEY: KEY });
  const run = await rig.cli('run', rig.spec('spec.yaml', edits(model.port)), '--run-id', 'edits', '--json');
  expect(run.code, run.stderr).toBe(0);
  const json = JSON.parse(run.stdout) as { readonly outputText: string; readonly stages: readonly object[] };
  expect(json.outputText).toBe('The notes are written.sandbox\nnotes\n');
  expect(json.stages[0]).toMatchObject({ id: 'write', isolation: 'microvm', usage: { turns: 2 } });
  const asked = model.requests.filter(({ path }) => path.endsWith('/messages'));
  expect(asked.length).toBeGreaterThanOrEqual(2);
  for (const { headers } of asked) expect(headers['x-api-key']).toBe(KEY);
  // It offers skills by their front matter.
  expect(asked[0]!.body).toContain('- canary-skill-7b1: Write sentences of quux-9c2f words.');
  const raw = await rig.cli('logs', 'edits', '--stage', 'write', '--raw');
  const [first = ''] = raw.stdout.split('\n');
  const begun = JSON.parse(first) as { readonly type: string; readonly subtype: string; readonly skills: unknown };
  expect(begun).toMatchObject({ type: 'system', subtype: 'init' });
  expect(begun.skills).toContain('canary-skill-7b1');
  expect(raw.stdout).toContain('[redacted]');
  const log = await rig.cli('logs', 'edits', '--stage', 'write');
  const status = await rig.cli('status', 'edits', '--json');
  for (const { stdout } of [run, log, raw, status]) expect(stdout).not.toContain(KEY);
  await rig.assertNothingLeft();
  expect(filesWith(rig.stateDir, KEY)).toEqual([]);
  expect(filesWith(rig.stateDir, 'The notes are written.').length, 'the control').toBeGreaterThan(0);
});

const SLOW: ModelScript = ({ turn }) =>
  turn === 0 ? { run: 'echo a line >> lines.txt; cat lines.txt | tr a-z A-Z' } : [15_000, { say: 'written' }];

test('its VM is lost: claude continues in a new one with its session and files', async () => {
  await using model = await startFakeModel(SLOW);
  await using rig = new Rig({ ANTHROPIC_API_KEY: KEY });
  const spec = `api_version: v1
kind: agent
name: one
llm: { provider: claude, base_url: "http://127.0.0.1:${model.port}" }
agent: { prompt: "Write the file and answer." }
`;
  await rig.launch(rig.spec('spec.yaml', spec), 'vm-dies');
  await rig.eventOf('vm-dies', 'stage-progress');
  rig.kill((await rig.keeperOf('one')).pid);
  expect((await rig.finish('vm-dies')).outcome.state).toBe('succeeded');
  const events = await rig.events('vm-dies');
  expect(events.filter(({ body }) => body.type === 'stage-resumed')).toHaveLength(1);
  expect(events.filter(({ body }) => body.type === 'agent-tool')).toHaveLength(1);
  const asked = model.requests.filter(({ path }) => path.endsWith('/messages')).at(-1)!.body;
  expect(asked, 'the first prompt').toContain('Write the file and answer.');
  expect(asked, 'the result of the call in the lost VM').toContain('A LINE');
  expect(asked, 'what happened').toContain('The machine that you worked on was lost');
  await rig.assertNothingLeft();
});

const one = (port: number): string => `api_version: v1
kind: agent
name: one
llm: { provider: claude, base_url: "http://127.0.0.1:${port}" }
sandbox: { memory_mb: 768 }
agent: { prompt: "Write the file and answer." }
`;

const asksOf = (model: FakeModel): readonly string[] =>
  model.requests.filter(({ path }) => path.endsWith('/messages')).map(({ body }) => body);

test('its worker dies: the next one reads on, the same command answers, and the model is asked nothing twice', async () => {
  await using model = await startFakeModel(SLOW);
  await using rig = new Rig({ ANTHROPIC_API_KEY: KEY });
  await rig.launch(rig.spec('spec.yaml', one(model.port)), 'worker-dies');
  await rig.eventOf('worker-dies', 'agent-tool');
  rig.kill((await rig.liveStack()).workerPid);
  expect((await rig.finish('worker-dies')).outcome.state).toBe('succeeded');
  expect((await rig.eventOf('worker-dies', 'stage-reattached')).stage).toBe('one');
  expect(asksOf(model)).toHaveLength(2);
  const events = await rig.events('worker-dies');
  expect(events.filter(({ body }) => body.type === 'stage-started')).toHaveLength(1);
  expect(events.filter(({ body }) => body.type === 'agent-tool')).toHaveLength(1);
  expect(events.flatMap(({ body }) => (body.type === 'agent-text' ? [body.text] : []))).toEqual(['written']);
  await rig.assertNothingLeft();
});

test('a stream that is cut once is asked for again by the command line itself', async () => {
  let asked = 0;
  await using model = await startFakeModel(() => ((asked += 1) === 1 ? { cut: 'half an ans' } : { say: 'whole' }));
  await using rig = new Rig({ ANTHROPIC_API_KEY: KEY });
  const run = await rig.cli('run', rig.spec('spec.yaml', one(model.port)), '--json');
  expect(run.code, run.stderr).toBe(0);
  expect(JSON.parse(run.stdout)).toMatchObject({ outputText: 'whole' });
  await rig.assertNothingLeft();
});

test('its VM is lost in a git repository: commits, changes and skills are in the next one, and the patch has all', async () => {
  await using model = await startFakeModel(CHANGES_IN_TWO_VMS);
  await using rig = new Rig({ ANTHROPIC_API_KEY: KEY });
  await loseInRepository(rig, model, `{ provider: claude, base_url: "http://127.0.0.1:${model.port}" }`);
});
