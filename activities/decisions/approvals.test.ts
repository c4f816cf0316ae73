import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createMarkedStarters } from '../admission/starters.ts';
import { APPROVAL_DEFAULTS, FIELD_DEFAULTS } from '../../domain/plan/defaults.ts';
import { FIELD_TYPES, PLAN_LIMITS, type ApprovalWork, type DataRef } from '../../domain/plan/plan.ts';
import { EVENT_LIMITS } from '../../domain/run/event-limits.ts';
import { evaluateTexts } from '../../domain/language/expression/evaluate.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import {
  askApproval,
  type AskRequest,
  checkRejection,
  recordApproval,
  type ApprovalRequest,
  type MadeMessage,
} from './approvals.ts';
import type { RecordedApproval } from '../contract.ts';
import { NO_LENT_VARIABLES } from '../ports/lent-variables.ts';

const APPROVAL: ApprovalWork = {
  ...APPROVAL_DEFAULTS,
  kind: 'approval',
  message: 'Go?',
  by: ['ada'],
  timeoutMs: 9_000,
  fields: [{ ...FIELD_DEFAULTS, name: 'count', type: 'number' }],
};

let stateDir: string;
let stores: Stores;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-approvals-'));
  stores = await openStores({ stateDir });
});

afterEach(async () => {
  await stores.close();
  rmSync(stateDir, { recursive: true, force: true });
});

async function textOf(ref: DataRef): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of stores.artifacts.open(ref)) parts.push(part);
  return Buffer.concat(parts).toString('utf8');
}

const ask = (approval: ApprovalWork, made: MadeMessage | null = null, of: Partial<AskRequest> = {}): Promise<void> =>
  askApproval(
    {
      ...stores,
      lentVariables: NO_LENT_VARIABLES,
      starters: createMarkedStarters(stores.marks),
      evaluateTexts: (...asked) => Promise.resolve(evaluateTexts(...asked)),
      now: () => 5,
    },
    {
      runId: 'r',
      stage: 'ok',
      instance: [],
      item: null,
      execKey: 'ok/0/1',
      attempt: 1,
      approval,
      deadlineAtMs: 9,
      made,
      hostVariables: made === null ? [] : ['TOKEN'],
      events: [],
      ...of,
    },
  );

/** A message that contains the output of stage `a`. */
async function madeOf(output: string, parts: readonly (string | number)[] = ['Ship ', 0, '?']): Promise<MadeMessage> {
  const ref = await stores.artifacts.put([Buffer.from(output)] as never, 'text/plain');
  return {
    texts: { sources: ['stages.a.output'], stages: ['a'], params: {}, texts: [{ place: { kind: 'message' }, parts }] },
    upstream: { a: { output: ref, outputs: {} } },
  };
}

test('a question of an item names the item, without secrets and within one line', async () => {
  const asked = async (text: string, execKey: string): Promise<string | undefined> => {
    await ask(APPROVAL, null, { instance: [{ part: 'each', item: 3 }], item: { index: 3, text }, execKey });
    const event = await stores.events.find('r', `stage/${execKey}/asking`);
    return event?.body.type === 'stage-asking' ? event.body.question?.item : undefined;
  };
  expect(await asked('{"city":"Oslo"}', 'ok/each~3/1')).toBe('{"city":"Oslo"}');
  expect(await asked(`"${'x'.repeat(300)}"`, 'ok/each~3/2')).toBe(`"${'x'.repeat(198)}…`);
  await stores.hostVariables.put('r', { TOKEN: 'hunter2-hunter2' });
  const of = {
    instance: [{ part: 'each', item: 3 }],
    item: { index: 3, text: '"hunter2-hunter2"' },
    hostVariables: ['TOKEN'],
  };
  await ask(APPROVAL, null, { ...of, execKey: 'ok/each~3/4' });
  expect(JSON.stringify(await stores.events.find('r', 'stage/ok/each~3/4/asking'))).not.toContain('hunter2');
  const line = await asked('"a\u001b[31m\nb"', 'ok/each~3/3');
  expect(['\u001b', '\n'].filter((character) => line?.includes(character))).toEqual([]);
});

async function askedMessages(): Promise<readonly (string | undefined)[]> {
  const messages = [];
  for await (const { body } of stores.reader.read('r', 0))
    if (body.type === 'stage-asking') messages.push(body.question?.message);
  return messages;
}

const ANSWER: ApprovalRequest = {
  runId: 'r',
  stage: 'ok',
  instance: [],
  execKey: 'ok/0/1',
  approval: APPROVAL,
  by: 'ada',
  comment: null,
  timedOut: false,
  fields: { count: 3 },
  atMs: 0,
};

