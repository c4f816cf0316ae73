import { expect, test } from 'vitest';
import type { AnyErrorCode } from '../errors/error-code.ts';
import type { Question, RunEvent, RunEventBody, RunOutcome } from '../run/event.ts';
import type { Notice } from './notice.ts';
import { findUrlProblem, listNotifySecrets, NO_NOTIFY, NOTIFY_LIMITS } from './notify.ts';
import { findNotifyPause, MOST_NOTIFY_TRIES } from './retry.ts';
import { findEnd, NEW_WATCH, observeEvent, observeTime, type WatchState } from './watch.ts';

const QUESTION: Question = {
  message: 'Deploy?',
  by: ['ann'],
  fields: [],
  deadlineAtMs: 9_000,
  onTimeout: 'fail' as Question['onTimeout'],
};
const FAILURE = { code: 'stage/exit' as AnyErrorCode, message: 'it printed SECRET', stderrTail: 'tail' };
const OUTCOME: RunOutcome = { state: 'failed', failedStage: 'test', failure: FAILURE, output: null };
const clean = (text: string): string => text.replaceAll('SECRET', '[redacted]');

let seq = 0;
const eventOf = (body: RunEventBody, atMs = 1_000): RunEvent => ({ id: 'x', seq: (seq += 1), atMs, body });
const ask = (execKey: string, question: Partial<Question> = {}): RunEventBody => ({
  type: 'stage-asking',
  stage: 'approve',
  execKey,
  attempt: 1,
  question: { ...QUESTION, ...question },
});
const answer = (execKey: string): RunEventBody => ({
  type: 'stage-answered',
  stage: 'approve',
  execKey,
  outcome: 'succeeded',
  failure: null,
});
const finish = (outcome: Partial<RunOutcome> = {}): RunEventBody => ({
  type: 'run-finished',
  outcome: { ...OUTCOME, ...outcome },
});
const fail = (code: string): RunEventBody => ({
  type: 'stage-failed',
  stage: 'agent',
  execKey: 'k',
  failure: { ...FAILURE, code: code as AnyErrorCode },
});

function observeAll(bodies: readonly RunEventBody[], first = NEW_WATCH): { state: WatchState; notices: Notice[] } {
  let state = first;
  const notices: Notice[] = [];
  for (const body of bodies) {
    // The state is stored as JSON.
    const step = observeEvent(JSON.parse(JSON.stringify(state)) as WatchState, eventOf(body), clean);
    state = step.state;
    notices.push(...step.notices);
  }
  return { state, notices };
}

test('a run that fails has a notice with its stage, its code and its redacted message', () => {
  const { notices } = observeAll([{ type: 'run-resumed', by: 'x' }, finish()]);
  expect(notices).toEqual([
    {
      kind: 'failed',
      occurrence: '',
      atMs: 1_000,
      text: 'the run has failed in stage test',
      stage: 'test',
      code: 'stage/exit',
      message: 'it printed [redacted]',
      question: null,
    },
  ]);
});

test.each([
  ['succeeded', [], 'succeeded'],
  ['cancelled', [], 'cancelled'],
  ['failed', ['the run has failed'], 'failed'],
  ['terminated', ['the run was terminated'], 'failed'],
] as const)('a run that was %s has its notices and its end', (state, texts, end) => {
  const body = finish({ state, failedStage: null, failure: null });
  expect(observeAll([body]).notices.map(({ text }) => text)).toEqual(texts);
  expect(findEnd(eventOf(body))).toBe(end);
  expect(findEnd(eventOf(answer('k')))).toBeNull();
});

test('a question has a notice, and one more if it is open for long', () => {
  const { state, notices } = observeAll([ask('a', { message: 'SECRET?', item: '{"a":"SECRET"}' }), ask('b')]);
  expect(notices).toMatchObject([
    {
      kind: 'asking',
      occurrence: 'a',
      stage: 'approve',
      question: { message: '[redacted]?', by: ['ann'], deadlineAtMs: 9_000, item: '{"a":"[redacted]"}' },
    },
    { kind: 'asking', occurrence: 'b' },
  ]);
  const answered = observeAll([answer('a')], state).state;
  const rules = { lateAfterMs: null, waitingAfterMs: 500 };
  expect(observeTime(answered, rules, { startedAtMs: 0, nowMs: 1_499 })).toEqual({ state: answered, notices: [] });
  const late = observeTime(answered, rules, { startedAtMs: 0, nowMs: 1_500 });
  expect(late.notices).toMatchObject([
    { kind: 'waiting_long', occurrence: 'b', atMs: 1_500, question: { by: ['ann'] } },
  ]);
  expect(observeTime(late.state, rules, { startedAtMs: 0, nowMs: 9_999 }).notices).toEqual([]);
  expect(observeAll([finish()], answered).state.questions).toEqual([]);
});

