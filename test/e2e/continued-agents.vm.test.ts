/** `retry --continue` in real VMs: what a killed worker leaves of a continued attempt, items of a part, and step machines. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { RunEvent } from '../../domain/run/event.ts';
import { until } from './rig.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

const scripted = (steps: readonly object[]): string => `'${JSON.stringify(steps).replaceAll("'", "''")}'`;

const of = <T extends RunEvent['body']['type']>(events: readonly RunEvent[], type: T) =>
  events.flatMap(({ body }) => (body.type === type ? [body as Extract<RunEvent['body'], { type: T }>] : []));

const toolsOf = (events: readonly RunEvent[]): readonly (readonly [string, boolean])[] =>
  of(events, 'agent-tool').map(({ detail, failed }) => [detail.split(' ')[0]!, failed]);

const WORK = `api_version: v1
kind: pipeline
name: work
sandbox: { memory_mb: 256 }
pipeline:
  boxes:
    - name: work
      prompt: Work.
      llm: { provider: codex }
      timeout_secs: 15
      env:
        MOCK_AGENT_SCRIPT: ${scripted([
          { run: 'echo first >> log.txt' },
          // Only the first attempt reaches its time limit in this step.
          {
            run: 'test -e tried || { touch tried; sleep 60; }; test "$(cat log.txt)" = first && echo second >> log.txt',
          },
          // The test makes this file once the next worker has attached.
          {
            run: 'while ! test -e attached; do sleep 0.1; done; grep -c second log.txt | grep -qx 1 && test "$(wc -l < log.txt)" = 2',
          },
          { result: 'done' },
        ])}
`;

test.each([
  ['right after its VM is there', 'vm-ready', 'booted'],
  ['once its agent has called a tool', 'agent-tool', 'called'],
] as const)(
  'the worker of a continued attempt dies %s: the next one attaches, and nothing is done twice',
  async (_when, event, again) => {
    const rig = theRig();
    const work = 'work';
    // Both tests continue from the same run, unless the rig is a new one.
    if (!(await rig.hasEvent(work, 'run-finished')))
      await rig.launch(rig.spec('spec.yaml', WORK), work, '--mock-agents');
    expect((await rig.finish(work)).outcome).toMatchObject({ state: 'failed', failure: { code: 'stage/timeout' } });

    const retried = await rig.cli('retry', work, '--continue', '--agent-timeout', '5m', '--run-id', again, '-d');
    expect(retried.code, retried.stderr).toBe(0);
    await rig.eventOf(again, event);
    const { workerPid } = await rig.liveStack();
    rig.kill(workerPid);
    await rig.eventOf(again, 'stage-reattached');
    // Its workspace exists only from this event on, because a VM that has just booted has no workspace.
    await rig.eventOf(again, 'agent-tool');
    const entered = await rig.cli('exec', again, '--', 'touch', 'attached');
    expect(entered.code, entered.stderr).toBe(0);
    expect((await rig.finish(again)).outcome).toMatchObject({ state: 'succeeded' });
    expect((await rig.liveStack()).workerPid).not.toBe(workerPid);

    const events = await rig.events(again);
    expect(of(events, 'vm-lost')).toEqual([]);
    expect(of(events, 'vm-ready')).toHaveLength(1);
    expect(of(events, 'stage-started').map(({ execKey }) => execKey)).toEqual(['work/0/1']);
    expect(of(events, 'stage-resumed')).toMatchObject([{ execKey: 'work/0/1', from: 'work/0/1', runId: work }]);
    expect(toolsOf(events)).toEqual([
      ['test', false],
      ['while', false],
    ]);
    expect(of(events, 'stage-reattached').map(({ stage }) => stage)).toEqual(['work']);
  },
);

const SKILL = `import { skill, terminal, z } from 'voidbox/skill-kit';
export default skill({ name: 'ask', version: '1.0.0', description: 'A test.', entry: 'ask' })
  .step('ask', { prompt: () => 'Answer.', response: z.object({ answer: z.string() }), next: terminal })
  .build();
`;

const MANY = `api_version: v1
kind: pipeline
name: many
sandbox: { memory_mb: 192 }
parts:
  one:
    pipeline:
      boxes:
        - name: work
          prompt: Work.
          llm: { provider: codex }
          timeout_secs: 15
          env:
            MOCK_AGENT_SCRIPT: ${scripted([
              { run: 'cat /workspace/input.json >> log.txt' },
              { run: 'grep -q one /workspace/input.json || test -e again || { touch again; sleep 60; }' },
              { run: 'cmp /workspace/input.json log.txt' },
              { result: 'done' },
            ])}
pipeline:
  boxes:
    - { name: each, uses: one, for_each: [one, two], continue_on_error: true }
    - name: machine
      sandbox: { memory_mb: 512 }
      skill: { use: ./skills/ask }
      timeout_secs: 15
      env: { MOCK_AGENT_SCRIPT: ${scripted([{ sleep_ms: 60_000 }])} }
  stages:
    - { type: fan_out, boxes: [each, machine] }
`;

test('an item of a part continues automatically, and a step machine is refused by name until it is to start from its beginning', async () => {
  const rig = theRig();
  mkdirSync(join(rig.specDir, 'skills/ask'), { recursive: true });
  writeFileSync(join(rig.specDir, 'skills/ask/skill.ts'), SKILL);
  await rig.launch(rig.spec('spec.yaml', MANY), 'many', '--mock-agents');
  expect((await rig.finish('many')).outcome.state).toBe('failed');

  const refused = await rig.cli('retry', 'many', '--continue', '--json');
  expect(refused.code).toBe(2);
  expect(JSON.parse(refused.stderr)).toMatchObject({
    error: {
      code: 'origin/no-save',
      message: expect.stringContaining(
        'the agent of stage machine cannot continue: the work of step machines is not saved',
      ) as string,
    },
  });
  const options = ['--continue', '--fresh', 'machine', '--agent-timeout', '5m'];
  const retried = await rig.cli('retry', 'many', ...options, '--run-id', 'again', '-d');
  expect(retried.code, retried.stderr).toBe(0);
  expect(retried.stderr).toMatch(/^ {2}continues: each\[1\]\.work, with its session of /m);
  await until('the end of all items', 240_000, async () =>
    of(await rig.events('again'), 'stage-finished').some(({ execKey }) => execKey === 'each/0/1'),
  );
  // A step machine starts from its beginning, and would reach its time limit again.
  await rig.eventOf('again', 'skill-step', 120_000, 'machine');
  expect((await rig.cli('cancel', 'again')).code).toBe(0);
  await rig.finish('again');

  const events = await rig.events('again');
  expect(of(events, 'stage-resumed')).toMatchObject([
    { execKey: expect.stringMatching(/^each\.work\/.*1/) as string, runId: 'many' },
  ]);
  const finished = of(events, 'stage-finished').filter(({ stage }) => stage === 'each.work');
  expect(finished.map(({ result }) => result.outcome)).toEqual(['succeeded', 'succeeded']);
});
