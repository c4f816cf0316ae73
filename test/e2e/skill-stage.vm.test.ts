/**
 * Stages that run a step machine, with the mock agent in real VMs: their questions, their events, and what survives.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { RunEvent } from '../../domain/run/event.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { resolveHostPieces } from '../../setup/resolve.ts';
import { type Rig, temporal, until } from './rig.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

const scripted = (script: object): string => `'${JSON.stringify(script).replaceAll("'", "''")}'`;

const HEAD = `import { skill, terminal, z } from 'voidbox/skill-kit';\n`;

function writeSkill(rig: Rig, name: string, steps: string): void {
  mkdirSync(join(rig.specDir, 'skills', name), { recursive: true });
  writeFileSync(
    join(rig.specDir, 'skills', name, 'skill.ts'),
    `${HEAD}export default skill({ name: '${name}', version: '1.0.0', description: 'A test.', ${steps}.build();\n`,
  );
}

const TRIAGE = `entry: 'look', params: z.object({ place: z.string() }) })
  .step('look', {
    prompt: ({ params }) => 'Look at ' + params.place + '.',
    response: z.object({ found: z.string(), severity: z.enum(['low', 'high']) }),
    next: 'decide',
  })
  .step('decide', {
    prompt: ({ store }) => 'It is ' + store.steps.look.severity + '. Decide.',
    response: z.object({ fix: z.boolean() }),
    save: ({ response, store, params }) => ({
      step: { fix: response.fix, severity: store.steps.look.severity, place: params.place },
    }),
    next: terminal,
  })`;

const SPEC = `api_version: v1
kind: workflow
name: triage
sandbox: { memory_mb: 256 }
workflow:
  steps:
    - { name: where, run: { program: echo, args: [cellar] } }
    - name: triage
      depends_on: [where]
      skill:
        use: ./skills/triage
        params: { place: "the \${{ stages.where.output.trim() }}" }
      output_schema: { type: object, required: [fix, severity, place] }
      env:
        MOCK_AGENT_SCRIPT: ${scripted({ steps: [{ say: 'first' }, { sleep_ms: 8_000 }], resumed: [{ say: 'second' }] })}
    - { name: last, depends_on: [triage], run: { program: echo, args: ["\${{ stages.triage.json.place }}"] } }
`;

const of = <T extends RunEvent['body']['type']>(events: readonly RunEvent[], type: T) =>
  events.flatMap(({ body }) => (body.type === type ? [body as Extract<RunEvent['body'], { type: T }>] : []));

test('a skill of the spec runs to its result though its worker dies in a turn: each prompt is answered once', async () => {
  const rig = theRig();
  writeSkill(rig, 'triage', TRIAGE);
  await rig.launch(rig.spec('spec.yaml', SPEC), 'triage', '--mock-agents');
  await rig.eventOf('triage', 'agent-text');
  rig.kill((await rig.liveStack()).workerPid);
  expect((await rig.finish('triage')).outcome.failure).toBe(null);

  const events = await rig.events('triage');
  expect(of(events, 'skill-step').map(({ step, command, refusal }) => [step, command, refusal])).toEqual([
    ['look', 1, null],
    ['decide', 2, null],
  ]);
  expect(of(events, 'stage-reattached').map(({ stage }) => stage)).toEqual(['triage']);
  const told = of(events, 'agent-text').map(({ text }) => text);
  expect(told.filter((text) => text === 'first' || text === 'second')).toEqual(['first', 'second']);
  const result = of(events, 'stage-finished').find(({ stage }) => stage === 'triage')!.result;
  expect(result).toMatchObject({ outcome: 'succeeded', agent: { provider: 'claude', played: true } });
  expect(result).toMatchObject({ usage: { costUsd: expect.closeTo(0.006), turns: expect.any(Number) } });

  expect((await rig.cli('result', 'triage')).stdout.trim()).toBe('the cellar');
  const log = await rig.cli('logs', 'triage', '--stage', 'triage');
  expect(log.stdout).toMatch(/◆ step look \(turn 1\)[\s\S]*first[\s\S]*◆ step decide \(turn 2\)[\s\S]*second/);
  expect((await rig.cli('artifacts', 'triage', 'get', 'triage.transcript.jsonl')).code).toBe(0);
  const transcript = readFileSync(join(rig.specDir, 'triage.transcript.jsonl'), 'utf8');
  expect(transcript.match(/"type":"result"/g)).toHaveLength(2);
  const { session } = of(events, 'skill-step')[0]!;
  const history = await rig.cli('session', 'history', session, '--json');
  expect(
    history.stdout
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { readonly step: string }).step),
  ).toEqual(['look', 'decide']);
});

test('a run that is terminated takes its session with it', async () => {
  const rig = theRig();
  writeSkill(rig, 'triage', TRIAGE);
  await rig.launch(rig.spec('spec.yaml', SPEC), 'cut', '--mock-agents');
  const { session } = await rig.eventOf('cut', 'skill-step');
  const listed = async (): Promise<string> => (await rig.cli('session', 'list', '--state', 'open', '--json')).stdout;
  expect(await listed()).toContain(session);
  const { temporalCli } = await resolveHostPieces(readEnvironment(), { install: false });
  await temporal(temporalCli, rig, 'workflow', 'terminate', '--workflow-id', 'cut', '--reason', 'by hand');
  await until('the session to end', 60_000, async () => !(await listed()).includes(session));
});
