import { expect, test } from 'vitest';
import { sealed } from '../../test/rig/skills/sealed-state.ts';
import type { Command } from './command.ts';
import type { SessionEventBody } from './event.ts';
import type { SkillFacts, StepFacts } from './facts.ts';
import { Fold, newSession, transition } from './machine.ts';
import { flush } from './records.ts';
import { backoffMs } from './visit.ts';
import type { SessionState } from './state.ts';
import { listPendingCommands } from './work.ts';

const STEP: StepFacts = {
  prompt: true,
  response: false,
  action: false,
  save: false,
  next: { kind: 'terminal' },
  inCycle: false,
  maxVisits: null,
  onMaxVisits: null,
  maxInvalid: 10,
  retry: { maxAttempts: 1, backoffMs: 1_000, backoffFactor: 2, maxBackoffMs: 60_000 },
  timeoutMs: null,
  parallel: null,
  wait: null,
  human: null,
  call: null,
};

function factsFor(steps: Record<string, Partial<StepFacts>>, more: Partial<SkillFacts> = {}): SkillFacts {
  return {
    name: 'sample',
    version: '1.0.0',
    codeHash: null,
    entry: Object.keys(steps)[0]!,
    finalOutput: false,
    stores: null,
    steps: Object.fromEntries(Object.entries(steps).map(([name, step]) => [name, { ...STEP, ...step }])),
    hasParallel: false,
    subskills: {},
    topics: [],
    ...more,
  };
}

/** Applies events one after the other and returns the commands of the last. */
function run(
  facts: SkillFacts,
  state: SessionState,
  ...events: SessionEventBody[]
): { state: SessionState; commands: readonly Command[] } {
  let commands: readonly Command[] = [];
  for (const event of events)
    ({ state, commands } = transition(facts, sealed(state), { ...event, atMs: state.nowMs + 10 }));
  return { state, commands };
}

const begin = (facts: SkillFacts): SessionState => newSession(facts, { session: 's', params: {}, atMs: 1_000 });
const START: SessionEventBody = { type: 'start', request: 'r0' };
const rendered = (cursor: number): SessionEventBody => ({
  type: 'rendered',
  cursor,
  prompt: { prompt: 'p', schema: null },
});
const advance = (step: string): SessionEventBody => ({ type: 'advance', request: 'r1', step, value: { v: 1 } });

test('each piece of the work of a turn is one command, in order', () => {
  const facts = factsFor({
    a: { response: true, action: true, save: true, timeoutMs: 50, next: { kind: 'choose', to: null } },
    b: {},
  });
  let { state, commands } = run(facts, begin(facts), START);
  const types = (): string[] => commands.map(({ type }) => type);
  expect(types()).toEqual(['emit', 'render-prompt']);
  ({ state, commands } = run(facts, state, rendered(1)));
  expect(types()).toEqual(['reply']);
  ({ state, commands } = run(facts, state, advance('a')));
  expect(commands).toEqual([{ type: 'validate', cursor: 1, frame: 0, step: 'a', value: { v: 1 } }]);
  ({ state, commands } = run(facts, state, { type: 'validated', cursor: 1, ok: true, value: { v: 2 } }));
  expect(commands).toEqual([
    {
      type: 'run-action',
      cursor: 1,
      frame: 0,
      step: 'a',
      response: { v: 2 },
      attempt: 1,
      idempotencyKey: 's/1/a',
      timeoutMs: 50,
    },
  ]);
  ({ state, commands } = run(facts, state, { type: 'action-ended', cursor: 1, attempt: 1, ok: true, value: 'acted' }));
  expect(commands).toEqual([
    { type: 'save', cursor: 1, frame: 0, step: 'a', response: { v: 2 }, actionResult: 'acted' },
  ]);
  ({ state, commands } = run(facts, state, { type: 'saved', cursor: 1, writes: { env: { x: 1 } } }));
  expect(types()).toEqual(['emit', 'choose-next']);
  expect(commands[1]).toMatchObject({ attempts: 1, actionResult: 'acted' });
  ({ state, commands } = run(facts, state, { type: 'chosen', cursor: 1, target: 'b' }));
  expect(types()).toEqual(['emit', 'emit', 'render-prompt']);
  expect(state.frames[0]).toMatchObject({ visits: { a: 1 }, stores: { env: { x: 1 } }, last: { a: 'acted' } });
});

test('commands that are under way can be listed again, and an answer that comes twice counts once', () => {
  const facts = factsFor({ a: { action: true, next: { kind: 'to', to: 'b' } }, b: {} });
  const { state, commands } = run(facts, begin(facts), START, rendered(1), advance('a'));
  expect(listPendingCommands(facts, JSON.parse(JSON.stringify(state)) as SessionState)).toEqual(commands);
  const ended: SessionEventBody = { type: 'action-ended', cursor: 1, attempt: 1, ok: true, value: 1 };
  const once = run(facts, state, ended);
  const twice = run(facts, once.state, ended, rendered(1));
  expect(twice.state).toEqual({ ...once.state, nowMs: twice.state.nowMs });
  expect(twice.commands).toEqual([]);
});

