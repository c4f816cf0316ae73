import { expect, test } from 'vitest';
import { planOf } from '../../test/machine/plan-of.ts';
import type { AgentWork, Plan, StagePlan } from '../plan/plan.ts';
import type { AttemptSeries, ContinuedAgent } from '../run/agent-saves.ts';
import type { ContinueRequest } from '../run/origin.ts';
import { continuingIn } from './continue.ts';
import type { AgainBecause } from './reuse.ts';

const SAVE: ContinuedAgent = {
  runId: 'first',
  execKey: 'x/0/1',
  savedAtMs: 1,
  sessionId: 's',
  folders: [],
  turns: 3,
  ended: null,
};
const FAILED: AgainBecause = { kind: 'ended', state: 'failed' };
const failed = (save: ContinuedAgent | null = SAVE): AttemptSeries => ({ state: 'failed', hasStarted: true, save });

function agents(text: string, changes: Readonly<Record<string, Partial<StagePlan>>> = {}): Plan {
  const plan = planOf(text);
  const work: AgentWork = {
    kind: 'agent',
    mode: 'task',
    prompt: 'p',
    llm: null,
    messaging: false,
    skills: [],
    env: [],
  };
  return { ...plan, stages: plan.stages.map((stage) => ({ ...stage, work, ...changes[stage.id] })) };
}

function continued(
  plan: Plan,
  again: Readonly<Record<string, AgainBecause>>,
  attempts: Readonly<Record<string, AttemptSeries>>,
  request: ContinueRequest = {},
  before: Readonly<Record<string, ContinuedAgent>> = {},
) {
  const {
    agents: found,
    problems,
    cannot,
  } = continuingIn(
    plan,
    { given: new Map(), again: new Map(Object.entries(again)), firstDisks: new Map() },
    { attempts: new Map(Object.entries(attempts)), continued: before },
    request,
  );
  return { found: Object.fromEntries([...found].map(([series, { name }]) => [series, name])), problems, cannot };
}

test('agents that failed, were cancelled or had no end continue, and no others', () => {
  const plan = agents('a b c d');
  const again = { a: FAILED, b: FAILED, c: FAILED, d: FAILED };
  const attempts = {
    'a/0': failed(),
    'b/0': { state: 'cancelled', hasStarted: true, save: SAVE },
    'c/0': { state: 'open', hasStarted: true, save: SAVE },
    'd/0': { state: 'succeeded', hasStarted: true, save: null },
    'gone/0': failed(),
  } as const;
  expect(continued(plan, again, attempts)).toEqual({
    found: { 'a/0': 'a', 'b/0': 'b', 'c/0': 'c' },
    problems: [],
    cannot: [],
  });
  expect(continued(plan, { a: FAILED }, attempts).found, 'the others are given').toEqual({ 'a/0': 'a' });
});

test('an agent without a save is a problem by its name, unless it is to start from its beginning', () => {
  const plan = agents('a b');
  const [again, attempts] = [
    { a: FAILED, b: FAILED },
    { 'a/0': failed(), 'b/0': failed(null) },
  ];
  expect(continued(plan, again, attempts)).toMatchObject({
    problems: ['the agent of stage b cannot continue: nothing of it was saved'],
    cannot: ['b'],
  });
  expect(continued(plan, again, attempts, { fresh: ['b'] })).toEqual({
    found: { 'a/0': 'a' },
    problems: [],
    cannot: [],
  });
  expect(continued(plan, again, attempts, { fresh: ['b', 'z'] }).problems).toEqual([
    'no agent of a stage z failed, so none starts from its beginning',
  ]);
  expect(continued(plan, again, attempts, { fresh: ['a', 'b'] }).problems).toEqual(['no agent is left to continue']);
});

test('an agent whose attempts ended before their commands started begins as in any retry', () => {
  const attempts = { 'a/0': failed(), 'b/0': { state: 'cancelled', hasStarted: false, save: null } } as const;
  expect(continued(agents('a b'), { a: FAILED, b: FAILED }, attempts)).toEqual({
    found: { 'a/0': 'a' },
    problems: [],
    cannot: [],
  });
});

