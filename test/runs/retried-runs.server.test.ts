/** Runs that take outputs of earlier ones, through a real Temporal server and the real activities; only the VM is a mock. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { answerStage } from '../../client/runs/answers.ts';
import { awaitOutcome, startRun } from '../../client/runs/runs.ts';
import type { RunRequest } from '../../activities/contract.ts';
import type { RunEventBody, RunOutcome } from '../../domain/run/event.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import type { MockProgram } from '../../sandbox/mock/programs.ts';
import { useTestRuns } from '../rig/servers/test-runs.ts';

/** How often each command was started, by its first argument. */
const starts = new Map<string, number>();
/** Whether the next `work KEY` fails. */
let isBroken = true;
let gateIsOpen = true;

function noted({ args }: Parameters<MockProgram>[0]): string {
  const [key = ''] = args;
  starts.set(key, (starts.get(key) ?? 0) + 1);
  return key;
}

const programs: Record<string, MockProgram> = {
  work: async (command) => {
    const key = noted(command);
    await command.write('stdout', `${key} is done\n`);
    return 0;
  },
  other: async ({ write }) => {
    await write('stdout', 'another\n');
    return 0;
  },
  /** Fails while the world is broken. */
  broken: async (command) => {
    noted(command);
    if (isBroken) {
      await command.write('stderr', 'the world is broken\n');
      return 4;
    }
    while (!gateIsOpen) await sleep(20, undefined, { signal: command.killed });
    await command.write('stdout', 'whole\n');
    return 0;
  },
};

const runs = useTestRuns(createMockBackend({ programs }), {
  recorded: ['origin-retried', 'origin-all-given', 'origin-forked', 'origin-retried-worker-change', 'origin-unknown'],
});
const { stopWorker } = runs;

/** `build`, then the approval `ask`, then `deploy` that may fail, then `tell`; each in a VM of its own, `side` beside them. */
function spec(key: string, last = 'cat'): string {
  return `
kind: workflow
name: shop
sandbox: { mode: mock, isolation: none }
workflow:
  output_step: tell
  steps:
    - { name: build, sandbox: {}, run: { program: work, args: [${key}-build] } }
    - { name: side, sandbox: {}, run: { program: work, args: [${key}-side] } }
    - { name: ask, depends_on: [build], approval: { message: "Deploy?" } }
    - { name: deploy, depends_on: [ask], sandbox: {}, run: { program: broken, args: [${key}-deploy] } }
    - { name: tell, depends_on: [deploy], sandbox: {}, run: { program: ${last}, stdin_from: build } }
`;
}

async function run(runId: string, request: RunRequest): Promise<RunOutcome> {
  await startRun(runs.client, { runId, request, summary: runId });
  return awaitOutcome(runs.client, runId);
}

async function bodiesOf(runId: string): Promise<readonly RunEventBody[]> {
  return (await runs.stack.eventsOf(runId)).map(({ body }) => body);
}

/** Lists for each stage whether it was given, asked or started, in the order of the log. */
async function storyOf(runId: string): Promise<readonly string[]> {
  return (await bodiesOf(runId)).flatMap((body) => {
    if (body.type === 'stage-given') return [`${body.stage} of ${body.runId}`];
    if (body.type === 'stage-asking' || body.type === 'stage-started') return [body.execKey];
    return [];
  });
}

/** A run of the spec that fails at `deploy`. */
async function failed(key: string): Promise<void> {
  isBroken = true;
  await startRun(runs.client, { runId: key, request: { spec: spec(key) }, summary: key });
  while (!(await bodiesOf(key)).some(({ type }) => type === 'stage-asking')) await sleep(20);
  await answerStage(runs.client, key, { stage: 'ask', decision: 'approve', by: 'ada' });
  expect(await awaitOutcome(runs.client, key)).toMatchObject({ state: 'failed', failedStage: 'deploy' });
}

const retryOf = (runId: string, from: string | null = null): RunRequest => ({ origin: { runId, kind: 'retry', from } });

test('a retry runs failed stages and the stages after them; results of the others, answers included, are taken over', async () => {
  await failed('first');
  isBroken = false;
  const outcome = await run('origin-retried', retryOf('first'));
  expect(outcome.state).toBe('succeeded');
  expect(await runs.stack.artifact(outcome.output!)).toBe('first-build is done\n');
  expect((await storyOf('origin-retried')).toSorted()).toEqual([
    'ask of first',
    'build of first',
    'deploy/0/1',
    'side of first',
    'tell/0/1',
  ]);
  expect(Object.fromEntries(starts)).toMatchObject({ 'first-build': 1, 'first-side': 1, 'first-deploy': 2 });
  // The manifest of the new run names its whole result.
  expect(await runs.stack.deps.records.get('origin-retried', 'manifest')).toMatchObject({
    refs: expect.arrayContaining([expect.objectContaining({ sha256: outcome.output!.sha256 })]) as unknown,
  });
});

