import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { skillOf, TERMINAL } from '../test/rig/skills/erased-skill.ts';
import { action, skill, terminal, type } from './index.ts';
import { mockModel, noAnswer, runComposite, runSkill } from './test.ts';

describe('mockModel', () => {
  test('answers with a value, with a function of the prompt, and with one element for each visit', async () => {
    const model = mockModel({ value: { n: 1 }, fn: (prompt: string) => prompt.length, each: ['first', 'second'] });
    expect([
      model.respond('value', ''),
      model.respond('value', ''),
      model.respond('fn', 'abc'),
      model.respond('each', ''),
      model.respond('each', ''),
    ]).toEqual([{ n: 1 }, { n: 1 }, 3, 'first', 'second']);
    expect(() => model.respond('each', '')).toThrow('mockModel: step "each" visited 3 times but only 2 entries');
    expect(() => model.respond('toString', '')).toThrow('mockModel: no entry for step "toString"');
  });
});

describe('runSkill', () => {
  test('gives path, answers, final output, history and store', async () => {
    const skill = skillOf({
      ask: {
        prompt: 'n?',
        response: z.object({ n: z.coerce.number() }),
        save: ({ response }) => ({ seen: response }),
        next: 'gate',
      },
      gate: { next: 'tell' },
      tell: {
        prompt: ({ store }) => JSON.stringify(store['seen']),
        response: z.object({ said: z.string() }),
        next: TERMINAL,
      },
    });
    const run = await runSkill(skill, {
      model: mockModel({ ask: { n: '4' }, tell: (prompt: string) => ({ said: prompt }) }),
    });
    expect(run.path).toEqual(['ask', 'gate', 'tell']);
    expect(run.outputs).toEqual({ ask: { n: '4' }, tell: { said: '<prompt>\n{"n":4}\n</prompt>' } });
    expect(run.response).toEqual({ said: '<prompt>\n{"n":4}\n</prompt>' });
    expect(run.history.map(({ step, result }) => [step, result])).toEqual([
      ['ask', { n: 4 }],
      ['gate', {}],
      ['tell', run.response],
    ]);
    expect(run.store.steps['ask']).toEqual({ n: 4 });
  });

  test('throws for an answer that does not fit, and for a redirect', async () => {
    const strict = skillOf({ a: { prompt: 'a', response: z.object({ v: z.string() }), next: TERMINAL } });
    await expect(runSkill(strict, { model: mockModel({ a: { v: 1 } }) })).rejects.toThrow(
      /^Validation error at step "a": v: /,
    );
    const away = skillOf({ a: { prompt: 'a', next: () => 'subskill:x' } });
    await expect(runSkill(away, { model: mockModel({ a: {} }) })).rejects.toThrow(
      'Unexpected result kind "redirect" during run',
    );
  });

  test('loads references when it is given a loader, and empty texts when not', async () => {
    const skill = skillOf({ a: { prompt: ({ refs }) => `[${refs.load('x.md')}]`, next: TERMINAL } });
    const prompts: string[] = [];
    const model = { respond: (_step: string, prompt: string) => void prompts.push(prompt) };
    await runSkill(skill, { model });
    await runSkill(skill, { model, refs: { load: (name) => `text of ${name}`, asset: (path) => path } });
    expect(prompts).toEqual(['<prompt>\n[]\n</prompt>', '<prompt>\n[text of x.md]\n</prompt>']);
  });

  test('plays branches of parallel steps one after the other, and lets waits and delays take no time', async () => {
    let calls = 0;
    const action = (): string => {
      if (++calls < 3) throw new Error('not yet');
      return 'there';
    };
    const skill = skillOf({
      fork: { parallel: { branches: ['l', 'r'], join: 'rest' } },
      l: { prompt: 'l', next: 'rest' },
      r: { prompt: 'r', next: 'rest' },
      rest: { wait: { durationMs: 86_400_000 }, next: 'fetch' },
      fetch: { action, retry: { maxAttempts: 3, backoffMs: 3_600_000, maxBackoffMs: 3_600_000 }, next: TERMINAL },
    });
    const run = await runSkill(skill, { model: mockModel({ l: {}, r: {} }) });
    expect([run.path, run.response]).toEqual([['fork', 'l', 'r', 'rest', 'fetch'], 'there']);
  });

  test('throws what an action throws', async () => {
    const skill = skillOf({ a: { prompt: 'a', action: () => Promise.reject(new RangeError('deep')), next: TERMINAL } });
    await expect(runSkill(skill, { model: mockModel({ a: {} }) })).rejects.toThrow(RangeError);
  });
});

test('a skill of the builders, with schemas of two libraries, goes through', async () => {
  const probe = action({
    name: 'probe',
    input: type({ repo: 'string' }),
    output: z.object({ files: z.number() }),
    run: async ({ input }) => ({ files: input.repo.length }),
  });
  const built = skill({
    name: 'doctor',
    entry: 'ask',
    params: z.object({ limit: z.number().default(3) }),
    stores: { env: type({ seen: 'number' }) },
  })
    .step('ask', {
      prompt: ({ params }) => `At most ${params.limit}.`,
      response: type({ repo: 'string' }),
      action: { run: probe },
      save: ({ actionResult }) => ({ env: { seen: actionResult.files } }),
      next: 'tell',
    })
    .step('tell', {
      prompt: ({ store }) => `${store.steps.ask.files} files, ${store.env?.seen} seen`,
      response: z.object({ ok: z.boolean() }),
      next: terminal,
    })
    .build();
  const prompts: string[] = [];
  const model = {
    respond: (step: string, prompt: string) => (prompts.push(prompt), step === 'ask' ? { repo: 'abcd' } : { ok: true }),
  };
  const run = await runSkill(built, { model });
  expect([run.path, run.response, prompts]).toEqual([
    ['ask', 'tell'],
    { ok: true },
    ['<prompt>\nAt most 3.\n</prompt>', '<prompt>\n4 files, 4 seen\n</prompt>'],
  ]);
  await expect(runSkill(built, { model: mockModel({ ask: { repo: 7 } }) })).rejects.toThrow(
    'Validation error at step "ask": repo: ',
  );
});

