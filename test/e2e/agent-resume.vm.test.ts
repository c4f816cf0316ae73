/** Agents whose VM is lost in the middle of their work: what they had done is not done again. */
import { expect, test } from 'vitest';
import { Rig } from './rig.ts';

const scripted = (steps: readonly object[]): string => `'${JSON.stringify(steps).replaceAll("'", "''")}'`;

const WORK = `api_version: v1
kind: pipeline
name: work
sandbox: { memory_mb: 256 }
pipeline:
  boxes:
    - name: work
      prompt: Work.
      llm: { provider: codex }
      env:
        MOCK_AGENT_SCRIPT: ${scripted([
          { run: 'echo first >> log.txt' },
          { sleep_ms: 6_000 },
          { run: 'test "$(grep -c first log.txt)" = 1' },
          { result: 'done' },
        ])}
`;

test('its VM is lost: the agent goes on in another one, with its session and its files, and repeats nothing', async () => {
  await using rig = new Rig();
  await rig.launch(rig.spec('spec.yaml', WORK), 'lost', '--mock-agents');
  const saved = await rig.eventOf('lost', 'stage-progress');
  expect(saved.folders.map(({ guestPath }) => guestPath).sort()).toEqual([
    '/home/sandbox/.codex/sessions',
    '/workspace',
  ]);
  rig.kill((await rig.keeperOf('work')).pid);
  expect((await rig.finish('lost')).outcome.state).toBe('succeeded');

  const events = (await rig.events('lost')).map(({ body }) => body);
  expect(events.filter(({ type }) => type === 'vm-lost')).toHaveLength(1);
  expect(events.flatMap((body) => (body.type === 'stage-resumed' ? [body] : []))).toMatchObject([
    { stage: 'work', from: saved.execKey },
  ]);
  const tools = events.flatMap((body) => (body.type === 'agent-tool' ? [body] : []));
  expect(tools.map(({ detail, failed }) => [detail.slice(0, 4), failed])).toEqual([
    ['echo', false],
    ['test', false],
  ]);
  const log = await rig.cli('logs', 'lost');
  expect(log.stdout).toMatch(/work goes on from what its agent had done at/);
  await rig.assertNothingLeft();
});