test('a run from a stage asks and runs again from there', async () => {
  await failed('again');
  isBroken = false;
  const request = retryOf('again', 'ask');
  await startRun(runs.client, { runId: 'from-ask', request, summary: 'from-ask' });
  while (!(await bodiesOf('from-ask')).some(({ type }) => type === 'stage-asking')) await sleep(20);
  await answerStage(runs.client, 'from-ask', { stage: 'ask', decision: 'approve' });
  expect((await awaitOutcome(runs.client, 'from-ask')).state).toBe('succeeded');
  expect(await storyOf('from-ask')).toEqual(['build of again', 'side of again', 'ask/0/1', 'deploy/0/1', 'tell/0/1']);
});

test('a run that takes over all results ends at once, with the result', async () => {
  const outcome = await run('origin-all-given', retryOf('origin-retried'));
  expect(outcome.state).toBe('succeeded');
  expect(await runs.stack.artifact(outcome.output!)).toBe('first-build is done\n');
  expect(await storyOf('origin-all-given')).toEqual([
    'build of first',
    'side of first',
    'ask of first',
    'deploy of origin-retried',
    'tell of origin-retried',
  ]);
});

test('a fork runs the stages of another spec that follow the equal stages', async () => {
  const fork = spec('first', 'other');
  const origin = { runId: 'origin-retried', kind: 'fork', from: 'tell' } as const;
  expect((await run('origin-forked', { spec: fork, origin })).state).toBe('succeeded');
  expect((await storyOf('origin-forked')).at(-1)).toBe('tell/0/1');
  expect(await storyOf('origin-forked')).toHaveLength(5);
  const early = { ...origin, from: 'deploy' };
  const refused = await run('fork-differs', { spec: spec('other'), origin: early });
  expect(refused.failure).toMatchObject({
    code: 'origin/differs',
    message: expect.stringContaining('stage ') as unknown,
  });
});

test('a worker that is replaced in the middle of a retry loses nothing, and runs nothing twice', async () => {
  await failed('moved');
  isBroken = false;
  gateIsOpen = false;
  const runId = 'origin-retried-worker-change';
  await startRun(runs.client, { runId, request: retryOf('moved'), summary: runId });
  while (!(await storyOf(runId)).includes('deploy/0/1')) await sleep(20);
  await stopWorker();
  await runs.startWorker();
  gateIsOpen = true;
  expect((await awaitOutcome(runs.client, runId)).state).toBe('succeeded');
  expect((await storyOf(runId)).toSorted()).toEqual([
    'ask of moved',
    'build of moved',
    'deploy/0/1',
    'side of moved',
    'tell/0/1',
  ]);
  expect(starts.get('moved-build')).toBe(1);
});

test('a retry that is reset after its end returns the recorded outcome, and runs nothing again', async () => {
  const runId = 'origin-retried';
  const before = starts.get('first-deploy');
  const { client } = runs.stack.runs;
  const history = await client.workflow.getHandle(runId).fetchHistory();
  const completed = history.events!.find(({ workflowTaskCompletedEventAttributes: end }) => end);
  await client.workflowService.resetWorkflowExecution({
    namespace: 'default',
    workflowExecution: { workflowId: runId },
    reason: 'test',
    workflowTaskFinishEventId: completed!.eventId!,
    requestId: `reset-${Date.now()}`,
  });
  expect((await awaitOutcome(client, runId)).state).toBe('succeeded');
  expect(starts.get('first-deploy')).toBe(before);
});

test('a run that this host does not know cannot be retried', async () => {
  const outcome = await run('origin-unknown', retryOf('nobody'));
  expect(outcome.failure).toMatchObject({ code: 'origin/unknown' });
});

test('people see where a run comes from', async () => {
  const handle = runs.client.workflow.getHandle('origin-forked');
  expect(await handle.query('view')).toMatchObject({
    origin: { runId: 'origin-retried', kind: 'fork', from: 'tell' },
    stages: expect.arrayContaining([
      expect.objectContaining({ id: 'build', state: 'succeeded', attempt: 0 }),
    ]) as unknown,
  });
  expect(JSON.stringify(await handle.query('__temporal_workflow_metadata'))).toContain('A fork of `origin-retried`');
});