describe('runComposite', () => {
  const sub = skillOf({
    one: { prompt: ({ params }) => `for ${(params as { who?: string }).who}`, next: 'auto' },
    auto: { next: 'two' },
    two: { prompt: '2', response: z.object({ n: z.number() }), next: TERMINAL },
  });
  const main = skillOf(
    {
      route: {
        prompt: 'where?',
        response: z.object({ to: z.string() }),
        next: ({ response }) => (response as { to: string }).to,
      },
    },
    {
      subskills: { sub: { definition: sub, paramsMap: () => ({ who: 'ada' }) } },
      topics: { help: { label: 'Help', content: ({ refs }) => refs.load('help.md') } },
    },
  );

  test('defect: steps without a prompt have their prefix, and history has every step', async () => {
    const prompts: string[] = [];
    const model = {
      respond: (step: string, prompt: string) => (
        prompts.push(`${step} ${prompt}`),
        { route: { to: 'subskill:sub' }, 'sub/one': {}, 'sub/two': { n: 2 } }[step]
      ),
    };
    const run = await runComposite(main, { model });
    expect(run.path).toEqual(['route', 'sub/one', 'sub/auto', 'sub/two']);
    expect(run.history.map(({ step }) => step)).toEqual(run.path);
    expect([run.output, run.redirectedTo]).toEqual([{ n: 2 }, { kind: 'subskill', name: 'sub' }]);
    expect(prompts[1]).toBe('sub/one <prompt>\nfor ada\n</prompt>');
  });

  test('names the last redirect when a sub-skill that was started directly redirects', async () => {
    const outer = skillOf({ go: { prompt: 'go', next: 'subskill:sub' } }, { subskills: { sub: { definition: sub } } });
    const composite = skillOf(
      { start: { prompt: 'start', next: 'subskill:outer' } },
      { subskills: { outer: { definition: outer } } },
    );
    const model = mockModel({ 'outer/go': {}, 'outer/sub/one': {}, 'outer/sub/two': { n: 3 } });
    const run = await runComposite(composite, { model, directSubskill: 'outer' });
    expect([run.output, run.redirectedTo]).toEqual([{ n: 3 }, { kind: 'subskill', name: 'sub' }]);
  });

  test('gives sub-skills the params of paramsMap', async () => {
    const asked = async (maps: { paramsMap?: () => object }): Promise<string | undefined> => {
      const prompts: string[] = [];
      const subskills = { sub: { definition: sub, ...maps } };
      const composite = skillOf({ route: { prompt: 'go', next: 'subskill:sub' } }, { subskills });
      const respond = (step: string, prompt: string): unknown => (
        prompts.push(prompt),
        step === 'sub/two' ? { n: 1 } : {}
      );
      await runComposite(composite, { model: { respond } });
      return prompts[1];
    };
    const map = (who: string) => () => ({ who });
    expect(await asked({ paramsMap: map('Ada') })).toBe('<prompt>\nfor Ada\n</prompt>');
  });

  test('gives the content of a topic', async () => {
    const run = await runComposite(main, {
      model: mockModel({ route: { to: 'topic:help' } }),
      refs: { load: () => 'read me', asset: (path) => path },
    });
    expect([run.output, run.redirectedTo]).toEqual([
      { topic: 'help', content: 'read me' },
      { kind: 'topic', name: 'help' },
    ]);
  });

  test('starts a sub-skill without its dispatcher', async () => {
    const run = await runComposite(main, {
      model: mockModel({ 'sub/one': (prompt: string) => ({ prompt }), 'sub/two': { n: 1 } }),
      directSubskill: 'sub',
      params: { who: 'me' },
    });
    expect([run.path, run.output]).toEqual([['sub/one', 'sub/auto', 'sub/two'], { n: 1 }]);
    expect(run.redirectedTo).toEqual({ kind: 'subskill', name: 'sub' });
  });
});

describe('noAnswer', () => {
  const asking = (human: { deadlineMs?: number; onExpiry?: string }): ReturnType<typeof runSkill> =>
    runSkill(
      skill({ name: 's', entry: 'ask' })
        .step('ask', { human, prompt: 'Well?', next: terminal })
        .step('late', { save: () => ({ step: 'too late' }), next: terminal })
        .build(),
      { model: mockModel({ ask: noAnswer }) },
    );

  test('lets the deadline pass', async () => {
    expect(await asking({ deadlineMs: 86_400_000, onExpiry: 'late' })).toMatchObject({
      path: ['late'],
      response: 'too late',
      outputs: {},
    });
  });

  test('is refused if the step has no deadline', async () => {
    await expect(asking({})).rejects.toThrow('noAnswer: step "ask" has no deadline');
  });
});
