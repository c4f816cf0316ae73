import { expect, test } from 'vitest';
import type { TokenRow } from '../../store/access.ts';
import type { Stores } from '../../store/stores.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import { createTokenCaller } from '../../test/rig/access/token-caller.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import type { Caller } from '../access/authenticate.ts';
import type { Machine } from '../machine.ts';
import { answerAs, type CallersAnswer } from './answer-as.ts';

const ANSWER: CallersAnswer = { decision: 'approve', stage: null, by: null, comment: null, fields: {} };

/** A run in which stages ask, each with the persons that it names. The server of the run does not answer. */
async function leaveAsking(asked: Readonly<Record<string, readonly string[]>>): Promise<Machine> {
  const stores: Stores = openMemoryStores(new MemoryPlace());
  await stores.events.append(
    'r',
    Object.entries(asked).map(([stage, by], at) => ({
      id: `q${at}`,
      atMs: at + 1,
      body: {
        type: 'stage-asking',
        stage,
        execKey: `${stage}/0/1`,
        attempt: 1,
        question: { message: 'Ship it?', by, fields: [], deadlineAtMs: null, onTimeout: 'fail' },
      },
    })),
  );
  return createTestMachine(stores);
}

function tokenOf(change: Partial<TokenRow> = {}): Caller {
  return createTokenCaller({ scopes: ['approve'], ...change });
}

async function answer(caller: Caller, change: Partial<CallersAnswer>, machine: Machine): Promise<string> {
  const request = { runId: 'r', answer: { ...ANSWER, ...change } };
  return await answerAs(caller, request, machine).then(
    () => 'answered',
    (error: { readonly code: string; readonly message: string }) => `${error.code}: ${error.message}`,
  );
}

/** The answer was allowed, and reached the server of the run, which does not answer here. */
const ALLOWED = 'cli/no-server: the server of the embedded stack does not answer';

test.each([
  ['by its name', tokenOf({ name: 'anna' })],
  ['by a group', tokenOf({ groups: ['qa', 'ops'] })],
  ['as the owner', { kind: 'owner' } as const],
])('a question that names persons is answered %s', async (_how, caller) => {
  expect(await answer(caller, {}, await leaveAsking({ ship: ['anna', 'ops'] }))).toBe(ALLOWED);
});

test('a token that the question does not name is refused, and the message has the names that may answer', async () => {
  expect(await answer(tokenOf({ groups: ['qa'] }), {}, await leaveAsking({ ship: ['anna', 'ops'] }))).toBe(
    'api/not-allowed: the token ci may not answer ship: it asks anna, ops',
  );
});

test('a token answers a question that names no person', async () => {
  expect(await answer(tokenOf(), {}, await leaveAsking({ ship: [] }))).toBe(ALLOWED);
});

test('a token cannot answer under another name', async () => {
  const machine = await leaveAsking({ ship: ['anna'] });
  expect(await answer(tokenOf(), { by: 'anna' }, machine)).toBe(
    'api/invalid-request: `by`: `anna` is not valid: the answer of a token has its name, ci',
  );
  expect(await answer(tokenOf({ name: 'anna' }), { by: 'anna' }, machine)).toBe(ALLOWED);
});

test('the name of another stage does not give the permission of it', async () => {
  const machine = await leaveAsking({ ship: ['anna'], test: ['ci'] });
  expect(await answer(tokenOf(), { stage: 'ship' }, machine)).toContain('api/not-allowed');
  expect(await answer(tokenOf(), { stage: 'test' }, machine)).toBe(ALLOWED);
  expect(await answer(tokenOf(), {}, machine)).toBe(
    'api/invalid-request: `stage`: 2 stages of the run wait for an answer: ship, test',
  );
});

test('a token does not answer a stage that does not ask yet', async () => {
  const machine = await leaveAsking({ ship: ['ci'] });
  expect(await answer(tokenOf(), { stage: 'later' }, machine)).toBe(
    'cli/answer-refused: no stage `later` of run r waits for an answer',
  );
});