const record = (change: Partial<ApprovalRequest> = {}): Promise<RecordedApproval> =>
  recordApproval(stores, { ...ANSWER, ...change });

test('a question is recorded once, also if it is asked again', async () => {
  await ask(APPROVAL);
  await ask(APPROVAL);
  const events = [];
  for await (const event of stores.reader.read('r', 0)) events.push(event);
  expect(events).toEqual([
    {
      seq: 1,
      id: 'stage/ok/0/1/asking',
      atMs: 5,
      body: {
        type: 'stage-asking',
        stage: 'ok',
        execKey: 'ok/0/1',
        attempt: 1,
        question: { message: 'Go?', by: ['ada'], fields: APPROVAL.fields, deadlineAtMs: 9, onTimeout: 'fail' },
      },
    },
  ]);
});

test('a message is made when the question is asked, and does not change later', async () => {
  await ask(APPROVAL, await madeOf('1.2'));
  await ask(APPROVAL, await madeOf('another'));
  expect(await askedMessages()).toEqual(['Ship 1.2?']);
});

test('output of a guest in a message contains no control characters and no secret', async () => {
  await stores.hostVariables.put('r', { TOKEN: 'hunter2-hunter2' });
  await ask(APPROVAL, await madeOf('a\u001b[2Jb\u0007\u202e hunter2-\u001b[0mhunter2'));
  expect(await askedMessages()).toEqual(['Ship ab␇� [redacted]?']);
});

test('a message that cannot be made, or that is too long, fails the stage instead of asking', async () => {
  const most = PLAN_LIMITS.messageCharacters;
  await expect(ask(APPROVAL, await madeOf('x'.repeat(most - 5)))).rejects.toMatchObject({
    code: 'stage/expression',
    message: expect.stringContaining(`has ${most + 1} characters; at most ${most}`),
  });
  const bad = await madeOf('{');
  await expect(ask(APPROVAL, { ...bad, texts: { ...bad.texts, sources: ['stages.a.json.x'] } })).rejects.toMatchObject({
    code: 'stage/expression',
    message: expect.stringMatching(/^stage ok cannot ask: .*not JSON/),
  });
  expect(await askedMessages()).toEqual([]);
  await ask(APPROVAL, await madeOf('x'.repeat(most - 6)));
  expect((await askedMessages()).map((message) => message?.length)).toEqual([most]);
});

test('the largest approval of a plan fits into an event', async () => {
  const widest = '\u0001'.repeat(256);
  const approval: ApprovalWork = { ...APPROVAL, by: Array.from({ length: 80 }, () => widest), fields: [] };
  expect(JSON.stringify(approval).length).toBeGreaterThan(PLAN_LIMITS.approvalBytes * 0.9);
  expect(JSON.stringify(approval).length * 2).toBeLessThan(EVENT_LIMITS.bytes);
  await ask(approval);
});

test('an answer is stored as JSON, and equal answers are the same artifact', async () => {
  const ref = await record();
  expect(await record({ fields: { count: '3' } })).toEqual(ref);
  expect(JSON.parse(await textOf(ref))).toEqual({
    approved: true,
    by: 'ada',
    verified: false,
    comment: null,
    fields: { count: 3 },
    at: '1970-01-01T00:00:00.000Z',
    timedOut: false,
  });
});

test('an answer of a person without a field is refused; a deadline needs no fields', async () => {
  await expect(record({ fields: {} })).rejects.toMatchObject({
    code: 'call/refused',
    message: 'run r: the approval needs the field count (a number)',
  });
  const ref = await record({ by: null, fields: {}, timedOut: true });
  expect(JSON.parse(await textOf(ref))).toMatchObject({ fields: {}, timedOut: true });
});

test('a rejection may omit fields, and its fields are checked', async () => {
  const reject = (fields: unknown) => checkRejection(stores, { ...ANSWER, fields });
  expect(await reject({})).toEqual({ fields: {} });
  expect(await reject({ count: '3' })).toEqual({ fields: { count: 3 } });
  await expect(reject({ count: 'many' })).rejects.toThrow('run r: the field count must be a number, got "many"');
  await expect(reject({ cuont: 3 })).rejects.toThrow('run r: the approval has no field "cuont"; its fields: count');
});

test('the error for a field of each type describes the accepted values', async () => {
  for (const type of FIELD_TYPES) {
    const fields = [{ ...FIELD_DEFAULTS, name: 'x', type, choices: type === 'choice' ? ['a'] : [] }];
    await expect(record({ approval: { ...APPROVAL, fields }, fields: { x: [] } })).rejects.toMatchObject({
      message: expect.stringMatching(/the field x must be (text|a number|true or false|one of: a), got \[\]/),
    });
  }
});
