import { createHash } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import { APPROVAL_DEFAULTS } from '../../domain/plan/defaults.ts';
import type { ApprovalWork } from '../../domain/plan/plan.ts';
import {
  type Answerer,
  describeAnswer,
  findAnswererName,
  nameProof,
  type ProvenAnswer,
} from '../../domain/run/answer-proof.ts';
import type { NewRunEvent, RunEventBody } from '../../domain/run/event.ts';
import type { Stores } from '../../store/stores.ts';
import { planOf } from '../../test/machine/plan-of.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import type { AdmittedRun } from '../admission/admitted-run.ts';
import { type AnswerDeps, checkAnswersIn, filterProven } from './answer-proofs.ts';
import { checkRejection, recordApproval } from './approvals.ts';

const WORK: ApprovalWork = { ...APPROVAL_DEFAULTS, kind: 'approval', message: 'Ship?' };
const STRICT: ApprovalWork = { ...WORK, by: ['ada', 'ops'], selfApproval: false };
const QUESTION = { runId: 'r', stage: 'ok', instance: [], execKey: 'ok/0/1' };
const ADA = { kind: 'token', name: 'ada', groups: [] } as const;
const ANSWER = { by: 'ada', comment: 'fine', fields: {} };

let stores: Stores;

beforeEach(() => {
  stores = openMemoryStores(new MemoryPlace());
});

const hash = (text: string): string => createHash('sha256').update(text).digest('hex');

/** Writes a proof, as the service does before it sends the answer. */
async function prove(answerer: Answerer, change: Partial<ProvenAnswer> = {}, execKey = 'ok/0/1'): Promise<void> {
  const answer: ProvenAnswer = { decision: 'approve', ...ANSWER, ...change };
  const name = nameProof(hash, execKey, findAnswererName(answerer));
  await stores.marks.put('r', name, { answerer, decision: answer.decision, digest: hash(describeAnswer(answer)) });
}

const startedBy = (name: string): Promise<void> =>
  stores.marks.put('r', 'client', { baseDir: '/uploads', starter: { kind: 'token', name } });

const approve = (approval: ApprovalWork, change: object = {}) =>
  recordApproval(stores, { ...QUESTION, approval, ...ANSWER, timedOut: false, atMs: 0, ...change });
const reject = (approval: ApprovalWork, change: object = {}) =>
  checkRejection(stores, { ...QUESTION, approval, ...ANSWER, ...change });

describe('an answer without a proof', () => {
  test('is a claim where the approval takes any answer', async () => {
    expect(await approve(WORK)).not.toHaveProperty('verified');
    expect(await reject(WORK)).toEqual({ fields: {} });
  });

  test('is refused where the approval needs a proof, and so is a rejection', async () => {
    await startedBy('ci');
    const refusal = {
      code: 'call/not-allowed',
      message: 'run r: the answer to ok is refused: nothing proves who sent the answer',
    };
    await expect(approve(STRICT)).rejects.toMatchObject(refusal);
    await expect(reject(STRICT)).rejects.toMatchObject(refusal);
    await expect(approve(STRICT, { by: null })).rejects.toMatchObject(refusal);
  });
});

describe('an answer with the proof of a token', () => {
  test('is verified', async () => {
    await prove(ADA);
    expect(await approve(WORK)).toMatchObject({ verified: true });
    await startedBy('ci');
    expect(await approve(STRICT)).toMatchObject({ verified: true });
    await prove(ADA, { decision: 'reject' });
    expect(await reject(STRICT)).toEqual({ fields: {}, verified: true });
  });

  test.each<[string, object]>([
    ['another name', { by: 'bob' }],
    ['another comment', { comment: 'not so fine' }],
    ['other fields', { fields: { size: 1 } }],
    ['another attempt', { execKey: 'ok/0/2' }],
    ['another item', { execKey: 'ok/each~1/1' }],
    ['another run', { runId: 'other' }],
  ])('proves no answer with %s', async (_what, change) => {
    await prove(ADA);
    const fields = [{ name: 'size', type: 'number', required: false, description: '', choices: [] }] as const;
    expect(await approve({ ...WORK, fields }, change)).not.toHaveProperty('verified');
  });

  test('proves no other decision, and only the latest answer of the token', async () => {
    await prove(ADA);
    expect(await reject(WORK)).toEqual({ fields: {} });
    await prove(ADA, { comment: 'later' });
    expect(await approve(WORK)).not.toHaveProperty('verified');
    expect(await approve(WORK, { comment: 'later' })).toMatchObject({ verified: true });
  });

  test('is refused if the token started the run, or a run that it continues', async () => {
    await prove(ADA);
    const refusal = { code: 'call/not-allowed', message: expect.stringContaining('the token started the run') };
    await startedBy('ada');
    await expect(approve(STRICT)).rejects.toMatchObject(refusal);
    await stores.marks.put('r', 'client', { baseDir: '/specs', startedBy: ['ada'] });
    await expect(approve(STRICT)).rejects.toMatchObject(refusal);
  });

  test.each<[string, unknown]>([
    ['no mark', null],
    ['a starter of a later build', { baseDir: '/x', starter: { kind: 'robot', name: 'ci' } }],
    ['tokens that are no texts', { baseDir: '/x', startedBy: [7] }],
  ])('is refused if the run has %s, because nothing proves who started it', async (_what, mark) => {
    await prove(ADA);
    if (mark !== null) await stores.marks.put('r', 'client', mark);
    await expect(approve(STRICT)).rejects.toThrow('nothing proves who started the run');
  });

  test('is refused if the approval asks others; a group is enough', async () => {
    await startedBy('ci');
    const eve = { kind: 'token', name: 'eve', groups: ['dev'] } as const;
    await prove(eve, { by: 'eve' });
    await expect(approve(STRICT, { by: 'eve' })).rejects.toThrow('the token eve may not answer: it asks ada, ops');
    await prove({ ...eve, groups: ['ops'] }, { by: 'eve' });
    expect(await approve(STRICT, { by: 'eve' })).toMatchObject({ verified: true });
  });
});

