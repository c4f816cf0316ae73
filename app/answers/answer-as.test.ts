import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { describeAnswer, nameProof } from '../../domain/run/answer-proof.ts';
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
async function leaveAsking(
  asked: Readonly<Record<string, readonly string[]>>,
  more: object = {},
  stores: Stores = openMemoryStores(new MemoryPlace()),
): Promise<Machine> {
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
        question: { message: 'Ship it?', by, fields: [], deadlineAtMs: null, onTimeout: 'fail', ...more },
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

const STRICT = { selfApproval: false };

/** The proofs in the marks of the run. */
async function readProofs(stores: Stores): Promise<readonly unknown[]> {
  const names = [null, 'ci', 'anna'].map((token) => nameProof(hash, 'ship/0/1', token));
  const marks = await Promise.all(names.map((name) => stores.marks.get('r', name)));
  return marks.filter((mark) => mark !== null);
}

const hash = (text: string): string => createHash('sha256').update(text).digest('hex');

describe('a question with `self_approval: false`', () => {
  test.each<[string, object]>([
    ['started the run', { baseDir: '/uploads', starter: { kind: 'token', name: 'ci' } }],
    ['started the run that this run retries', { baseDir: '/specs', startedBy: ['ci'] }],
  ])('refuses the token that %s, and leaves no proof', async (_what, mark) => {
    const stores = openMemoryStores(new MemoryPlace());
    const machine = await leaveAsking({ ship: [] }, STRICT, stores);
    await stores.marks.put('r', 'client', mark);
    expect(await answer(tokenOf(), {}, machine)).toBe(
      'api/not-allowed: the token ci may not answer ship: it has `self_approval: false`, and the token started the run',
    );
    expect(await readProofs(stores)).toEqual([]);
    expect(await answer(tokenOf({ name: 'anna', groups: ['ops'] }), { comment: 'go' }, machine)).toBe(ALLOWED);
    const answerer = { kind: 'token', name: 'anna', groups: ['ops'] };
    const given = { decision: 'approve', by: 'anna', comment: 'go', fields: {} } as const;
    expect(await readProofs(stores)).toEqual([{ answerer, decision: 'approve', digest: hash(describeAnswer(given)) }]);
  });

  test('refuses every token if nothing proves who started the run', async () => {
    const machine = await leaveAsking({ ship: [] }, STRICT);
    expect(await answer(tokenOf(), {}, machine)).toContain('nothing proves who started the run');
  });

  test('takes the answer of the owner, whose proof names no token', async () => {
    const stores = openMemoryStores(new MemoryPlace());
    const machine = await leaveAsking({ ship: [] }, STRICT, stores);
    expect(await answer({ kind: 'owner' }, { by: 'ada' }, machine)).toBe(ALLOWED);
    expect(await readProofs(stores)).toMatchObject([{ answerer: { kind: 'owner' }, decision: 'approve' }]);
  });
});

test('the owner leaves no proof where any answer counts', async () => {
  const stores = openMemoryStores(new MemoryPlace());
  await answer({ kind: 'owner' }, { by: 'ada' }, await leaveAsking({ ship: [] }, {}, stores));
  expect(await readProofs(stores)).toEqual([]);
});

test('the same answer of a token gets its receipt while the run continues', async () => {
  const stores = openMemoryStores(new MemoryPlace());
  const machine = await leaveAsking({ ship: [], later: [] }, {}, stores);
  const failure = { code: 'stage/rejected', message: 'no', stderrTail: '' } as const;
  const by = { by: 'ci', verified: true } as const;
  await stores.events.append('r', [
    {
      id: 'answered',
      atMs: 5_000,
      body: { type: 'stage-answered', stage: 'ship', execKey: 'ship/0/1', outcome: 'failed', failure, ...by },
    },
  ]);
  const request = { runId: 'r', answer: { ...ANSWER, stage: 'ship', decision: 'reject' } as const };
  expect(await answerAs(tokenOf(), request, machine)).toEqual({
    stage: 'ship',
    attempt: 1,
    decision: 'reject',
    by: 'ci',
    verified: true,
    comment: null,
    at: '1970-01-01T00:00:05.000Z',
  });
  expect(await answer(tokenOf(), { stage: 'ship' }, machine)).toContain('cli/answer-refused');
});
