/** Tests several clients of one session that continues as new all the time, on a real Temporal server. */
import { Client, Connection, makeGrpcRetryInterceptor } from '@temporalio/client';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { SessionResult } from '../../domain/step-machine/result.ts';
import { callRetry } from '../../client/temporal/call-retry.ts';
import { advanceSession, recordsOfSession, startSession, viewSession } from '../../client/sessions/sessions.ts';
import { recordHistoriesOf } from '../../test/rig/runs/record-histories.ts';
import { startSessionRig, type SessionRig } from '../../test/rig/skills/session-rig.ts';
import { temporalCliForTests } from '../../test/rig/servers/temporal-cli.ts';

const BRANCHES = ['a', 'b', 'c', 'd'];
/** As many answers are given to each branch: some meet the end of a history. */
const ROUNDS = 40;
const MOST_ROUNDS = 400;
const MANY = `const branch = { prompt: 'n?', response: z.object({ n: z.number() }), maxVisits: 1_000, next: [{ to: 'join', when: ({ response }) => response.n < 0 }, { to: 'self' }] };
export default skill({ name: 'many', entry: 'split' })
  .step('split', { parallel: { branches: ${JSON.stringify(BRANCHES)}, join: 'join' } })
  ${BRANCHES.map((name) => `.step('${name}', branch)`).join('\n  ')}
  .step('join', { next: terminal })
  .build();
`;
/** One branch acts until it is let go, the other is answered. */
const BESIDE = `export default skill({ name: 'beside', entry: 'split' })
  .step('split', { parallel: { branches: ['long', 'short'], join: 'join' } })
  .step('long', { prompt: 'Go?', response: z.object({}), action: async () => { while (!existsSync(LINES + '.go')) await new Promise((resolve) => setTimeout(resolve, 50)); }, next: 'join' })
  .step('short', { prompt: 'What?', response: z.object({}), maxVisits: 1_000, next: 'self' })
  .step('join', { next: terminal })
  .build();
`;
/** Retries every second until the test lets it finish: first without a client, then for an answer. */
const POLL = `const until = (file: string) => ({
  retry: { maxAttempts: 1_000, backoffMs: 1, backoffFactor: 1 },
  action: ({ idempotencyKey }) => { log(idempotencyKey); if (!existsSync(LINES + file)) throw new Error('not yet'); return file; },
});
export default skill({ name: 'poll', entry: 'first' })
  .step('first', { ...until('.first'), next: 'ask' })
  .step('ask', { prompt: 'Go on?', response: z.object({}), ...until('.second'), next: 'end' })
  .step('end', { prompt: 'Done?', response: z.object({}), next: terminal })
  .build();
`;
/** Most that is waited before such an answer is sent again; the SDK waits ten times as long for a server that has too much to do. */
const MOST_WAIT_MS = 100;

let rig: SessionRig;
const pollRuns: string[] = [];
beforeAll(async () => {
  const settings = ['limit.historyCount.suggestContinueAsNew=60', 'history.maxTotalUpdates=40'];
  rig = await startSessionRig(
    await temporalCliForTests(),
    settings.flatMap((setting) => ['--dynamic-config-value', setting]),
  );
  rig.writeSkill('many', MANY);
  rig.writeSkill('beside', BESIDE);
  rig.writeSkill('poll', POLL);
}, 300_000);
afterAll(async () => {
  await recordHistoriesOf(rig.runs.client, ['poll'], pollRuns[0]);
  await rig?.stop();
});

/** How calls that the server refused with these words were made again. */
interface Refused {
  readonly words: string;
  readonly waitMs: number;
}

async function watchedClient(
  refused: Refused[],
): Promise<{ readonly client: Client; readonly connection: Connection }> {
  const options = callRetry();
  const delayFunction: typeof options.delayFunction = (attempt, status) => {
    const waitMs = options.delayFunction(attempt, status);
    refused.push({ words: status.details, waitMs });
    return waitMs;
  };
  const { address } = rig.runs.connection.options;
  const connection = await Connection.connect({
    address,
    interceptors: [makeGrpcRetryInterceptor({ ...options, delayFunction })],
  });
  return { connection, client: new Client({ connection }) };
}

