import { type } from 'arktype';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import type { StepConfig, StoreAccessor } from '../../domain/step-machine/definition.ts';
import {
  act,
  action,
  isDone,
  isError,
  isPrompt,
  isRedirect,
  module,
  reference,
  skill,
  step,
  terminal,
} from '../exports.ts';
import { mockModel, runSkill } from '../test.ts';

const Text = z.object({ text: z.string() });
const minimal = (): ReturnType<typeof skill> => skill({ name: 's', entry: 'a' });
const one = { prompt: 'A', next: terminal } as const;

describe('build', () => {
  it('gives a frozen definition with defaults, and no empty parts', () => {
    const built = skill({ name: 's', entry: 'a' }).step('a', one).build();
    expect(Object.keys(built).sort()).toEqual(['entry', 'kind', 'name', 'resolveVersion', 'steps', 'version']);
    expect(built).toMatchObject({ kind: 'skill', name: 's', entry: 'a', version: '0.0.0', resolveVersion: false });
    expect(built.steps['a']?.config).toEqual(one);
    expect([built, built.steps, built.steps['a'], built.steps['a']?.config].every(Object.isFrozen)).toBe(true);
  });

  it('keeps what the author gave', () => {
    const sub = skill({ name: 'sub', entry: 'a' }).step('a', one).build();
    const stores = { env: type({ host: 'string' }) };
    const params = z.object({ x: z.string() });
    const content = (): string => 'text';
    const toParams = (): unknown => ({});
    const built = skill({ name: 's', entry: 'a', version: '1.2.3', stores, params, system: 'Be kind.', license: 'MIT' })
      .step('a', one)
      .subskill('sub', sub, { params: toParams })
      .topic('t', { label: 'T', content })
      .build();
    expect(built).toMatchObject({ version: '1.2.3', system: 'Be kind.', license: 'MIT', params, stores });
    expect(built.subskills).toEqual({ sub: { definition: sub, paramsMap: toParams } });
    expectTypeOf(built.subskills!['sub']!.paramsMap).toEqualTypeOf<
      ((response: unknown, store: StoreAccessor) => unknown) | undefined
    >();
    expect(built.topics).toEqual({ t: { label: 'T', content } });
  });

  it.each([
    ['Does it.', ['a', 'b'], 'Does it. Trigger keywords: a, b'],
    ['Does it', ['a'], 'Does it. Trigger keywords: a'],
    [undefined, ['a'], 'Trigger keywords: a'],
    ['Does it', [], 'Does it'],
    [undefined, undefined, undefined],
  ])('description %j with triggers %j is %j', (description, triggers, expected) => {
    expect(skill({ name: 's', entry: 'a', description, triggers }).step('a', one).build().description).toBe(expected);
  });

  it('a later step of the same name replaces the earlier', () => {
    expect(minimal().step('a', one).step('a', { prompt: 'B', next: terminal }).build().steps['a']?.config.prompt).toBe(
      'B',
    );
  });

  it('a step may be called like what every object has', async () => {
    const odd = skill({ name: 'odd', entry: 'constructor' })
      .step('constructor', { prompt: 'A', next: '__proto__' })
      .step('__proto__', { prompt: ({ store }) => `B ${store.steps.ran('constructor')}`, next: terminal })
      .build();
    expect(await runSkill(odd, { model: mockModel({ constructor: {}, ['__proto__']: 1 }) })).toMatchObject({
      path: ['constructor', '__proto__'],
    });
  });

  it('steps that follow each other in a circle, nest sub-skills and come back are fine', () => {
    const inner = skill({ name: 'inner', entry: 'a' }).step('a', one).build();
    const middle = skill({ name: 'middle', entry: 'a' })
      .step('a', { prompt: 'A', next: 'subskill:inner' })
      .subskill('inner', inner)
      .build();
    const outer = skill({ name: 'outer', entry: 'a' })
      .step('a', { call: 'middle', next: 'b' })
      .step('b', {
        prompt: 'B',
        next: [{ to: 'self', when: () => false }, { to: 'a', when: () => false }, { to: 'topic:t' }],
      })
      .subskill('middle', middle)
      .topic('t', { label: 'T', content: () => 'x' })
      .build();
    expect(outer.subskills?.['middle']?.definition.subskills?.['inner']?.definition.name).toBe('inner');
  });
});