test('a late end of an earlier attempt does not end the present one', () => {
  const facts = factsFor({ a: { action: true, retry: { ...STEP.retry, maxAttempts: 3 } } });
  const failed: SessionEventBody = {
    type: 'action-ended',
    cursor: 1,
    attempt: 1,
    ok: false,
    error: { name: 'Error', message: 'no' },
    retryable: true,
    timedOut: true,
  };
  const { state, commands } = run(facts, begin(facts), START, rendered(1), advance('a'), failed);
  expect(commands).toEqual([
    { type: 'wait', cursor: 1, frame: 0, step: 'a', reason: 'retry', durationMs: 1_000, dueMs: 2_040 },
  ]);
  const again = run(facts, state, { type: 'timer-fired', cursor: 1, reason: 'retry' });
  expect(again.commands).toMatchObject([{ type: 'run-action', attempt: 2, idempotencyKey: 's/1/a' }]);
  expect(run(facts, again.state, { type: 'action-ended', cursor: 1, attempt: 1, ok: true }).commands).toEqual([]);
});

test('delays grow by the factor up to the longest', () => {
  const retry = { maxAttempts: 9, backoffMs: 100, backoffFactor: 3, maxBackoffMs: 1_000 };
  expect([1, 2, 3, 4, 50].map((failed) => backoffMs(retry, failed))).toEqual([100, 300, 900, 1_000, 1_000]);
});

test('a called sub-skill may run elsewhere: its end is all that the caller needs', () => {
  const sub = factsFor({ x: {} }, { name: 'sub' });
  const facts = factsFor(
    { use: { prompt: false, call: 'sub', next: { kind: 'to', to: 'b' } }, b: {} },
    { subskills: { sub } },
  );
  const { state, commands } = run(facts, begin(facts), START);
  expect(commands.at(-1)).toEqual({
    type: 'start-child',
    cursor: 1,
    frame: 0,
    step: 'use',
    subskill: 'sub',
    response: {},
    returns: true,
  });
  const ended = run(facts, state, { type: 'child-ended', cursor: 1, finalOutput: { n: 1 } });
  expect(ended.state.frames).toHaveLength(1);
  expect(ended.state.frames[0]).toMatchObject({ last: { use: { n: 1 } }, visits: { use: 1 } });
});

test('records can be moved out of the state without effect on later decisions', () => {
  const facts = factsFor({ a: { inCycle: true, next: { kind: 'to', to: 'a' } } });
  let { state } = run(facts, begin(facts), START, rendered(1));
  for (let i = 0; i < 9; i++) {
    ({ state } = run(
      facts,
      { ...state, records: flush(state.records, `ref${i}`) },
      advance('a'),
      rendered(state.turn + 1),
    ));
  }
  expect(state.records).toMatchObject({ flushed: 8, flushedRef: 'ref8', length: 1 });
  const { state: over, commands } = run(facts, state, advance('a'));
  expect(over.status).toMatchObject({ kind: 'failed', error: { name: 'CycleGuardError' } });
  expect(commands.at(-1)).toMatchObject({
    type: 'reply',
    result: { error: 'failed', message: expect.stringContaining('implicit cycle limit (10 visits)') as string },
  });
});

test('two steps that lead on together cannot be one: a branch that enters a step of another fails the session', () => {
  const facts = factsFor(
    {
      fork: { prompt: false, parallel: { branches: ['a', 'b'], join: 'z' } },
      a: { next: { kind: 'to', to: 'b' } },
      b: { next: { kind: 'to', to: 'z' } },
      z: {},
    },
    { hasParallel: true },
  );
  const { state } = run(facts, begin(facts), START);
  const ids = state.cursors.map(({ id }) => id);
  const over = run(facts, state, ...ids.map(rendered), advance('a'));
  expect(over.state.status).toMatchObject({
    kind: 'failed',
    error: { message: expect.stringContaining('"b" is current in another branch') as string },
  });
});

test('a state that a caller has read does not change with later events', () => {
  const facts = factsFor({ a: { save: true, inCycle: true, next: { kind: 'to', to: 'a' } } });
  const fold = new Fold(facts, sealed(begin(facts)));
  const said: [SessionState, string][] = [];
  const apply = (event: SessionEventBody): void => {
    fold.apply(event, fold.current.nowMs + 10);
    const { state } = fold;
    said.push([sealed(state), JSON.stringify(state)]);
  };
  apply(START);
  for (let turn = 1; turn <= 4; turn++) {
    apply(rendered(turn));
    apply(advance('a'));
    apply({ type: 'saved', cursor: turn, writes: { notes: { turn } } });
  }
  for (const [state, text] of said)
    expect(
      JSON.stringify({
        ...state,
        records: { ...state.records, items: state.records.items.slice(0, state.records.length) },
      }),
    ).toBe(text);
  expect(fold.current.frames[0]).toMatchObject({ visits: { a: 4 }, stores: { notes: { turn: 4 } } });
});

test('half an event is never used as a state: after a bug, the fold throws on every use', () => {
  const facts = factsFor({ a: { save: true } });
  const fold = new Fold(facts, begin(facts));
  fold.apply(START, 1);
  fold.apply(rendered(1), 2);
  fold.apply(advance('a'), 3);
  const writes = {
    get notes(): never {
      throw new Error('no value');
    },
  };
  expect(() => fold.apply({ type: 'saved', cursor: 1, writes }, 4)).toThrow('no value');
  expect(() => fold.state).toThrow('no value');
  expect(() => fold.apply({ type: 'tick' }, 5)).toThrow('no value');
});