test('an answer that meets the end of a history is taken by the next one, at once', { timeout: 120_000 }, async () => {
  const refused: Refused[] = [];
  const { client, connection } = await watchedClient(refused);
  const first = await startSession(client, 'many', { skill: 'many' });
  if (first.kind !== 'prompt') throw new Error(JSON.stringify(first));
  const answerAll = async (step: string, asked: number): Promise<number> => {
    let given = 0;
    for (let turn = asked; given < ROUNDS || (refused.length === 0 && given < MOST_ROUNDS);) {
      given += 1;
      const result = await advanceSession(client, 'many', { step, turn, output: { n: given } });
      if (result.kind !== 'prompt') throw new Error(`${step} ${given}: ${JSON.stringify(result)}\n${rig.log()}`);
      turn = [result, ...(result.open ?? [])].find((one) => one.step === step)!.turn!;
    }
    return given;
  };
  const given = await Promise.all([first, ...first.open!].map(({ step, turn }) => answerAll(step, turn!)));
  const runs: string[] = [];
  for await (const { runId } of client.workflow.list({ query: "WorkflowId = 'many'" })) runs.push(runId);
  expect(runs.length).toBeGreaterThan(5);
  const { flushed, records } = await recordsOfSession(client, 'many');
  await connection.close();
  // The step that splits is one, too.
  expect(flushed + records.length).toBe(given.reduce((sum, one) => sum + one, 1));
  // Otherwise the server did not say it, or says it in other words.
  expect(refused.length).toBeGreaterThan(0);
  expect(refused.filter(({ waitMs }) => waitMs > MOST_WAIT_MS)).toEqual([]);
});

test(
  'a session is busy while the server accepts no more updates, until it continues as new',
  { timeout: 60_000 },
  async () => {
    const first = await startSession(rig.runs.client, 'beside', { skill: 'beside' });
    if (first.kind !== 'prompt') throw new Error(JSON.stringify(first));
    const acting = advanceSession(rig.runs.client, 'beside', { step: 'long', turn: first.turn!, output: {} });
    const answer = (turn: number): Promise<SessionResult> =>
      advanceSession(rig.runs.client, 'beside', { step: 'short', turn, output: {} });
    let { turn } = first.open![0]!;
    let at = await answer(turn);
    for (let n = 1; n <= 60 && at.kind === 'prompt'; n += 1) {
      turn = at.turn!;
      at = await answer(turn);
    }
    expect(at).toMatchObject({
      kind: 'error',
      error: 'busy',
      step: 'short',
      retry: true,
      message: expect.stringMatching(/continues as new.*\(40\)/),
    });
    expect(await viewSession(rig.runs.client, 'beside')).toMatchObject({ status: 'open', turn });
    writeFileSync(join(rig.stateDir, 'lines.go'), '');
    for (const end = Date.now() + 20_000; at.kind !== 'prompt' && Date.now() < end; await sleep(50))
      at = await answer(turn);
    expect(at).toMatchObject({ kind: 'prompt', turn: turn + 1 });
    expect(await acting).toMatchObject({ kind: 'prompt', completed: { step: 'long' } });
  },
);

test(
  'an action with many retries does not stop its session from continuing as new, and its client keeps waiting',
  { timeout: 90_000 },
  async () => {
    const handle = rig.runs.client.workflow.getHandle('poll');
    const nextRun = async (): Promise<void> => {
      const { runId } = await handle.describe();
      pollRuns.push(runId);
      for (const end = Date.now() + 30_000; (await handle.describe()).runId === runId; await sleep(50)) {
        if (Date.now() > end) throw new Error(`the history did not begin anew\n${rig.log()}`);
      }
    };
    const letGo = (file: string): void => writeFileSync(join(rig.stateDir, `lines.${file}`), '');
    const starting = startSession(rig.runs.client, 'poll', { skill: 'poll' });
    for (const end = Date.now() + 20_000; !rig.lines().includes('poll/1/first') && Date.now() < end; await sleep(50));
    await nextRun();
    letGo('first');
    const first = await starting;
    expect(first).toMatchObject({ kind: 'prompt', step: 'ask' });
    const { turn } = first as { turn: number };
    const answer = (): Promise<SessionResult> =>
      advanceSession(rig.runs.client, 'poll', { step: 'ask', turn, output: {} });
    const acting = answer();
    await nextRun();
    // Sent again, it is the same answer.
    const again = answer();
    letGo('second');
    expect(await acting).toMatchObject({ kind: 'prompt', step: 'end' });
    expect(await again).toEqual(await acting);
    const { records } = await recordsOfSession(rig.runs.client, 'poll');
    expect(new Set(rig.lines().filter((line) => line.startsWith('poll/')))).toEqual(
      new Set(['poll/1/first', `poll/${turn}/ask`]),
    );
    expect(records.length + (await recordsOfSession(rig.runs.client, 'poll')).flushed).toBe(2);
  },
);
