/** Decisions of conditions: the data that they read from the store, and the data that a passed stage passes on. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ConditionPlan, DataRef } from '../../domain/plan/plan.ts';
import { evaluateCondition as evaluate } from '../../domain/language/expression/evaluate.ts';
import { EXPRESSION_LIMITS } from '../../domain/language/expression/limits.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import { stageResult } from '../../test/rig/runs/stage-results.ts';
import { type EvaluateRequest, evaluateCondition } from './conditions.ts';
import type { ConditionResult } from '../contract.ts';
import { writeResult } from '../attempt/record.ts';

let stateDir: string;
let stores: Stores;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-conditions-'));
  stores = await openStores({ stateDir });
});

afterEach(async () => {
  await stores.close();
  rmSync(stateDir, { recursive: true, force: true });
});

async function put(text: string): Promise<DataRef> {
  async function* bytes(): AsyncIterable<Uint8Array> {
    yield Buffer.from(text);
  }
  return stores.artifacts.put(bytes(), 'text/plain');
}

async function textOf(ref: DataRef | null): Promise<string | null> {
  if (ref === null) return null;
  const parts: Uint8Array[] = [];
  for await (const part of stores.artifacts.open(ref)) parts.push(part);
  return Buffer.concat(parts).toString('utf8');
}

const when = (source: string, stages: readonly string[], params: ConditionPlan['params'] = {}): ConditionPlan => ({
  source,
  stages,
  params,
});

const decide = (change: Partial<EvaluateRequest>): Promise<ConditionResult> =>
  evaluateCondition(
    { ...stores, evaluate: (source, values) => Promise.resolve(evaluate(source, values)) },
    {
      runId: 'r',
      stage: 's',
      instance: [],
      when: when('true', []),
      handsOn: null,
      runInput: null,
      upstream: {},
      events: [],
      ...change,
    },
  );

test('a condition reads an output as text or as JSON, and the state of its stage', async () => {
  const output = await put('{"n":9007199254740993}');
  const upstream = { a: { state: 'succeeded', attempt: 1, output } } as const;
  await writeResult(stores.events, 'r', stageResult('a/0/1', { output }), null, 0);
  const source =
    'stages.a.json.n == 9007199254740993 && stages.a.output != "" && stages.a.state == "succeeded" && stages.a.exit_code == 0';
  expect(await decide({ when: when(source, ['a']), upstream })).toEqual({ holds: true, output: null });
});

test('the data that a passed stage passes on is not its own output', async () => {
  const upstream = { a: { state: 'passed', attempt: 0, output: await put('of another') } } as const;
  const source = 'has(stages.a.output) || has(stages.a.exit_code)';
  expect(await decide({ when: when(source, ['a']), upstream })).toEqual({ holds: false, output: null });
});

test('a condition reads at most 1 MiB, and only the outputs that it names', async () => {
  const output = await put('x'.repeat(EXPRESSION_LIMITS.inputBytes));
  const upstream = { a: { state: 'succeeded', attempt: 1, output } } as const;
  expect(await decide({ when: when('stages.a.state == "succeeded"', ['a']), upstream })).toMatchObject({ holds: true });
  await expect(decide({ when: when('stages.a.output != ""', ['a']), upstream })).rejects.toMatchObject({
    code: 'stage/condition',
    message:
      'the condition of stage s cannot be decided: it reads 1048578 bytes; at most 1048576 are allowed: let a stage print only what the condition needs: stages.a.output != ""',
  });
});

test('a condition that cannot be decided fails with its text and the reason', async () => {
  const upstream = { a: { state: 'succeeded', attempt: 1, output: await put('{}') } } as const;
  await expect(decide({ when: when('stages.a.json.ok', ['a']), upstream })).rejects.toMatchObject({
    code: 'stage/condition',
    message: expect.stringMatching(
      /^the condition of stage s cannot be decided: no such key: ok; .*: stages\.a\.json\.ok$/,
    ),
  });
});

test('a passed box passes on the input that it would have had', async () => {
  const never = when('false', []);
  const ref = await put('before');
  const left = { state: 'succeeded', attempt: 1, output: await put('"l"') } as const;
  const right = { state: 'passed', attempt: 0, output: null } as const;
  const handedOn = async (change: Partial<EvaluateRequest>): Promise<string | null> =>
    textOf((await decide({ when: never, ...change })).output);
  expect(await handedOn({ handsOn: { kind: 'carry', stage: 'left' }, upstream: { left } })).toBe('"l"');
  expect(await handedOn({ handsOn: { kind: 'merge', stages: ['left', 'right'] }, upstream: { left, right } })).toBe(
    '[{"name":"left","output":"l"}]',
  );
  expect(await handedOn({ handsOn: { kind: 'run-input' }, runInput: { kind: 'inline', text: '{"a":1}' } })).toBe(
    '{"a":1}',
  );
  expect(await handedOn({ handsOn: { kind: 'run-input' }, runInput: { kind: 'ref', ref } })).toBe('before');
  expect(await handedOn({ handsOn: { kind: 'run-input' } })).toBeNull();
  expect(await handedOn({ handsOn: { kind: 'none' } })).toBeNull();
  expect(await handedOn({ upstream: { left } })).toBeNull();
  expect(await decide({ handsOn: { kind: 'carry', stage: 'left' }, upstream: { left } })).toEqual({
    holds: true,
    output: null,
  });
});

test('the events of the workflow are written before the condition is decided', async () => {
  const event = { id: 'stage/x/skipped', atMs: 1, body: { type: 'stage-skipped', stage: 'x', reason: 'no' } } as const;
  await expect(
    decide({
      when: when('stages.a.output == ""', ['a']),
      upstream: { a: { state: 'passed', attempt: 0, output: null } },
      events: [event],
    }),
  ).rejects.toMatchObject({ code: 'stage/condition' });
  const events = [];
  for await (const each of stores.reader.read('r', 0)) events.push(each.id);
  expect(events).toEqual([event.id]);
});
