/** Stages that ask people, through a real Temporal server and the real activities; only the VM is a mock. */
import { execFile } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { answerStage, listAskingStages } from '../../client/runs/answers.ts';
import { proveAnswer } from '../../app/answers/prove-answer.ts';
import type { Machine } from '../../app/machine.ts';
import { awaitOutcome, cancelRun, startRun } from '../../client/runs/runs.ts';
import type { RunEvent, RunEventBody, RunOutcome } from '../../domain/run/event.ts';
import { openQuestionsOf } from '../../store/open-questions.ts';
import { project } from '../../store/projection.ts';
import { emptyView } from '../../store/run-view.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { recordHistoriesOf } from '../rig/runs/record-histories.ts';
import { temporalCliForTests } from '../rig/servers/temporal-cli.ts';
import { startTestStack, type TestStack } from '../rig/servers/test-worker.ts';
import type { AnswerRequest } from '../../workflows/run/answer-request.ts';
import type { RunningWorkers } from '../../workers/workers.ts';

/** Ends the command `until` of each run. */
const ends = new Map<string, () => void>();
const backend = createMockBackend({
  programs: {
    until: ({ args: [key = ''] }) => new Promise((resolve) => ends.set(key, () => resolve(0))),
  },
});
let temporalCli: string;
let stack: TestStack;
let worker: RunningWorkers;

beforeAll(async () => {
  temporalCli = await temporalCliForTests();
  stack = await startTestStack(backend, temporalCli, () => undefined);
  worker = await stack.startWorker();
});

afterAll(async () => {
  await recordHistoriesOf(stack.runs.client, [
    'approved',
    'rejected',
    'rejected-with-fields',
    'proven',
    'proven-rejected',
    'approved-at-deadline',
    'failed-at-deadline',
    'asking-cancelled',
    'asking-worker-change',
  ]);
  await stopWorker();
  await stack?.stop();
});

async function stopWorker(): Promise<void> {
  worker?.shutdown();
  await worker?.ended;
  await worker?.close();
}

/** `build`, then the approval `release`, then `publish`, which prints the answer. */
function spec(name: string, approval: string): string {
  return `
kind: workflow
name: ${name}
sandbox: { mode: mock, isolation: none }
workflow:
  output_step: publish
  steps:
    - { name: build, run: { program: echo, args: [built] } }
    - { name: release, depends_on: [build], approval: ${approval} }
    - { name: publish, run: { program: cat, stdin_from: release } }
`;
}

const start = (runId: string, approval: string): Promise<void> =>
  startRun(stack.runs.client, { runId, request: { spec: spec(runId, approval) }, summary: `test ${runId}` });

const outcomeOf = (runId: string): Promise<RunOutcome> => awaitOutcome(stack.runs.client, runId);

const answer = (runId: string, request: Partial<AnswerRequest>) =>
  answerStage(stack.runs.client, runId, { stage: 'release', decision: 'approve', by: 'ada', ...request });

function bodyOf<T extends RunEventBody['type']>(
  events: readonly RunEvent[],
  type: T,
): Extract<RunEventBody, { type: T }> | undefined {
  return events.map(({ body }) => body).find((body): body is Extract<RunEventBody, { type: T }> => body.type === type);
}

async function untilAsked(runId: string): Promise<void> {
  while (bodyOf(await stack.eventsOf(runId), 'stage-asking') === undefined) await sleep(20);
}

const refusedWith = (message: unknown) => expect.objectContaining({ name: 'AnswerError', kind: 'refused', message });