test('an agent does not continue on work that is made again or is another', () => {
  const plan = agents('a b>a');
  const attempts = { 'a/0': failed(), 'b/0': failed() };
  expect(continued(plan, { a: FAILED, b: FAILED }, attempts).problems).toEqual([
    'the agent of stage b cannot continue: it waits for stage a, which runs again',
  ]);
  expect(continued(plan, { b: { kind: 'differs', keys: ['prompt'] } }, attempts).problems).toEqual([
    'the agent of stage b cannot continue: its stage differs in prompt',
  ]);
  const loop = {
    work: { kind: 'part', source: 'loop', stages: ['a'], output: { kind: 'stage', stage: 'a' } },
  } as const;
  const until = { until: { source: 'true', stages: [], params: {} }, maxVisits: 2, onLimit: 'fail' } as const;
  const looped = agents('a l>a', { l: { ...loop, loop: until } });
  expect(continued(looped, { a: FAILED, l: FAILED }, { 'a/0': failed() }).problems).toEqual([
    'the agent of stage a cannot continue: loop l runs again from its first visit',
  ]);
});

test('the reason why nothing was saved is named', () => {
  const problem = (change: Partial<StagePlan>, adapt: (plan: Plan) => Plan = (same) => same): string =>
    continued(adapt(agents('a', { a: change })), { a: FAILED }, { 'a/0': failed(null) }).problems[0]!;
  const work = agents('a').stages[0]!.work as AgentWork;
  expect(problem({ work: { ...work, mode: 'service' } })).toContain('a service starts from its beginning');
  const { prompt: _, mode: __, messaging: ___, ...rest } = work;
  expect(problem({ work: { ...rest, kind: 'skill', source: { kind: 'host', path: '/s' }, params: {} } })).toContain(
    'the work of step machines is not saved',
  );
  expect(
    problem({}, (plan) => ({ ...plan, scopes: plan.scopes.map((scope) => ({ ...scope, keepsVm: true })) })),
  ).toContain('only if the agent has a VM of its own');
});

test('items continue one by one: those that failed, and neither their list nor those that succeeded', () => {
  const each = { each: { from: { kind: 'literal', items: [] } } } as unknown as Partial<StagePlan>;
  const plan = agents('fix', { fix: each });
  const attempts = {
    'fix/0': failed(null),
    'fix/fix~0': { state: 'succeeded', hasStarted: true, save: null },
    'fix/fix~1': failed(),
    'fix/fix~2': failed(null),
  } as const;
  expect(continued(plan, { fix: FAILED }, attempts)).toMatchObject({
    found: { 'fix/fix~1': 'fix[1]' },
    cannot: ['fix[2]'],
  });
  expect(continued(plan, { fix: FAILED }, attempts, { fresh: ['fix[2]'] }).problems).toEqual([]);
});

test('an agent of a part that runs for each item continues, unless what the part or the agent waits for runs again', () => {
  const each = { each: { from: { kind: 'literal', items: [] } } } as unknown as Partial<StagePlan>;
  const inEach: Partial<StagePlan> = { of: 'each' };
  const plan = agents('list work review>work each>review,list', { work: inEach, review: inEach, each });
  const again = { each: FAILED };
  const attempts = {
    'work/each~0': failed(),
    'work/each~1': { state: 'succeeded', hasStarted: true, save: null },
  } as const;
  expect(continued(plan, again, attempts)).toEqual({
    found: { 'work/each~0': 'each[0].work' },
    problems: [],
    cannot: [],
  });
  expect(continued(plan, again, { 'review/each~0': failed() }).problems).toEqual([
    'the agent of stage each[0].review cannot continue: it waits for stage work, which runs again',
  ]);
  expect(continued(plan, { list: FAILED, each: FAILED }, attempts).problems).toEqual([
    'the agent of stage each[0].work cannot continue: it waits for stage list, which runs again',
  ]);
});

test('an agent of a list within an item continues', () => {
  const each = { each: { from: { kind: 'literal', items: [] } } } as unknown as Partial<StagePlan>;
  const plan = agents('work inner>work outer>inner', {
    work: { of: 'inner' },
    inner: { ...each, of: 'outer' },
    outer: each,
  });
  const series = 'work/outer~2~inner~0';
  expect(continued(plan, { outer: FAILED }, { [series]: failed() })).toMatchObject({ problems: [], cannot: [] });
});

test('a run whose agent had no attempt passes on the save that it was to continue from', () => {
  const plan = agents('a');
  const before = { 'a/0': { ...SAVE, runId: 'zeroth' } };
  expect(continued(plan, { a: FAILED }, {}, {}, before).found).toEqual({ 'a/0': 'a' });
  expect(continued(plan, { a: FAILED }, { 'a/0': failed(null) }, {}, before).found).toEqual({ 'a/0': 'a' });
  expect(continued(plan, { a: FAILED }, {}).problems).toEqual(['no agent is left to continue']);
});