describe('mistakes are found when a skill is built', () => {
  it.each<[string, () => unknown]>([
    ['skill: name is required', () => skill({ name: '', entry: 'a' }).step('a', one).build()],
    ['skill "s": entry is required', () => skill({ name: 's', entry: '' }).step('a', one).build()],
    ['skill "s": at least one step is required', () => minimal().build()],
    ['skill "s": entry step "a" not found in steps. There are: b.', () => minimal().step('b', one).build()],
    [
      'skill "s": store name "steps" is reserved',
      () =>
        skill({ name: 's', entry: 'a', stores: { steps: Text } })
          .step('a', one)
          .build(),
    ],
    [
      'skill "s": subskill "x" is registered twice',
      () => minimal().subskill('x', minimal().step('a', one).build()).subskill('x', minimal().step('a', one).build()),
    ],
    [
      'skill "s": topic "x" is registered twice',
      () =>
        minimal()
          .topic('x', { label: 'X', content: () => '' })
          .topic('x', { label: 'X', content: () => '' }),
    ],
    ['action: name is required', () => action({ name: '', input: Text, output: Text, run: ({ input }) => input })],
    [
      'action "x": input schema is required',
      () => action({ name: 'x', input: undefined as never, output: Text, run: () => ({ text: '' }) }),
    ],
    [
      'action "x": output schema is required',
      () => action({ name: 'x', input: Text, output: undefined as never, run: () => ({ text: '' }) as never }),
    ],
    [
      'action "x": run function is required',
      () => action({ name: 'x', input: Text, output: Text, run: undefined as never }),
    ],
    ['module: name is required', () => module({ name: '', entry: 'a' }).step('a', one).build()],
    ['module "m": entry is required', () => module({ name: 'm', entry: '' }).step('a', one).build()],
    ['module "m": at least one step is required', () => module({ name: 'm', entry: 'a' }).build()],
    ['module "m": entry step "a" not found in steps', () => module({ name: 'm', entry: 'a' }).step('b', one).build()],
    ['reference: name is required', () => reference({ name: '', description: 'd' }).build()],
    ['reference "r": description is required', () => reference({ name: 'r', description: '' }).build()],
    ['reference "r": at least one topic is required', () => reference({ name: 'r', description: 'd' }).build()],
  ])('%s', (message, make) => {
    expect(make).toThrow(message);
  });

  it.each<[string, object]>([
    ['has next "b"', { prompt: 'A', next: 'b' }],
    ['has a branch to "b"', { prompt: 'A', next: [{ to: 'a' }, { to: 'b' }] }],
    ['has next "constructor"', { prompt: 'A', next: 'constructor' }],
    ['has onMaxVisits "b"', { prompt: 'A', next: 'self', maxVisits: 2, onMaxVisits: 'b' }],
    ['has human.onExpiry "b"', { prompt: 'A', next: terminal, human: { deadlineMs: 1, onExpiry: 'b' } }],
    ['has a parallel branch "b"', { parallel: { branches: ['a', 'b'], join: 'a' } }],
    ['joins at "b"', { parallel: { branches: ['a'], join: 'b' } }],
    ['has next "subskill:x", but no such sub-skill', { prompt: 'A', next: 'subskill:x' }],
    ['has next "topic:x", but no such topic', { prompt: 'A', next: 'topic:x' }],
    ['calls the sub-skill "x", which is not registered', { call: 'x', next: terminal }],
    ['has next: "__parent__" which must be overridden', { prompt: 'A', next: '__parent__' }],
    ['has next: "__parent__" which must be overridden', { prompt: 'A', next: [{ to: '__parent__' }] }],
    [
      'has next: "__parent__" which must be overridden',
      { prompt: 'A', next: 'self', maxVisits: 1, onMaxVisits: '__parent__' },
    ],
  ])('a step that %s', (message, config) => {
    const build = (): unknown =>
      minimal()
        .step('a', config as never)
        .build();
    expect(build).toThrow(`Step "a" ${message}`);
    expect(build).toThrow(/^skill "s"/);
  });

  it('all of them at once', () => {
    expect(() =>
      minimal()
        .step('a', { prompt: 'A', next: 'b' as never, maxVisits: 0 })
        .build(),
    ).toThrow(/^skill "s" has 2 mistakes:\n {2}Step "a" has next "b".*\n {2}Step "a": maxVisits is 0/);
  });

  it('an action without a mapper that needs what the response has not', () => {
    const save = action({
      name: 'save',
      input: z.object({ path: z.string(), text: z.string(), mode: z.number().default(1) }),
      output: Text,
      run: () => ({ text: '' }),
    });
    const message =
      'Step "a" uses action "save" without an input mapper, but the step output is missing properties required by the action input: [path]. Add an action.mapInput mapper';
    expect(() => minimal().step('a', { prompt: 'A', response: Text, action: { run: save }, next: terminal })).toThrow(
      message,
    );
    expect(() =>
      minimal().extend('a', step({ prompt: 'A', response: Text, action: { run: save }, next: terminal }), {}),
    ).toThrow(message);
    const part = module({ name: 'm', entry: 'a' });
    expect(() => part.step('a', { prompt: 'A', response: Text, action: { run: save }, next: '__parent__' })).toThrow(
      message,
    );
    expect(() => minimal().step('a', { action: { run: save }, next: terminal })).toThrow('[path, text]');
    const mapped = { run: save, mapInput: () => ({ path: 'p', text: 't' }) };
    expect(() => minimal().step('a', { prompt: 'A', response: Text, action: mapped, next: terminal })).not.toThrow();
    expect(() =>
      minimal().step('a', {
        prompt: 'A',
        response: z.record(z.string(), z.string()),
        action: { run: save },
        next: terminal,
      }),
    ).not.toThrow();
  });
});

