import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { APPROVAL_DEFAULTS, FIELD_DEFAULTS } from '../domain/plan/defaults.ts';
import { FIELD_TYPES, PLAN_LIMITS, type ApprovalWork, type DataRef } from '../domain/plan/plan.ts';
import { EVENT_LIMITS } from '../domain/run/event-limits.ts';
import { openStores, type Stores } from '../store/open-stores.ts';
import { askApproval, recordApproval, type ApprovalRequest } from './approvals.ts';

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

afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

async function textOf(ref: DataRef): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of stores.artifacts.open(ref)) parts.push(part);
  return Buffer.concat(parts).toString('utf8');
}

const ask = (approval: ApprovalWork): Promise<void> =>
  askApproval(
    { events: stores.events, now: () => 5 },
    { runId: 'r', stage: 'ok', execKey: 'ok/0/1', attempt: 1, approval, deadlineAtMs: 9, events: [] },
  );

const record = (change: Partial<ApprovalRequest> = {}): Promise<DataRef> =>
  recordApproval(stores, {
    runId: 'r',
    approval: APPROVAL,
    by: 'ada',
    comment: null,
    timedOut: false,
    fields: { count: 3 },
    atMs: 0,
    ...change,
  });

test('a question is told once, however often it is asked', async () => {
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

test('the largest approval that a plan takes fits into an event', async () => {
  const widest = '\u0001'.repeat(256);
  const approval: ApprovalWork = { ...APPROVAL, by: Array.from({ length: 80 }, () => widest), fields: [] };
  expect(JSON.stringify(approval).length).toBeGreaterThan(PLAN_LIMITS.approvalBytes * 0.9);
  expect(JSON.stringify(approval).length * 2).toBeLessThan(EVENT_LIMITS.bytes);
  await ask(approval);
});

test('an answer is kept as JSON, the same one as the same artifact', async () => {
  const ref = await record();
  expect(await record({ fields: { count: '3' } })).toEqual(ref);
  expect(JSON.parse(await textOf(ref))).toEqual({
    approved: true,
    by: 'ada',
    comment: null,
    fields: { count: 3 },
    at: '1970-01-01T00:00:00.000Z',
    timedOut: false,
  });
});

test('an answer without a field is refused to people; a deadline fills in no form', async () => {
  await expect(record({ fields: {} })).rejects.toMatchObject({
    code: 'call/refused',
    message: 'run r: the approval needs the field count (a number)',
  });
  const ref = await record({ by: null, fields: {}, timedOut: true });
  expect(JSON.parse(await textOf(ref))).toMatchObject({ fields: {}, timedOut: true });
});

test('a field of each type has words for what it takes', async () => {
  for (const type of FIELD_TYPES) {
    const fields = [{ ...FIELD_DEFAULTS, name: 'x', type, choices: type === 'choice' ? ['a'] : [] }];
    await expect(record({ approval: { ...APPROVAL, fields }, fields: { x: [] } })).rejects.toMatchObject({
      message: expect.stringMatching(/the field x must be (text|a number|true or false|one of: a), got \[\]/),
    });
  }
});
