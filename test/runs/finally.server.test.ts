/** Stages that run whatever happens, through a real Temporal server and the real activities; only the VM is a mock. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { awaitOutcome, cancelRunOrRest, startRun } from '../../client/runs/runs.ts';
import type { RunEventBody, RunOutcome } from '../../domain/run/event.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { useTestRuns } from '../rig/servers/test-runs.ts';

/** Ends the commands `until KEY`, by their keys. */
const ends = new Map<string, () => void>();
const backend = createMockBackend({
  programs: {
    fail: async () => 3,
    /** Until it is killed, or told to end. */
    until: ({ args: [key = ''], killed }) =>
      new Promise((resolve) => {
        killed.addEventListener('abort', () => resolve(137), { once: true });
        ends.set(key, () => resolve(0));
      }),
  },
});
const runs = useTestRuns(backend, {
  recorded: [
    'finally',
    'finally-failed',
    'finally-cancelled',
    'finally-cancelled-again',
    'finally-timeout',
    'finally-grace',
  ],
});

async function start(runId: string, steps: string, more = ''): Promise<void> {
  const spec = `kind: workflow\nname: ${runId}\n${more}sandbox: { mode: mock, isolation: none }\nworkflow:\n  steps:\n${steps}`;
  await startRun(runs.client, { runId, request: { spec }, summary: `test ${runId}` });
}

async function run(runId: string, steps: string, more = ''): Promise<RunOutcome> {
  await start(runId, steps, more);
  return await awaitOutcome(runs.client, runId);
}

async function untilStarted(runId: string, stage: string): Promise<void> {
  const hasStarted = ({ body }: { readonly body: RunEventBody }): boolean =>
    body.type === 'stage-started' && body.stage === stage;
  while (!(await runs.stack.eventsOf(runId)).some(hasStarted)) await sleep(20);
}

/** In the order of their ends. */
async function endsOf(runId: string): Promise<readonly string[]> {
  return (await runs.stack.eventsOf(runId)).flatMap(({ body }) => {
    if (body.type === 'stage-finished') return [`${body.result.stage} ${body.result.outcome}`];
    return body.type === 'stage-skipped' || body.type === 'stage-passed' ? [`${body.stage} ${body.type.slice(6)}`] : [];
  });
}

test('`finally` stages run after all others, and their conditions read how those ended', async () => {
  const outcome = await run(
    'finally',
    `    - { name: work, run: { program: echo, args: [made] } }
    - { name: more, depends_on: [work], run: { program: echo, args: [more] } }
    - { name: alarm, finally: true, when: 'stages.work.state != "succeeded"', run: { program: echo } }
    - { name: clean, finally: true, run: { program: echo } }\n`,
  );
  expect(outcome.state).toBe('succeeded');
  expect(await runs.stack.artifact(outcome.output!)).toBe('more\n');
  const order = await endsOf('finally');
  expect(order.slice(0, 2)).toEqual(['work succeeded', 'more succeeded']);
  expect(order.slice(2).sort()).toEqual(['alarm passed', 'clean succeeded']);
});

test('`finally` stages run after a failure, which stays the reason of the end', async () => {
  const outcome = await run(
    'finally-failed',
    `    - { name: work, run: { program: fail }, outputs: [{ name: made }] }
    - { name: more, depends_on: [work], run: { program: echo } }
    - { name: alarm, finally: true, when: 'stages.more.state == "skipped"', inputs: [{ from: made, optional: true }], run: { program: echo } }
    - { name: clean, finally: true, run: { program: fail } }\n`,
  );
  expect(outcome).toMatchObject({ state: 'failed', failedStage: 'work' });
  const ended = [...(await endsOf('finally-failed'))].sort();
  expect(ended).toEqual(['alarm succeeded', 'clean failed', 'more skipped', 'work failed']);
});

test('a mocked `finally` stage returns its mock, after all other stages', async () => {
  const spec = `kind: workflow
name: finally-mocked
sandbox: { mode: mock, isolation: none }
workflow:
  steps:
    - { name: work, run: { program: echo, args: [made] } }
    - { name: clean, finally: true, run: { program: fail }, mock: { output: cleaned } }
    - { name: tell, finally: true, run: { program: echo }, mock: { exit_code: 4 } }
`;
  const request = { spec, mock: 'all' } as const;
  await startRun(runs.client, { runId: 'finally-mocked', request, summary: 'test' });
  const outcome = await awaitOutcome(runs.client, 'finally-mocked');
  expect(outcome).toMatchObject({ state: 'failed', failedStage: 'tell' });
  const order = await endsOf('finally-mocked');
  expect(order[0]).toBe('work succeeded');
  expect(order.slice(1).sort()).toEqual(['clean succeeded', 'tell failed']);
});

test('a cancel ends the other stages and lets `finally` stages run', async () => {
  const runId = 'finally-cancelled';
  await start(
    runId,
    '    - { name: work, run: { program: until, args: [a] } }\n    - { name: clean, finally: true, run: { program: until, args: [cleaned] } }\n',
  );
  await untilStarted(runId, 'work');
  expect(await cancelRunOrRest(runs.client, runId)).toBe(true);
  await untilStarted(runId, 'clean');
  ends.get('cleaned')!();
  expect((await awaitOutcome(runs.client, runId)).state).toBe('cancelled');
  expect((await endsOf(runId)).at(-1)).toBe('clean succeeded');
  expect(backend.alive()).toEqual([]);
});

test('a second cancel ends `finally` stages too, and a third finds a run that has ended', async () => {
  const runId = 'finally-cancelled-again';
  await start(
    runId,
    '    - { name: work, run: { program: until, args: [a] } }\n    - { name: clean, finally: true, run: { program: until, args: [b] } }\n',
  );
  await untilStarted(runId, 'work');
  await cancelRunOrRest(runs.client, runId);
  await untilStarted(runId, 'clean');
  expect(await cancelRunOrRest(runs.client, runId)).toBe(true);
  expect((await awaitOutcome(runs.client, runId)).state).toBe('cancelled');
  expect(await endsOf(runId)).toContain('clean cancelled');
  expect(await cancelRunOrRest(runs.client, runId)).toBe(false);
  expect(backend.alive()).toEqual([]);
});

test('`finally` stages run after the time of the run is over, because that limit is not theirs', async () => {
  const runId = 'finally-timeout';
  await start(
    runId,
    '    - { name: work, run: { program: until, args: [a] } }\n    - { name: clean, finally: true, run: { program: until, args: [late] } }\n',
    'timeout_secs: 1\n',
  );
  await untilStarted(runId, 'clean');
  await sleep(1_500);
  ends.get('late')!();
  expect(await awaitOutcome(runs.client, runId)).toMatchObject({
    state: 'failed',
    failedStage: null,
    failure: { code: 'run/timeout' },
  });
  expect((await endsOf(runId)).at(-1)).toBe('clean succeeded');
});

test('`finally` stages have a time of their own, after which the run fails', async () => {
  const outcome = await run(
    'finally-grace',
    '    - { name: work, run: { program: echo } }\n    - { name: clean, finally: true, run: { program: until, args: [c] } }\n',
    'grace_secs: 1\n',
  );
  expect(outcome).toMatchObject({
    state: 'failed',
    failedStage: 'clean',
    failure: { code: 'run/grace', message: expect.stringContaining('longer than their 1.0 s (`grace_secs`)') },
  });
  expect(await endsOf('finally-grace')).toContain('clean cancelled');
  expect(backend.alive()).toEqual([]);
});
