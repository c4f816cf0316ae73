/** Tests what a step can request from its action and its sub-skills, in sessions on a real Temporal server. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { SessionResult } from '../../domain/step-machine/result.ts';
import {
  advanceSession,
  cancelSession,
  recordsOfSession,
  startSession,
  viewSession,
} from '../../client/sessions/sessions.ts';
import { recordHistoriesOf } from '../../test/rig/runs/record-histories.ts';
import { startSessionRig, type SessionRig } from '../../test/rig/skills/session-rig.ts';
import { temporalCliForTests } from '../../test/rig/servers/temporal-cli.ts';

/** Longer than a child process may take to load a skill, after which another one is started. */
const LIMIT_MS = 150_000;

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
      if (response.how === 'let go' && !existsSync(LINES + '.let-go')) {
        writeFileSync(LINES + '.let-go', '');
        await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      }
      if (response.how !== 'let go' && attempt < 3) throw new Error('not yet');
      return { tries: attempt };
    },
    next: terminal,
  })
  .build();
`;

/** Actions that do not listen to their signal. */
const DEAF = `export default skill({ name: 'deaf', entry: 'ask' })
  .step('ask', {
    prompt: 'How?',
    response: z.object({ how: z.string() }),
    next: [{ to: 'late', when: ({ response }) => response.how === 'late' }, { to: 'endless' }],
  })
  .step('late', {
    timeoutMs: 2_000,
    retry: { maxAttempts: 2, backoffMs: 10 },
    action: async ({ attempt }) => {
      log('late ' + attempt + ' begins');
      if (attempt === 1)
        await new Promise((resolve) => setTimeout(resolve, 3_600));
      log('late ' + attempt + ' ends');
    },
    next: terminal,
  })
  .step('endless', { action: async () => { for (;;) { log('at work'); await new Promise((resolve) => setTimeout(resolve, 50)); } }, next: terminal })
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

/** Its sub-skill acts, then fails when it is answered wrongly. */
const RECALL = `const inner = skill({ name: 'inner', entry: 'ask', observers: { onStepComplete: ({ step }) => { log('heard ' + step); } } })
  .step('ask', {
    prompt: 'n?',
    response: z.object({ n: z.number() }),
    action: async ({ idempotencyKey, response, signal }) => {
      log('acts ' + idempotencyKey);
      if (response.n < 0) await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    },
    next: 'more',
  })
  .step('more', { prompt: 'Fine?', response: z.object({ fine: z.literal(true) }), maxInvalid: 1, next: terminal })
  .build();
export default skill({ name: 'recall', entry: 'call' })
  .step('call', { call: 'inner', next: 'end' })
  .step('end', { prompt: 'Well?', response: z.object({}), next: terminal })
  .subskill('inner', inner)
  .build();
`;

let rig: SessionRig;
beforeAll(async () => {
  rig = await startSessionRig(await temporalCliForTests());
  rig.writeSkill('flaky', FLAKY);
  rig.writeSkill('nested', NESTED);
  rig.writeSkill('deaf', DEAF);
  rig.writeSkill('recall', RECALL);
}, 300_000);
afterAll(async () => {
  await recordHistoriesOf(rig.runs.client, ['again', 'deaf', 'let-go', 'levels', 'recall', 'called-off']);
  await rig?.stop();
});

const start = (session: string, skill: string): Promise<SessionResult> =>
  startSession(rig.runs.client, session, { skill });
const answer = (
  session: string,
  { step, turn }: { step: string; turn?: number },
  output: unknown,
): Promise<SessionResult> => advanceSession(rig.runs.client, session, { step, turn: turn!, output });

test(
  'an action is tried again under one key, and its failures are kept with the visit',
  { timeout: LIMIT_MS },
  async () => {
    const first = await start('again', 'flaky');
    expect(await answer('again', first as { step: string; turn: number }, { how: 'in the end' })).toMatchObject({
      kind: 'done',
      finalOutput: { tries: 3 },
    });
    expect(rig.lines().filter((line) => line.startsWith('again/'))).toEqual([
      'again/1/ask attempt 1',
      'again/1/ask attempt 2',
      'again/1/ask attempt 3',
    ]);
    const { records } = await recordsOfSession(rig.runs.client, 'again');
    expect(records[0]?.failures?.map(({ attempt, message }) => `${attempt} ${message}`)).toEqual([
      '1 not yet',
      '2 not yet',
    ]);
  },
);

test(
  'a session that is cancelled fires the signal of the action that is under way',
  { timeout: LIMIT_MS },
  async () => {
    const first = await start('stopped', 'flaky');
    const answered = answer('stopped', first as { step: string; turn: number }, { how: 'hang' });
    await lineOf('stopped/1/ask attempt 1');
    expect(await cancelSession(rig.runs.client, 'stopped')).toBe(true);
    await lineOf('told to stop');
    expect(await answered).toMatchObject({ kind: 'error', error: 'cancelled', retry: false });
  },
);