describe('shared steps', () => {
  it('step is frozen and extends by putting fields over fields', () => {
    const base = step({ prompt: 'A', response: Text, next: '__parent__' });
    const over = base.extend({ next: 'b' });
    expect(base).toMatchObject({ kind: 'step', config: { next: '__parent__' } });
    expect(over.config).toEqual({ prompt: 'A', response: Text, next: 'b' });
    expect(Object.isFrozen(base) && Object.isFrozen(base.config)).toBe(true);
  });

  it('extend in a skill does the same', () => {
    const base = step({ prompt: 'A', response: Text, maxVisits: 2, next: '__parent__' });
    expect(
      skill({ name: 's', entry: 'a' }).extend('a', base, { prompt: 'B', next: terminal }).build().steps['a']?.config,
    ).toEqual({
      prompt: 'B',
      response: Text,
      maxVisits: 2,
      next: terminal,
    });
  });

  it('register puts the next step wherever a module says __parent__', () => {
    const login = module({ name: 'login', entry: 'user' })
      .step('user', { prompt: 'U', next: [{ to: 'code' }, { to: '__parent__', when: () => true }] })
      .step('code', {
        prompt: 'C',
        next: ({ attempts }) => (attempts > 1 ? '__parent__' : 'self'),
        maxVisits: 2,
        onMaxVisits: '__parent__',
      })
      .step('ask', { prompt: 'K', next: '__parent__', human: { deadlineMs: 1, onExpiry: '__parent__' } })
      .step('fork', { parallel: { branches: ['code'], join: '__parent__' } })
      .build();
    const { steps } = skill({ name: 's', entry: 'a' })
      .step('a', { prompt: 'A', next: 'user' })
      .register(login, { next: 'home' })
      .step('home', one)
      .build();
    const config = (name: string): StepConfig => steps[name]?.config ?? {};
    expect(config('user').next).toMatchObject([{ to: 'code' }, { to: 'home' }]);
    expect((config('code').next as (context: object) => string)({ attempts: 2 })).toBe('home');
    expect((config('code').next as (context: object) => string)({ attempts: 1 })).toBe('self');
    expect(config('code').onMaxVisits).toBe('home');
    expect(config('ask')).toMatchObject({ next: 'home', human: { deadlineMs: 1, onExpiry: 'home' } });
    expect(config('fork').parallel).toEqual({ branches: ['code'], join: 'home' });
    expect(login.steps['code']?.config.onMaxVisits).toBe('__parent__');
  });
});

