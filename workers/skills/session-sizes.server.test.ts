/** Sessions that carry as much as they may, and are offered more, on a real Temporal server. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { SessionResult, PromptResult } from '../../domain/step-machine/result.ts';
import { MOST_TURN_BYTES } from '../../domain/step-machine/size-limits.ts';
import { advanceSession, recordsOfSession, startSession, viewSession } from '../../client/sessions/sessions.ts';
import { startSessionRig, type SessionRig } from '../../test/rig/skills/session-rig.ts';
import { temporalCliForTests } from '../../test/rig/servers/temporal-cli.ts';

const LARGE = `export default skill({
  name: 'large', entry: 'ask', params: z.object({ pad: z.string().default('') }),
  observers: { onStepComplete: ({ step }) => { log('observed ' + step); } },
})
  .step('ask', {
    prompt: 'What?',
    response: z.object({ how: z.string(), bytes: z.number().default(0), pad: z.string().default('') }),
    maxVisits: 1_000,
    next: [{ to: 'act', when: ({ response }) => response.how === 'act' }, { to: 'tell', when: ({ response }) => response.how === 'tell' }, { to: 'self' }],
  })
  .step('act', { prompt: 'Act?', retry: { maxAttempts: 3 }, action: ({ store, idempotencyKey }) => { log('acted ' + idempotencyKey); return 'a'.repeat(store.steps.ask.bytes); }, next: 'ask' })
  .step('tell', { prompt: ({ store }) => 'p'.repeat(store.steps.ask.bytes), next: 'ask' })
  .build();
`;
/** One branch acts until it is let go, the other is answered. */
const BESIDE = `export default skill({ name: 'beside', entry: 'split' })
  .step('split', { parallel: { branches: ['long', 'short'], join: 'join' } })
  .step('long', { prompt: 'Go?', response: z.object({}), action: async () => { while (!existsSync(LINES + '.go')) await new Promise((resolve) => setTimeout(resolve, 50)); }, next: 'join' })
  .step('short', { prompt: 'What?', response: z.object({ pad: z.string() }), maxVisits: 1_000, next: 'self' })
  .step('join', { next: terminal })
  .build();
`;
/** With the rest of the answer it stays within the limit. */
const ALMOST = 'x'.repeat(MOST_TURN_BYTES - 4_000);
const TOO_MUCH = 3 * 1024 * 1024;

let rig: SessionRig;
beforeAll(async () => {
  rig = await startSessionRig(await temporalCliForTests());
  rig.writeSkill('large', LARGE);
  rig.writeSkill('beside', BESIDE);
}, 300_000);
afterAll(async () => {
  await rig?.stop();
});

const start = (session: string, params: unknown = {}, skill = 'large'): Promise<SessionResult> =>
  startSession(rig.runs.client, session, { skill, params });

async function answer(session: string, { step, turn }: PromptResult, output: unknown): Promise<SessionResult> {
  return await advanceSession(rig.runs.client, session, { step, turn: turn!, output });
}

function prompt(result: SessionResult): PromptResult {
  if (result.kind !== 'prompt')
    throw new Error(`not a prompt: ${JSON.stringify(result).slice(0, 2_000)}\n${rig.log().slice(-2_000)}`);
  return result;
}