test('an action that does not listen is ended with its session', { timeout: LIMIT_MS }, async () => {
  const first = await start('deaf', 'deaf');
  const answered = answer('deaf', first as { step: string; turn: number }, { how: 'endless' });
  await lineOf('at work');
  expect(await cancelSession(rig.runs.client, 'deaf')).toBe(true);
  // It prints every 50 ms until its process has ended.
  const newLines = async (): Promise<number> => {
    const before = rig.lines().length;
    await sleep(500);
    return rig.lines().length - before;
  };
  await expect.poll(newLines).toBe(0);
  expect(await answered).toMatchObject({ kind: 'error', error: 'cancelled' });
});

test('an attempt begins when the one before it has ended, late as it may be', { timeout: LIMIT_MS }, async () => {
  const first = await start('late', 'deaf');
  expect(await answer('late', first as { step: string; turn: number }, { how: 'late' })).toMatchObject({
    kind: 'done',
  });
  expect(rig.lines().filter((line) => line.startsWith('late '))).toEqual([
    'late 1 begins',
    'late 1 ends',
    'late 2 begins',
    'late 2 ends',
  ]);
});

test(
  'a worker that shuts down detaches from an action, and the next worker repeats it',
  { timeout: LIMIT_MS },
  async () => {
    const first = await start('let-go', 'flaky');
    const answered = answer('let-go', first as { step: string; turn: number }, { how: 'let go' });
    await lineOf('let-go/1/ask attempt 1');
    await rig.restartWorker();
    expect(await answered).toMatchObject({ kind: 'done', finalOutput: { tries: 1 } });
    expect(rig.lines().filter((line) => line.startsWith('let-go/'))).toEqual([
      'let-go/1/ask attempt 1',
      'let-go/1/ask attempt 1',
    ]);
  },
);

test('sub-skills nest, and come back through every level', { timeout: LIMIT_MS }, async () => {
  const deep = await start('levels', 'nested');
  expect(deep).toMatchObject({ kind: 'prompt', step: 'go/dig/ask' });
  const middle = await answer('levels', deep as { step: string; turn: number }, { n: 2 });
  expect(middle).toMatchObject({ kind: 'prompt', step: 'go/add' });
  expect(await answer('levels', middle as { step: string; turn: number }, { n: 3 })).toMatchObject({
    kind: 'done',
    finalOutput: { got: { sum: 5 } },
  });
});

test(
  'a sub-skill that failed and is called again is another one: its actions have keys of their own, its observers hear it',
  { timeout: LIMIT_MS },
  async () => {
    const first = await start('recall', 'recall');
    const second = await answer('recall', first as { step: string; turn: number }, { n: 1 });
    expect(await answer('recall', second as { step: string; turn: number }, { fine: false })).toMatchObject({
      error: 'action',
      step: 'call',
      retry: true,
    });
    const { turn } = await viewSession(rig.runs.client, 'recall');
    const again = await answer('recall', { step: 'call', turn }, {});
    expect(again).toMatchObject({ kind: 'prompt', step: 'call/ask' });
    const more = await answer('recall', again as { step: string; turn: number }, { n: 1 });
    expect(await answer('recall', more as { step: string; turn: number }, { fine: true })).toMatchObject({
      kind: 'prompt',
      step: 'end',
    });
    const acted = rig.lines().filter((line) => line.startsWith('acts recall'));
    expect(acted).toHaveLength(2);
    expect(new Set(acted).size).toBe(2);
    // One of the call that failed at `more`, and both steps of the other.
    for (const end = Date.now() + 20_000; heard().length < 3; await sleep(50)) if (Date.now() > end) break;
    expect(heard()).toEqual(['heard ask', 'heard ask', 'heard more']);
  },
);

test('a caller that waits for a sub-skill gets the cancellation of its session', { timeout: LIMIT_MS }, async () => {
  const first = await start('called-off', 'recall');
  const answered = answer('called-off', first as { step: string; turn: number }, { n: -1 });
  await lineOf('acts called-off~1/1/ask');
  expect(await cancelSession(rig.runs.client, 'called-off')).toBe(true);
  expect(await answered).toMatchObject({ kind: 'error', error: 'cancelled', retry: false });
});

const heard = (): string[] => rig.lines().filter((line) => line.startsWith('heard'));

async function lineOf(line: string): Promise<void> {
  for (const end = Date.now() + 30_000; !rig.lines().includes(line);) {
    if (Date.now() > end) throw new Error(`not within 30 s: ${line}\n${rig.log()}`);
    await sleep(50);
  }
}
