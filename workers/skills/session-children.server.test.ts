/** Sub-skills that a session calls in branches of their own, side by side, on a real Temporal server. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { SessionResult, PromptResult } from '../../domain/step-machine/result.ts';
import { advanceSession, startSession, viewSession } from '../../client/sessions/sessions.ts';
import { recordHistoriesOf } from '../../test/rig/runs/record-histories.ts';
import { startSessionRig, type SessionRig } from '../../test/rig/skills/session-rig.ts';
import { temporalCliForTests } from '../../test/rig/servers/temporal-cli.ts';

/** Three branches at once: two call a sub-skill, the third has a prompt of its own. */
const CALLERS = `
const inner = skill({ name: 'inner', entry: 'ask' })
  .step('ask', { prompt: 'How many?', response: z.object({ n: z.number() }), next: terminal })
  .build();
export default skill({ name: 'callers', entry: 'split' })
  .step('split', { parallel: { branches: ['left', 'own', 'right'], join: 'sum' } })
  .step('left', { call: 'inner', next: 'sum' })
  .step('own', { prompt: 'How many here?', response: z.object({ n: z.number() }), next: 'sum' })
  .step('right', { call: 'inner', next: 'sum' })
  .step('sum', { save: ({ store: { steps } }) => ({ step: { sum: steps.left.n + steps.own.n + steps.right.n } }), next: terminal })
  .subskill('inner', inner)
  .build();
`;

let rig: SessionRig;
beforeAll(async () => {
  rig = await startSessionRig(await temporalCliForTests());
  rig.writeSkill('callers', CALLERS);
}, 300_000);
afterAll(async () => {
  await recordHistoriesOf(rig.runs.client, ['joined']);
  await rig?.stop();
});

const start = (session: string, skill: string): Promise<SessionResult> =>
  startSession(rig.runs.client, session, { skill });
const answer = (
  session: string,
  { step, turn }: { step: string; turn?: number },
  output: unknown,
): Promise<SessionResult> => advanceSession(rig.runs.client, session, { step, turn: turn!, output });
const view = (session: string): ReturnType<typeof viewSession> => viewSession(rig.runs.client, session);

function prompt(result: SessionResult): PromptResult {
  if (result.kind !== 'prompt') throw new Error(`not a prompt: ${JSON.stringify(result)}\n${rig.log().slice(-2_000)}`);
  return result;
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 30_000; !(await holds()); await sleep(50)) {
    if (Date.now() > end) throw new Error(`not within 30 s: ${what}\n${rig.log()}`);
  }
}

test('an answer to a joined branch returns the prompt of a sub-skill in another branch', async () => {
  await start('joined', 'callers');
  const own = (await view('joined')).open.find(({ step }) => step === 'own')!;
  const [one, other] = ['left/ask', 'right/ask'];
  const first = prompt(await answer('joined', own, { n: 1 }));
  expect([one, other]).toContain(first.step);
  const last = prompt(await answer('joined', first, { n: 10 }));
  expect(last.step).toBe(first.step === one ? other : one);
  expect(await answer('joined', last, { n: 100 })).toMatchObject({ kind: 'done', finalOutput: { sum: 111 } });
});

test('a session shows the prompts of all its sub-skills, accepts answers to any of them, and names steps by the addresses that clients use', async () => {
  await start('siblings', 'callers');
  const all = (of: PromptResult): string[] => [of.step, ...(of.open ?? []).map(({ step }) => step)].toSorted();
  // Sub-skills begin one after the other.
  await until(
    'all are asked',
    async () =>
      (await view('siblings')).current?.kind === 'prompt' &&
      all(prompt((await view('siblings')).current!)).length === 3,
  );
  const now = prompt((await view('siblings')).current!);
  expect(all(now)).toEqual(['left/ask', 'own', 'right/ask']);
  const due = expect.stringMatching(
    /^Step ".*" is not the current step\. Due: turn \d+ of step "own", turn \d+ of step "left\/ask", turn \d+ of step "right\/ask"\.$/,
  ) as string;
  expect(await answer('siblings', { step: 'ask', turn: 1 }, { n: 1 })).toMatchObject({
    kind: 'error',
    error: 'order',
    step: 'ask',
    message: due,
  });
  expect(await answer('siblings', { step: 'left/other', turn: 1 }, { n: 1 })).toMatchObject({
    kind: 'error',
    error: 'order',
    step: 'left/other',
    message: due,
  });
  const right = [now, ...now.open!].find(({ step }) => step === 'right/ask')!;
  const rest = prompt(await answer('siblings', right, { n: 100 }));
  expect(all(rest)).toEqual(['left/ask', 'own']);
  const left = [rest, ...rest.open!].find(({ step }) => step === 'left/ask')!;
  const last = prompt(await answer('siblings', left, { n: 10 }));
  expect(all(last)).toEqual(['own']);
  expect(await answer('siblings', last, { n: 1 })).toMatchObject({ kind: 'done', finalOutput: { sum: 111 } });
});
