/** What a step may ask of its action and of its sub-skills, in sessions on a real Temporal server. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { CliResult } from '../../domain/step-machine/result.ts';
import { advanceSession, cancelSession, recordsOfSession, startSession } from '../client/sessions.ts';
import { startSessionRig, type SessionRig } from '../testing/session-rig.ts';
import { temporalCliForTests } from '../testing/temporal-cli.ts';

const FLAKY = `export default skill({ name: 'flaky', entry: 'ask' })
  .step('ask', {
    prompt: 'How?',
    response: z.object({ how: z.string() }),
    retry: { maxAttempts: 3, backoffMs: 20 },
    action: async ({ response, signal, idempotencyKey, attempt }) => {
      log(idempotencyKey + ' attempt ' + attempt);
      if (response.how === 'hang') {
        await new Promise((_resolve, reject) => signal.addEventListener('abort', () => { log('told to stop'); reject(signal.reason); }));
      }
      if (attempt < 3) throw new Error('not yet');
      return { tries: attempt };
    },
    next: terminal,
  })
  .build();
`;

const NESTED = `const ask = (name: string) => skill({ name, entry: 'ask' }).step('ask', { prompt: name, response: z.object({ n: z.number() }), next: terminal }).build();
const middle = skill({ name: 'middle', entry: 'dig' })
  .step('dig', { call: 'deep', next: 'add' })
  .step('add', { prompt: 'add', response: z.object({ n: z.number() }), save: ({ response, store }) => ({ step: { sum: response.n + (store.steps.dig as { n: number }).n } }), next: terminal })
  .subskill('deep', ask('deep'))
  .build();
export default skill({ name: 'nested', entry: 'go' })
  .step('go', { call: 'middle', next: 'end' })
  .step('end', { save: ({ store }) => ({ step: { got: store.steps.go } }), next: terminal })
  .subskill('middle', middle)
  .build();
`;

let rig: SessionRig;
beforeAll(async () => {
  rig = await startSessionRig(await temporalCliForTests());
  rig.writeSkill('flaky', FLAKY);
  rig.writeSkill('nested', NESTED);
}, 60_000);
afterAll(async () => {
  await rig?.stop();
});

const start = (session: string, skill: string): Promise<CliResult> => startSession(rig.runs.client, session, { skill });
const answer = (session: string, { step, turn }: { step: string; turn?: number }, output: unknown): Promise<CliResult> =>
  advanceSession(rig.runs.client, session, { step, turn: turn!, output });

test('an action is tried again under one key, and its failures are kept with the visit', { timeout: 60_000 }, async () => {
  const first = await start('again', 'flaky');
  expect(await answer('again', first as { step: string; turn: number }, { how: 'in the end' })).toMatchObject({ kind: 'done', finalOutput: { tries: 3 } });
  expect(rig.lines().filter((line) => line.startsWith('again/'))).toEqual(['again/1/ask attempt 1', 'again/1/ask attempt 2', 'again/1/ask attempt 3']);
  const { records } = await recordsOfSession(rig.runs.client, 'again');
  expect(records[0]?.failures?.map(({ attempt, message }) => `${attempt} ${message}`)).toEqual(['1 not yet', '2 not yet']);
});

test('a session that is cancelled fires the signal of the action that is under way', { timeout: 60_000 }, async () => {
  const first = await start('stopped', 'flaky');
  const answered = answer('stopped', first as { step: string; turn: number }, { how: 'hang' });
  await lineOf('stopped/1/ask attempt 1');
  expect(await cancelSession(rig.runs.client, 'stopped')).toBe(true);
  await lineOf('told to stop');
  expect(await answered).toMatchObject({ kind: 'error', error: 'cancelled', retry: false });
});

test('sub-skills nest, and come back through every level', { timeout: 60_000 }, async () => {
  const deep = await start('levels', 'nested');
  expect(deep).toMatchObject({ kind: 'prompt', step: 'go/dig/ask' });
  const middle = await answer('levels', deep as { step: string; turn: number }, { n: 2 });
  expect(middle).toMatchObject({ kind: 'prompt', step: 'go/add' });
  expect(await answer('levels', middle as { step: string; turn: number }, { n: 3 })).toMatchObject({ kind: 'done', finalOutput: { got: { sum: 5 } } });
});

async function lineOf(line: string): Promise<void> {
  for (const end = Date.now() + 30_000; !rig.lines().includes(line);) {
    if (Date.now() > end) throw new Error(`not within 30 s: ${line}\n${rig.log()}`);
    await sleep(50);
  }
}
