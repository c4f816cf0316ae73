/** Sub-skills on a server that takes its time to begin their sessions, as one with much to do does. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { SessionResult } from '../../domain/step-machine/result.ts';
import { advanceSession, startSession } from '../../client/sessions/sessions.ts';
import { startSessionRig, type SessionRig } from '../../test/rig/skills/session-rig.ts';
import { temporalCliForTests } from '../../test/rig/servers/temporal-cli.ts';

const NESTED = `
const deep = skill({ name: 'deep', entry: 'ask' })
  .step('ask', { prompt: 'How many?', response: z.object({ n: z.number() }), next: terminal })
  .build();
const middle = skill({ name: 'middle', entry: 'dig' })
  .step('dig', { call: 'deep', next: terminal })
  .subskill('deep', deep)
  .build();
export default skill({ name: 'nested', entry: 'go' })
  .step('go', { call: 'middle', next: 'end' })
  .step('end', { save: ({ store }) => ({ step: { got: store.steps.go } }), next: terminal })
  .subskill('middle', middle)
  .build();
`;

let rig: SessionRig;
beforeAll(async () => {
  // The number of times each second that the server looks for new sessions to start.
  const slow = ['--dynamic-config-value', 'history.transferProcessorMaxPollRPS=2'];
  rig = await startSessionRig(await temporalCliForTests(), slow);
  rig.writeSkill('nested', NESTED);
});
afterAll(() => rig?.stop());

test('a client waits for the workflow of a sub-skill that the server has not started yet', async () => {
  const { client } = rig.runs;
  for (const session of ['late-1', 'late-2']) {
    const asked = await startSession(client, session, { skill: 'nested' });
    expect(asked).toMatchObject({ kind: 'prompt', step: 'go/dig/ask' });
    const { step, turn } = asked as SessionResult & { step: string; turn: number };
    expect(await advanceSession(client, session, { step, turn, output: { n: 2 } })).toMatchObject({
      kind: 'done',
      finalOutput: { got: { n: 2 } },
    });
  }
});
