import { describe, expect, test } from 'vitest';
import type { SessionView } from '../../activities/contract-session.ts';
import type { SessionResult, PromptResult } from '../../domain/step-machine/result.ts';
import { mayConcernOthers, resolveInFamily, joinViews, prefixView } from './family.ts';

const prompt = (step: string, turn: number): PromptResult => ({
  kind: 'prompt',
  step,
  prompt: `${step}?`,
  schema: null,
  turn,
});
const view = (
  current: SessionResult | null,
  open: SessionView['open'],
  childSessions: SessionView['childSessions'] = [],
): SessionView => ({
  session: 's',
  skill: 'calls',
  version: '1.0.0',
  codeHash: 'h',
  status: 'open',
  turn: 1,
  current,
  open,
  visits: {},
  last: null,
  childSessions,
  blocked: null,
  startedAtMs: 1,
});
const asking = (step: string, turn: number): SessionView['open'][number] => ({ step, turn, phase: 'asking' });
const CHILD = { session: 's~2', prefix: 'call/' };
const INNER = prefixView(view(prompt('ask', 7), [asking('ask', 7)]), CHILD.prefix);

describe('views of a family', () => {
  test('one that asks shows beside its own what its sub-skills ask, by addresses', () => {
    const { current, open } = joinViews(view(prompt('own', 1), [asking('own', 1)], [CHILD]), INNER);
    expect(current).toMatchObject({ step: 'own', open: [{ step: 'call/ask', turn: 7 }] });
    expect(open.map(({ step }) => step)).toEqual(['own', 'call/ask']);
  });

  test('one that asks nothing shows what its sub-skill asks; one whose sub-skill is not there yet, itself', () => {
    const busy: SessionResult = { kind: 'error', error: 'busy', step: 'call', message: 'm', retry: true };
    expect(joinViews(view(busy, [], [CHILD]), INNER).current).toMatchObject({ kind: 'prompt', step: 'call/ask' });
    expect(joinViews(view(busy, [], [CHILD]), null).current).toBe(busy);
  });
});

describe('an answer in the light of the family', () => {
  const family = joinViews(view(prompt('own', 1), [asking('own', 1)], [CHILD]), INNER);
  const given = { step: 'ask', turn: 7, output: {} };

  test('a prompt names what the others ask, once', () => {
    expect(resolveInFamily(family, null, prompt('call/ask', 7))).toMatchObject({
      step: 'call/ask',
      open: [{ step: 'own', turn: 1 }],
    });
  });

  test('a wait gives way to what can be answered, and keeps what was completed', () => {
    const waiting: SessionResult = {
      kind: 'waiting',
      step: 'w',
      dueMs: 5,
      completed: { step: 'a', response: {} },
    } as SessionResult;
    expect(resolveInFamily(family, null, waiting)).toMatchObject({
      kind: 'prompt',
      step: 'own',
      completed: { step: 'a' },
    });
    expect(resolveInFamily(view(null, [], [CHILD]), null, waiting)).toBe(waiting);
  });

  test('a refusal names what is due by the addresses that clients use', () => {
    const refused: SessionResult = { kind: 'error', error: 'order', step: 'ask', message: 'no', retry: false };
    expect(resolveInFamily(family, given, refused)).toMatchObject({
      message: 'Step "ask" is not the current step. Due: turn 1 of step "own", turn 7 of step "call/ask".',
    });
    expect(resolveInFamily(family, { ...given, step: 'own' }, refused)).toMatchObject({
      message: expect.stringMatching(/^Turn 7 of step "own" is not current/) as string,
    });
  });

  test('an answer stays the same if no sub-skill was called, or the session is over', () => {
    const own = prompt('own', 1);
    expect(resolveInFamily(view(own, [asking('own', 1)]), null, own)).toBe(own);
    expect(resolveInFamily({ ...family, status: 'done' }, null, own)).toBe(own);
  });
});

test('only answers of which others may know more are looked up', () => {
  const order: SessionResult = { kind: 'error', error: 'order', step: 'a', message: 'm', retry: false };
  expect(mayConcernOthers(null, prompt('a', 1))).toBe(false);
  expect(mayConcernOthers({ step: 'call/ask', turn: 1, output: 1 }, prompt('a', 1))).toBe(true);
  expect(mayConcernOthers(null, prompt('call/ask', 1))).toBe(true);
  expect(mayConcernOthers(null, order)).toBe(false);
  expect(mayConcernOthers({ step: 'a', turn: 1, output: 1 }, order)).toBe(true);
});