describe('reference', () => {
  it('is frozen, with its topics', () => {
    const built = reference({ name: 'r', description: 'd', resolveVersion: true })
      .topic('t', { label: 'T', content: ({ refs }) => refs.load('t.md') })
      .build();
    expect(built).toMatchObject({
      kind: 'reference',
      name: 'r',
      description: 'd',
      version: '0.0.0',
      resolveVersion: true,
    });
    expect(built.topics['t']?.content({ refs: { load: (file) => `<${file}>`, asset: (path) => path } })).toBe('<t.md>');
    expect(Object.isFrozen(built) && Object.isFrozen(built.topics)).toBe(true);
  });
});

it('guards tell results by their kind', () => {
  const results = (['prompt', 'done', 'error', 'redirect'] as const).map((kind) => ({ kind }) as never);
  expect([isPrompt, isDone, isError, isRedirect].map((guard) => results.map(guard))).toEqual([
    [true, false, false, false],
    [false, true, false, false],
    [false, false, true, false],
    [false, false, false, true],
  ]);
});

it('what is built runs: zod and ArkType, action and save, a branch back and parallel steps', async () => {
  const count = action({
    name: 'count',
    input: type({ words: 'string[]' }),
    output: z.object({ count: z.number() }),
    run: ({ input }) => ({ count: input.words.length }),
  });
  const built = skill({
    name: 's',
    entry: 'ask',
    params: z.object({ topic: z.string().default('ships') }),
    stores: { total: type({ words: 'number' }) },
  })
    .step('ask', {
      prompt: ({ params, attempts }) => [
        act.askUser({ type: 'open', question: `Words on ${params.topic}, try ${attempts + 1}?` }),
      ],
      response: type({ words: 'string[]' }),
      action: { run: count },
      save: ({ actionResult }) => ({ total: { words: actionResult.count } }),
      maxVisits: 3,
      onMaxVisits: 'review',
      next: [{ to: 'review', when: ({ actionResult }) => actionResult.count > 1 }, { to: 'self' }],
    })
    .step('review', { parallel: { branches: ['spelling', 'style'], join: 'end' } })
    .step('spelling', {
      prompt: ({ store }) => `Spelling of ${store.total.words} words?`,
      response: z.object({ ok: z.boolean() }),
      next: 'end',
    })
    .step('style', { prompt: 'Style?', response: z.object({ ok: z.boolean() }), next: 'end' })
    .step('end', {
      prompt: ({ store }) => `${store.steps.spelling.ok} ${store.steps.style.ok} ${store.steps.all('ask').length}`,
      response: z.object({ said: z.string() }),
      next: terminal,
    })
    .build();
  const prompts: string[] = [];
  const model = mockModel({
    ask: [{ words: ['a'] }, { words: ['a', 'b'] }],
    spelling: (prompt: string) => (prompts.push(prompt), { ok: true }),
    style: { ok: false },
    end: (prompt: string) => (prompts.push(prompt), { said: 'bye' }),
  });
  const result = await runSkill(built, { model });
  expect(result.response).toEqual({ said: 'bye' });
  expect(prompts).toEqual(['<prompt>\nSpelling of 2 words?\n</prompt>', '<prompt>\ntrue false 2\n</prompt>']);
});