test('a run has at most so many notices about questions, and names of a question', () => {
  const by = Array.from({ length: NOTIFY_LIMITS.names + 1 }, (_, index) => `p${index}`);
  const bodies = Array.from({ length: NOTIFY_LIMITS.questions + 1 }, (_, index) => ask(`k${index}`, { by }));
  const { state, notices } = observeAll(bodies);
  expect(notices).toHaveLength(NOTIFY_LIMITS.questions);
  expect(notices[0]!.question!.by).toHaveLength(NOTIFY_LIMITS.names);
  expect(state.questions).toHaveLength(NOTIFY_LIMITS.questions);
});

test('a run is late once, at its exact time', () => {
  const rules = { lateAfterMs: 2_000, waitingAfterMs: 1 };
  expect(observeTime(NEW_WATCH, rules, { startedAtMs: 100, nowMs: 2_099 }).notices).toEqual([]);
  const { state, notices } = observeTime(NEW_WATCH, rules, { startedAtMs: 100, nowMs: 2_100 });
  expect(notices).toMatchObject([{ kind: 'late', atMs: 2_100, text: 'the run has not ended after 2.0 s' }]);
  expect(observeTime(state, rules, { startedAtMs: 100, nowMs: 9_000 }).notices).toEqual([]);
});

test.each(['agent/budget-turns', 'agent/budget-cost', 'run/budget-tokens'])(
  'a used budget has one notice: %s',
  (code) => {
    const { notices } = observeAll([
      fail(code),
      fail(code),
      finish({ failure: { ...FAILURE, code: code as AnyErrorCode } }),
    ]);
    expect(notices.map(({ kind }) => kind)).toEqual(['budget', 'failed']);
    expect(notices[0]).toMatchObject({ stage: 'agent', code, message: 'it printed [redacted]' });
  },
);

test('a stage that fails for another reason has no notice: it may be tried again', () => {
  expect(observeAll([fail('stage/exit')]).notices).toEqual([]);
});

test('eight tries end a day after the first one', () => {
  const pauses = Array.from({ length: 20 }, (_, index) => findNotifyPause(index + 1)).filter((pause) => pause !== null);
  expect([pauses.length + 1, MOST_NOTIFY_TRIES]).toEqual([8, 8]);
  expect(pauses.reduce((sum, pause) => sum + pause, 0)).toBe(24 * 60 * 60_000);
  expect(pauses).toEqual(pauses.toSorted((one, other) => one - other));
});

test.each([
  ['https://ops.example/a?b=c', null],
  ['http://ops.internal:8080', null],
  ['ftp://ops.example', 'it is not an http or https URL with a host'],
  ['https:///a', 'it is not an http or https URL with a host'],
  ['https://ops.example/a b', 'it has a character that URLs encode as `%…`'],
  ['https://ops.example/\n', 'it has a character that URLs encode as `%…`'],
  ['https://ann:word@ops.example', 'it contains a login, which would be readable in the spec'],
  [`https://a/${'x'.repeat(NOTIFY_LIMITS.urlCharacters - 10)}`, null],
  [`https://a/${'x'.repeat(NOTIFY_LIMITS.urlCharacters - 9)}`, 'it has more than 2048 characters'],
])('the URL of a receiver is checked: %s', (url, problem) => {
  expect(findUrlProblem(url)).toBe(problem);
});

test('the secrets of receivers are listed once, without absent ones', () => {
  const receiver = { states: ['failed'], as: null } as const;
  expect(
    listNotifySecrets({
      ...NO_NOTIFY,
      receivers: [
        { ...receiver, name: 'a', target: { kind: 'webhook', url: 'https://a', secret: 'B' } },
        { ...receiver, name: 'b', target: { kind: 'slack', secret: 'A' } },
        { ...receiver, name: 'c', target: { kind: 'cloudevents', url: 'https://a', token: 'B' } },
        { ...receiver, name: 'd', target: { kind: 'cloudevents', url: 'https://a', token: null } },
      ],
    }),
  ).toEqual(['A', 'B']);
});