describe('an answer with the proof of a link', () => {
  const LINK = { kind: 'link', name: 'ada' } as const;

  test('is verified under the name of the link, if another token started the run', async () => {
    await prove(LINK);
    expect(await approve(WORK)).toMatchObject({ verified: true });
    await startedBy('ci');
    expect(await approve(STRICT)).toMatchObject({ verified: true });
  });

  test('is refused if the approval does not ask its name, or if the token of this name started the run', async () => {
    await startedBy('ci');
    await prove({ ...LINK, name: 'eve' }, { by: 'eve' });
    await expect(approve(STRICT, { by: 'eve' })).rejects.toThrow(
      'the link for eve may not answer: its `by` does not contain "eve", for which the link is',
    );
    await prove(LINK);
    await startedBy('ada');
    await expect(approve(STRICT)).rejects.toThrow('the link for ada may not answer: it has `self_approval: false`');
  });
});

test('the owner may answer under any name, which stays a claim', async () => {
  await prove({ kind: 'owner' });
  const ref = await approve(STRICT);
  expect(ref).not.toHaveProperty('verified');
});

describe('the event of an answer', () => {
  const plan = planOf('own ok>own');
  const strictPlan = {
    ...plan,
    stages: plan.stages.map((stage) => (stage.id === 'ok' ? { ...stage, scope: null, work: STRICT } : stage)),
  };
  const deps = (): AnswerDeps => ({
    marks: stores.marks,
    runOf: () => Promise.resolve({ plan: strictPlan } as unknown as AdmittedRun),
  });
  const eventOf = (change: object = {}): NewRunEvent => {
    const body = { type: 'stage-answered', stage: 'ok', execKey: 'ok/0/1', outcome: 'succeeded', failure: null };
    const source = { by: 'ada', comment: 'fine', verified: true };
    return { id: 'stage/ok/0/1/answered', atMs: 1, body: { ...body, ...source, ...change } as RunEventBody };
  };
  const append = (change?: object) => checkAnswersIn(stores.events, deps()).append('r', [eventOf(change)]);

  test('is written if a worker has judged the answer, also if the token answers again before', async () => {
    await startedBy('ci');
    await prove(ADA);
    const { verified, ...output } = await approve(STRICT);
    expect(verified).toBe(true);
    await prove(ADA, { decision: 'reject' });
    expect(await append({ output })).toBe(1);
  });

  test.each<[string, object]>([
    ['another name', { by: 'eve' }],
    ['another comment', { comment: 'forged' }],
    ['another attempt', { execKey: 'ok/0/2' }],
    ['no claim of a proof', { verified: undefined }],
    ['another output', { output: { sha256: 'f'.repeat(64), sizeBytes: 1, mediaType: 'application/json' } }],
    ['a rejection', { outcome: 'failed', failure: { code: 'stage/rejected', message: 'no', stderrTail: '' } }],
  ])('is refused with %s', async (_what, change) => {
    await startedBy('ci');
    await prove(ADA);
    const { verified: _verified, ...output } = await approve(STRICT);
    await expect(append({ output, ...change })).rejects.toMatchObject({ code: 'call/not-allowed' });
    expect(await filterProven(deps(), 'r', [eventOf({ output, ...change })])).toEqual([]);
    expect(await filterProven(deps(), 'r', [eventOf({ output })])).toHaveLength(1);
  });

  test('is written without a proof if the question was withdrawn, or its deadline passed', async () => {
    const none = { by: undefined, comment: undefined, verified: undefined };
    expect(await append({ ...none, outcome: 'cancelled' })).toBe(1);
    const failure = { code: 'stage/no-answer', message: 'late', stderrTail: '' };
    expect(await append({ ...none, outcome: 'failed', failure, execKey: 'ok/0/2' })).toBe(0);
  });
});