test('an approval is asked, answered by its fields, and its answer is the output that others take', async () => {
  await start(
    'approved',
    '{ message: "Release?", by: [managers], timeout: 1h, fields: [{ name: count, type: number }, { name: note, required: false }] }',
  );
  await untilAsked('approved');
  expect(await listAskingStages(stack.runs.client, 'approved')).toEqual(['release']);
  const { question } = bodyOf(await stack.eventsOf('approved'), 'stage-asking')!;
  expect(question).toMatchObject({ message: 'Release?', by: ['managers'], onTimeout: 'fail' });
  expect(question!.deadlineAtMs! - Date.now()).toBeGreaterThan(50 * 60_000);
  await expect(answer('approved', {})).rejects.toEqual(refusedWith(expect.stringContaining('needs the field count')));
  await expect(answer('approved', { fields: { count: 'many' } })).rejects.toEqual(
    refusedWith(expect.stringContaining('the field count must be a number, got "many"')),
  );
  const receipt = await answer('approved', { fields: { count: '3' }, comment: 'go\u001b[2J' });
  expect(receipt).toMatchObject({ stage: 'release', attempt: 1, decision: 'approve', by: 'ada' });
  const outcome = await outcomeOf('approved');
  expect(outcome.state).toBe('succeeded');
  expect(JSON.parse(await stack.artifact(outcome.output!))).toEqual({
    approved: true,
    by: 'ada',
    verified: false,
    comment: receipt.comment,
    fields: { count: 3 },
    at: receipt.at,
    timedOut: false,
  });
  expect(receipt.comment).not.toContain('\u001b');
  const { atMs } = (await stack.eventsOf('approved')).find(({ body }) => body.type === 'stage-answered')!;
  expect(new Date(atMs).toISOString()).toBe(receipt.at);
  expect(bodyOf(await stack.eventsOf('approved'), 'stage-answered')).toMatchObject({
    outcome: 'succeeded',
    by: 'ada',
    output: { sha256: outcome.output!.sha256 },
  });
  await expect(answer('approved', {})).rejects.toMatchObject({ kind: 'ended' });
});

test('a message says what a stage printed, when it is asked', async () => {
  await start('asked-of-output', "{ message: 'Release ${{ stages.build.output.trim() }}?' }");
  await untilAsked('asked-of-output');
  const { question } = bodyOf(await stack.eventsOf('asked-of-output'), 'stage-asking')!;
  expect(question?.message).toBe('Release built?');
  await answer('asked-of-output', {});
  expect((await outcomeOf('asked-of-output')).state).toBe('succeeded');
});

test('a stage whose message cannot be made fails, and asks no question', async () => {
  await start('asked-of-nothing', "{ message: 'Release ${{ stages.build.json.tag }}?', timeout: 1d }");
  const outcome = await outcomeOf('asked-of-nothing');
  expect(outcome).toMatchObject({
    state: 'failed',
    failedStage: 'release',
    failure: { code: 'stage/expression', message: expect.stringMatching(/^stage release cannot ask: .*not JSON/) },
  });
  expect(bodyOf(await stack.eventsOf('asked-of-nothing'), 'stage-asking')).toBeUndefined();
});

test('the same answer again gets the same receipt, another answer is refused with the recorded one', async () => {
  const approval = '{ message: "Release?" }';
  await startRun(stack.runs.client, {
    runId: 'twice',
    request: {
      spec: `${spec('twice', approval)}    - { name: last, depends_on: [publish], approval: { message: "Done?" } }\n`,
    },
    summary: 'twice',
  });
  await untilAsked('twice');
  const [one, other] = await Promise.all([answer('twice', {}), answer('twice', {})]);
  // The workflow knows at once; its log follows with the next activity.
  expect(await listAskingStages(stack.runs.client, 'twice')).not.toContain('release');
  expect(other).toEqual(one);
  expect(await answer('twice', {})).toEqual(one);
  await expect(answer('twice', { decision: 'reject' })).rejects.toEqual(
    refusedWith(`stage release was approved by ada at ${one.at} already`),
  );
  while ((await listAskingStages(stack.runs.client, 'twice'))[0] !== 'last') await sleep(20);
  await answer('twice', { stage: 'last' });
  expect((await outcomeOf('twice')).state).toBe('succeeded');
});