test('large answers go from history to history, with an action and its observers', { timeout: 120_000 }, async () => {
  let at = prompt(await start('many', { pad: ALMOST }));
  const { runId } = await rig.runs.client.workflow.getHandle('many').describe();
  for (let n = 1; n <= 12; n += 1) {
    const next = prompt(await answer('many', at, { how: 'again', pad: ALMOST }));
    expect(await answer('many', at, { how: 'again', pad: ALMOST })).toEqual(next);
    at = next;
  }
  at = prompt(await answer('many', at, { how: 'act', bytes: 200_000 }));
  expect(prompt(await answer('many', at, {})).completed?.actionResult).toHaveLength(200_000);
  const { flushed, records } = await recordsOfSession(rig.runs.client, 'many');
  expect(flushed + records.length).toBe(14);
  expect((await rig.runs.client.workflow.getHandle('many').describe()).runId).not.toBe(runId);
  for (const end = Date.now() + 20_000; rig.lines().filter((line) => line.startsWith('observed')).length < 14;) {
    if (Date.now() > end)
      throw new Error(`observers were not told: ${rig.lines().join(', ')}\n${rig.log().slice(-2_000)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
});

test(
  'a value that is too large is refused by its name and size, and the session continues',
  { timeout: 60_000 },
  async () => {
    const pad = 'x'.repeat(TOO_MUCH);
    await expect(start('params', { pad })).rejects.toMatchObject({
      code: 'skill/params',
      message: expect.stringContaining('the params have 3145738 bytes; at most 262144 are allowed'),
    });
    let at = prompt(await start('refused'));
    expect(await answer('refused', at, { how: 'again', pad })).toMatchObject({
      error: 'validation',
      retry: true,
      message: expect.stringContaining('the answer has'),
    });
    // A client that calls the workflow directly gets the same answer.
    const raw = rig.runs.client.workflow
      .getHandle('refused')
      .executeUpdate('advance', { args: [{ turn: at.turn, step: 'ask', output: { how: ALMOST + ALMOST } }] });
    await expect(raw).rejects.toMatchObject({
      cause: { type: 'session/refused', message: expect.stringContaining('the answer has') },
    });
    // JSON below the limit that neither this process nor the workflow could write.
    const deep: unknown = JSON.parse('['.repeat(20_000) + ']'.repeat(20_000));
    const tooDeep = {
      error: 'validation',
      retry: true,
      message: expect.stringContaining('the answer has more than 500 levels'),
    };
    expect(await answer('refused', at, { how: deep })).toMatchObject(tooDeep);
    await expect(start('deep', { deep })).rejects.toMatchObject({
      message: expect.stringContaining('the params have more than 500 levels'),
    });
    at = prompt(await answer('refused', at, { how: 'act', bytes: TOO_MUCH }));
    expect(await answer('refused', at, {})).toMatchObject({
      error: 'action',
      retry: true,
      message: expect.stringContaining('what the action gave has'),
    });
    // It would give the same again.
    expect(rig.lines().filter((line) => line.startsWith('acted refused/'))).toHaveLength(1);
    at = prompt(await start('prompts'));
    expect(await answer('prompts', at, { how: 'tell', bytes: TOO_MUCH })).toMatchObject({
      error: 'action',
      message: expect.stringContaining('this turn adds'),
    });
    const now = await viewSession(rig.runs.client, 'prompts');
    expect(prompt(await answer('prompts', prompt(now.current!), { how: 'tell', bytes: 10 })).step).toBe('tell');
  },
);

test(
  'a session that cannot continue as new during an action rejects answers before the server would end it, and continues as new afterwards',
  { timeout: 120_000 },
  async () => {
    const at = prompt(await start('beside', {}, 'beside'));
    const { runId } = await rig.runs.client.workflow.getHandle('beside').describe();
    const acting = answer('beside', at, {});
    let due: PromptResult = { ...at, ...at.open![0]! };
    let short: SessionResult = due;
    for (let n = 1; n <= 100 && short.kind === 'prompt'; n += 1) {
      due = short;
      short = await answer('beside', due, { pad: ALMOST });
    }
    expect(short).toMatchObject({
      error: 'busy',
      retry: true,
      message: expect.stringContaining('continues as new when "long" has ended'),
    });
    expect(await viewSession(rig.runs.client, 'beside')).toMatchObject({ status: 'open', turn: due.turn });
    writeFileSync(join(rig.stateDir, 'lines.go'), '');
    expect(await acting).toMatchObject({ kind: 'prompt', completed: { step: 'long' } });
    expect(prompt(await answer('beside', due, { pad: ALMOST })).turn).toBe(due.turn! + 1);
    expect((await rig.runs.client.workflow.getHandle('beside').describe()).runId).not.toBe(runId);
  },
);
