/** Several clients of one session whose history begins anew all the time, on a real Temporal server. */
import { Client, Connection, makeGrpcRetryInterceptor } from '@temporalio/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { callRetry } from '../client/call-retry.ts';
import { advanceSession, recordsOfSession, startSession } from '../client/sessions.ts';
import { startSessionRig, type SessionRig } from '../testing/session-rig.ts';
import { temporalCliForTests } from '../testing/temporal-cli.ts';

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
/** Most that is waited before such an answer is sent again; the SDK waits ten times as long for a server that has too much to do. */
const MOST_WAIT_MS = 100;

let rig: SessionRig;
beforeAll(async () => {
  rig = await startSessionRig(await temporalCliForTests(), ['--dynamic-config-value', 'limit.historyCount.suggestContinueAsNew=60']);
  rig.writeSkill('many', MANY);
}, 60_000);
afterAll(async () => {
  await rig?.stop();
});

/** How calls that the server refused with these words were made again. */
interface Refused {
  readonly words: string;
  readonly waitMs: number;
}

async function watchedClient(refused: Refused[]): Promise<{ readonly client: Client; readonly connection: Connection }> {
  const options = callRetry();
  const delayFunction: typeof options.delayFunction = (attempt, status) => {
    const waitMs = options.delayFunction(attempt, status);
    refused.push({ words: status.details, waitMs });
    return waitMs;
  };
  const { address } = rig.runs.connection.options;
  const connection = await Connection.connect({ address, interceptors: [makeGrpcRetryInterceptor({ ...options, delayFunction })] });
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