test('one of two simultaneous answers wins, and the other gets an error that names it', async () => {
  await start('race', '{ message: "Release?" }');
  await untilAsked('race');
  const both = await Promise.allSettled([answer('race', {}), answer('race', { decision: 'reject', by: 'bob' })]);
  expect(both.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
  const winner = both[0].status === 'fulfilled' ? 'succeeded' : 'failed';
  expect((await outcomeOf('race')).state).toBe(winner);
});

test('a rejection fails its stage with who and why, and skips what depends on it', async () => {
  await start('rejected', '{ message: "Release?" }');
  await untilAsked('rejected');
  await answer('rejected', { decision: 'reject', comment: 'not on a Friday' });
  expect(await outcomeOf('rejected')).toMatchObject({
    state: 'failed',
    failedStage: 'release',
    failure: { code: 'stage/rejected', message: 'stage release was rejected by ada: not on a Friday' },
  });
  expect(bodyOf(await stack.eventsOf('rejected'), 'stage-skipped')).toMatchObject({ stage: 'publish' });
});

test('a rejection may fill in fields, which are checked and recorded', async () => {
  await start(
    'rejected-with-fields',
    '{ message: "Release?", fields: [{ name: count, type: number }, { name: note }] }',
  );
  await untilAsked('rejected-with-fields');
  const no = { decision: 'reject', comment: 'too many' } as const;
  await expect(answer('rejected-with-fields', { ...no, fields: { count: 'many' } })).rejects.toEqual(
    refusedWith(expect.stringContaining('the field count must be a number, got "many"')),
  );
  const receipt = await answer('rejected-with-fields', { ...no, fields: { count: '9' } });
  expect(await outcomeOf('rejected-with-fields')).toMatchObject({
    state: 'failed',
    failure: { code: 'stage/rejected', message: 'stage release was rejected by ada (count=9): too many' },
  });
  const events = await stack.eventsOf('rejected-with-fields');
  expect(bodyOf(events, 'stage-answered')).toMatchObject({ outcome: 'failed', fields: { count: 9 } });
  const { atMs } = events.find(({ body }) => body.type === 'stage-answered')!;
  expect(new Date(atMs).toISOString()).toBe(receipt.at);
});

describe('an approval that needs a proof', () => {
  const STRICT = '{ message: "Release?", by: [ops], self_approval: false }';

  /** Starts a run of the token `ci`, as the service does. */
  async function startOfToken(runId: string): Promise<void> {
    await stack.stores.marks.put(runId, 'client', { baseDir: '/x', starter: { kind: 'token', name: 'ci' } });
    await start(runId, STRICT);
    await untilAsked(runId);
  }

  /** Writes the proof of a token of the group `ops`, as the service does. */
  async function prove(runId: string, name: string, decision: 'approve' | 'reject' = 'approve'): Promise<void> {
    const view = (await stack.eventsOf(runId)).reduce(project, emptyView(runId));
    const [question] = openQuestionsOf(view);
    const context = { stores: () => Promise.resolve(stack.stores) } as unknown as Machine;
    const given = { decision, by: name };
    await proveAnswer({ kind: 'token', name, groups: ['ops'] }, { runId, question: question!, given }, context);
  }

  test('refuses what a client of the server sends, and takes the answer of another token', async () => {
    await startOfToken('proven');
    const nothing = refusedWith('run proven: the answer to release is refused: nothing proves who sent the answer');
    const forged = { verified: true, proof: 'x', token: 'ada' };
    await expect(answer('proven', forged as Partial<AnswerRequest>)).rejects.toEqual(nothing);
    await expect(answer('proven', { decision: 'reject' })).rejects.toEqual(nothing);
    await prove('proven', 'ci');
    await expect(answer('proven', { by: 'ci' })).rejects.toEqual(
      refusedWith(expect.stringContaining('the token started the run')),
    );
    await prove('proven', 'ada');
    await expect(answer('proven', { comment: 'not hers' })).rejects.toEqual(nothing);
    const receipt = await answer('proven', {});
    expect(receipt).toMatchObject({ by: 'ada', verified: true });
    expect(await answer('proven', {})).toEqual(receipt);
    const outcome = await outcomeOf('proven');
    expect(JSON.parse(await stack.artifact(outcome.output!))).toMatchObject({ by: 'ada', verified: true });
    const events = await stack.eventsOf('proven');
    expect(bodyOf(events, 'stage-asking')).toMatchObject({ question: { selfApproval: false } });
    expect(bodyOf(events, 'stage-answered')).toMatchObject({ outcome: 'succeeded', by: 'ada', verified: true });
  });

  test('a rejection of another token is verified too', async () => {
    await startOfToken('proven-rejected');
    await prove('proven-rejected', 'ada', 'reject');
    expect(await answer('proven-rejected', { decision: 'reject' })).toMatchObject({ verified: true });
    const { failure } = await outcomeOf('proven-rejected');
    expect(failure?.message).toBe('stage release was rejected by ada (verified)');
  });

  test('does not continue if a client ends the check of a forged answer instead of the worker', async () => {
    await stopWorker();
    const made = { sha256: 'a'.repeat(64), sizeBytes: 1, mediaType: 'application/json', verified: true } as const;
    worker = await stack.startWorker(() => ({ recordApproval: () => Promise.resolve(made) }));
    await startOfToken('forged');
    expect(await answer('forged', {})).toMatchObject({ verified: true });
    const outcome = await outcomeOf('forged');
    await stopWorker();
    worker = await stack.startWorker();
    expect(outcome).toMatchObject({ state: 'failed' });
    const events = await stack.eventsOf('forged');
    expect(bodyOf(events, 'stage-answered')).toBeUndefined();
    expect(events.some(({ body }) => body.type === 'stage-started' && body.stage === 'publish')).toBe(false);
  });
});

describe('at its deadline', () => {
  test('an approval is approved if its author sets `on_timeout: approve`', async () => {
    const field = '{ name: count, type: number }';
    await start(
      'approved-at-deadline',
      `{ message: "Release?", timeout: 1s, on_timeout: approve, fields: [${field}] }`,
    );
    const outcome = await outcomeOf('approved-at-deadline');
    expect(JSON.parse(await stack.artifact(outcome.output!))).toMatchObject({ by: null, fields: {}, timedOut: true });
  });

  test.each([
    ['rejected-at-deadline', ', on_timeout: reject', 'stage/rejected', /^stage release was rejected at its deadline/],
    ['failed-at-deadline', '', 'stage/no-answer', /^stage release got no answer before its deadline/],
  ])('%s', async (runId, onTimeout, code, message) => {
    await start(runId, `{ message: "Release?", timeout: 1s${onTimeout} }`);
    expect(await outcomeOf(runId)).toMatchObject({
      state: 'failed',
      failure: { code, message: expect.stringMatching(message) },
    });
  });
});

test('a question survives the worker, and nothing waits in a VM or a slot for it', async () => {
  await start('asking-worker-change', '{ message: "Release?", timeout: 1h }');
  await untilAsked('asking-worker-change');
  await stopWorker();
  await sleep(500);
  worker = await stack.startWorker();
  await answer('asking-worker-change', {});
  expect((await outcomeOf('asking-worker-change')).state).toBe('succeeded');
  const asked = (await stack.eventsOf('asking-worker-change')).filter(({ body }) => body.type === 'stage-asking');
  expect(asked).toHaveLength(1);
});

test('a run that is cancelled withdraws its question', async () => {
  await start('asking-cancelled', '{ message: "Release?", timeout: 1h }');
  await untilAsked('asking-cancelled');
  await cancelRun(stack.runs.client, 'asking-cancelled');
  expect((await outcomeOf('asking-cancelled')).state).toBe('cancelled');
  expect(bodyOf(await stack.eventsOf('asking-cancelled'), 'stage-answered')).toMatchObject({ outcome: 'cancelled' });
  await expect(answer('asking-cancelled', {})).rejects.toMatchObject({ kind: 'ended' });
});

describe('an answer that is late', () => {
  /** A run that stays open after a cancel until `cleanup` ends. */
  async function startWithCleanup(runId: string): Promise<void> {
    const cleanup = `    - { name: cleanup, finally: true, run: { program: until, args: [${runId}] } }\n`;
    const text = `${spec(runId, '{ message: "Release?" }')}${cleanup}`;
    await startRun(stack.runs.client, { runId, request: { spec: text }, summary: `test ${runId}` });
    await untilAsked(runId);
  }

  async function cancelUntilWithdrawn(runId: string): Promise<void> {
    await cancelRun(stack.runs.client, runId);
    await expect.poll(() => ends.has(runId)).toBe(true);
    expect(await listAskingStages(stack.runs.client, runId)).toEqual([]);
  }

  const refusal = refusedWith('no stage "release" of this run waits for an answer');

  async function expectWithdrawn(runId: string): Promise<void> {
    ends.get(runId)!();
    expect((await outcomeOf(runId)).state).toBe('cancelled');
    const answered = (await stack.eventsOf(runId)).flatMap(({ body }) =>
      body.type === 'stage-answered' ? [`${body.stage} ${body.outcome} ${body.by ?? '-'}`] : [],
    );
    expect(answered).toEqual(['release cancelled -']);
  }

  test('an answer to a withdrawn question is refused, and the run does not record it', async () => {
    await startWithCleanup('late');
    await cancelUntilWithdrawn('late');
    await expect(answer('late', {})).rejects.toEqual(refusal);
    await expect(answer('late', { decision: 'reject' })).rejects.toEqual(refusal);
    await expectWithdrawn('late');
  });

  test('an answer is refused whose question is withdrawn while the worker records it', async () => {
    let begin = (): void => undefined;
    let release = (): void => undefined;
    const recording = new Promise<void>((resolve) => (begin = resolve));
    const released = new Promise<void>((resolve) => (release = resolve));
    await stopWorker();
    worker = await stack.startWorker(({ recordApproval }) => ({
      recordApproval: async (call) => {
        if (call.runId !== 'late-recorded' || call.stage !== 'release') return await recordApproval(call);
        begin();
        await released;
        return await recordApproval(call);
      },
    }));
    try {
      await startWithCleanup('late-recorded');
      const late = answer('late-recorded', {}).catch((error: unknown) => error);
      await recording;
      await cancelUntilWithdrawn('late-recorded');
      release();
      expect(await late).toEqual(refusal);
      await expectWithdrawn('late-recorded');
    } finally {
      release();
      await stopWorker();
      worker = await stack.startWorker();
    }
  });
});

test('the temporal command line answers, and a wrong answer is refused with the form of an answer', async () => {
  await start('by-cli', '{ message: "Release?" }');
  await untilAsked('by-cli');
  const update = async (input: unknown): Promise<string> => {
    const args = ['workflow', 'update', 'execute', '--address', stack.target.address, '--workflow-id', 'by-cli'];
    const { stdout } = await promisify(execFile)(
      temporalCli,
      [...args, '--name', 'answer', '--input', JSON.stringify(input), '-o', 'json'],
      { encoding: 'utf8' },
    );
    return stdout;
  };
  await expect(update({ stage: 'release' })).rejects.toMatchObject({
    stderr: expect.stringContaining('`decision` of an answer must be "approve" or "reject"'),
  });
  await expect(update({ stage: 'build', decision: 'approve' })).rejects.toMatchObject({
    stderr: expect.stringContaining('no stage "build" of this run waits for an answer; waiting: release'),
  });
  expect(await update({ stage: 'release', decision: 'approve', by: 'ada' })).toContain('"decision"');
  expect((await outcomeOf('by-cli')).state).toBe('succeeded');
});

test('a run that has only an approval uses no VM', async () => {
  const alone = 'kind: workflow\nname: alone\nworkflow:\n  steps:\n    - { name: ok, approval: { message: "Go?" } }\n';
  await startRun(stack.runs.client, { runId: 'alone', request: { spec: alone }, summary: 'alone' });
  await untilAsked('alone');
  await answer('alone', { stage: 'ok' });
  const { state, output } = await outcomeOf('alone');
  expect(state).toBe('succeeded');
  expect(JSON.parse(await stack.artifact(output!))).toMatchObject({ approved: true, by: 'ada' });
  expect(bodyOf(await stack.eventsOf('alone'), 'vm-starting')).toBeUndefined();
});
