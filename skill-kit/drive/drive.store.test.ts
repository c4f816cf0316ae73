import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { z } from 'zod';
import type { SkillDefinition, StepConfig } from '../../domain/step-machine/definition.ts';
import { frameOf } from '../../domain/step-machine/state.ts';
import { storeView } from '../../domain/step-machine/store-view.ts';
import { answer, open, started, warningsOf } from '../../test/rig/skills/session-in-process.ts';
import { skillOf, TERMINAL } from '../../test/rig/skills/erased-skill.ts';
import { createSession, startSession } from './drive.ts';

const nested = (levels: number): unknown => JSON.parse(`${'{"v":'.repeat(levels)}1${'}'.repeat(levels)}`);

describe('results and store', () => {
  test('defect: the final output is the result of the last step', async () => {
    const session = await started(
      skillOf({
        a: {
          prompt: 'a',
          action: () => ({ built: true }),
          save: ({ actionResult }) => ({ step: { report: actionResult } }),
          next: TERMINAL,
        },
      }),
    );
    expect(await answer(session, 'a')).toMatchObject({ finalOutput: { report: { built: true } } });
  });

  describe('a finalOutput schema', () => {
    const finalOutput = z.object({ card: z.string() });
    const last = (more: Partial<StepConfig>): SkillDefinition =>
      skillOf(
        { a: { prompt: 'a', response: z.object({ card: z.string() }), next: TERMINAL, ...more } },
        { finalOutput },
      );

    test('takes the answer when the last step has acted on it, and the result when that fits', async () => {
      expect(await answer(await started(last({ action: () => ({ path: '/x' }) })), 'a', { card: 'c' })).toMatchObject({
        finalOutput: { card: 'c' },
        completed: { result: { path: '/x' } },
      });
      expect(
        await answer(await started(last({ action: () => ({ card: 'printed' }) })), 'a', { card: 'c' }),
      ).toMatchObject({
        finalOutput: { card: 'printed' },
      });
    });

    test('if neither fits, the error names both mistakes and how to return a value that fits', async () => {
      const refused = answer(
        await started(last({ response: z.object({ card: z.number() }), action: () => ({ path: '/x' }) })),
        'a',
        { card: 1 },
      );
      await expect(refused).rejects.toThrow(
        /^Final output validation failed: card: .* The result of step "a" is not .* skill "sample" .* Nor is its response: card: .* Let the step's `save` return it as `step`\.$/,
      );
    });

    test('is not satisfied by a step without an answer', async () => {
      const silent = skillOf(
        { a: { action: () => ({ n: 'no number' }), next: TERMINAL } },
        { finalOutput: z.object({ n: z.number().optional() }) },
      );
      await expect(startSession(open(silent))).rejects.toThrow(/Final output validation failed: n: /);
    });
  });

  test('an undeclared store causes a warning, even with a name that every object has', async () => {
    const skill = skillOf(
      {
        a: { prompt: 'a', save: ({ response }) => response as never, response: z.unknown(), next: 'b' },
        b: {
          prompt: ({ store }) => JSON.stringify([Object.keys(store), ({} as { odd?: unknown }).odd]),
          next: TERMINAL,
        },
      },
      { stores: { env: z.object({ v: z.number() }) } },
    );
    const session = await started(skill);
    const output: unknown = JSON.parse('{"__proto__":{"odd":1},"constructor":{"v":1},"env":{"v":2}}');
    expect(await answer(session, 'a', output)).toMatchObject({
      prompt: '<prompt>\n[["__proto__","constructor","env","steps"],null]\n</prompt>',
    });
    expect(warningsOf(session).map((line) => /undeclared store "(\w+)"/.exec(line)?.[1])).toEqual([
      '__proto__',
      'constructor',
    ]);
  });

  test('a value that is nested too deep is not saved, and the session continues', async () => {
    const save = ({ response }: { readonly response: unknown }) => ({ any: nested(response as number) });
    const skill = skillOf({ a: { prompt: 'a', response: z.number(), maxVisits: 9, save, next: 'a' } });
    const session = await started(skill, { throws: false });
    for (const levels of [501, 20_000]) {
      const message = expect.stringContaining(
        'save wrote a value to store "any" that is nested deeper than 500 levels',
      ) as string;
      expect(await answer(session, 'a', levels)).toMatchObject({
        kind: 'error',
        error: 'action',
        retry: true,
        message,
      });
    }
    for (let times = 0; times < 2; times++)
      expect(await answer(session, 'a', 500)).toMatchObject({ kind: 'prompt', step: 'a' });
  });

  test('an answer that is nested too deep is refused, and can be corrected', async () => {
    const session = await started(skillOf({ a: { prompt: 'a', response: z.unknown(), next: TERMINAL } }), {
      throws: false,
    });
    for (const levels of [501, 20_000]) {
      const message = 'the answer has more than 500 levels of nested objects and arrays. Nest the values less.';
      expect(await answer(session, 'a', nested(levels))).toMatchObject({
        kind: 'error',
        error: 'validation',
        retry: true,
        message,
      });
    }
    expect(await answer(session, 'a', nested(500))).toMatchObject({ kind: 'done', finalOutput: nested(500) });
  });

  test('defect: a final output that does not fit its schema ends the session before an observer hears that it is complete', async () => {
    const heard: string[] = [];
    const session = await started(
      skillOf(
        { a: { prompt: 'a', next: TERMINAL } },
        { finalOutput: z.object({ n: z.number() }), observers: { onSkillComplete: () => void heard.push('complete') } },
      ),
    );
    await expect(answer(session, 'a')).rejects.toThrow(/Final output validation failed: n: /);
    expect(heard).toEqual([]);
  });

  test.each([[null], [undefined], [{}], [{ step: undefined }]])(
    'save that returns %j leaves the default result',
    async (returned) => {
      const session = await started(
        skillOf({ a: { prompt: 'a', response: z.object({ v: z.number() }), save: () => returned, next: TERMINAL } }),
      );
      expect(await answer(session, 'a', { v: 1 })).toMatchObject({ completed: { result: { v: 1 } } });
    },
  );

  test('defect: each reader of a result of null gets null', async () => {
    const skill = skillOf({
      a: { prompt: 'a', response: z.object({ v: z.number() }), save: () => ({ step: null }), next: 'b' },
      b: {
        prompt: ({ store }) => JSON.stringify([store.steps['a'], store.steps.all('a'), store.steps.history[0]?.result]),
        next: TERMINAL,
      },
    });
    expect(await answer(await started(skill), 'a', { v: 1 })).toMatchObject({
      completed: { response: { v: 1 }, result: null },
      prompt: '<prompt>\n[null,[null],null]\n</prompt>',
    });
  });

  test('writes merge deeply; null and arrays replace', async () => {
    const writes = [{ env: { a: { x: 1, y: 2 }, list: [1, 2] } }, { env: { a: { y: 3 }, list: [9], gone: null } }];
    const session = await started(
      skillOf({ a: { prompt: 'a', next: 'self', save: ({ store }) => writes[store.steps.history.length] } }),
    );
    await answer(session, 'a');
    await answer(session, 'a');
    expect(storeView(frameOf(session.state, 0), session.state.records)['env']).toEqual({
      a: { x: 1, y: 3 },
      list: [9],
      gone: null,
    });
  });

  test('a write that does not fit is warned about, in every library', async () => {
    const standard = (value: unknown) =>
      (value as { n?: unknown }).n === 'wrong' ? { issues: [{ message: 'not a number', path: ['n'] }] } : { value };
    const bare = { '~standard': { version: 1, vendor: 'own', validate: standard } } as const;
    const session = await started(
      skillOf({ a: { prompt: 'a', next: TERMINAL, save: () => ({ env: { n: 'wrong' } }) } }, { stores: { env: bare } }),
    );
    await answer(session, 'a');
    expect(warningsOf(session)).toEqual(['save validation warning at step "a": env.n: not a number']);
  });

  test('an undeclared store is warned about and written', async () => {
    const session = await started(
      skillOf(
        { a: { prompt: 'a', next: TERMINAL, save: () => ({ typo: { x: 1 } }) } },
        { stores: { env: z.object({ x: z.number() }) } },
      ),
    );
    expect(await answer(session, 'a')).toMatchObject({ kind: 'done' });
    expect(warningsOf(session)).toEqual(['save validation warning at step "a": save wrote to undeclared store "typo"']);
  });

  test('without a function for warnings, the engine writes them to stderr', async () => {
    const written = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    onTestFinished(() => written.mockRestore());
    const skill = skillOf(
      { a: { prompt: 'a', next: TERMINAL, save: () => ({ typo: 1 }) } },
      { stores: { env: z.object({}) } },
    );
    const session = createSession(skill);
    await startSession(session);
    await answer(session, 'a');
    expect(written.mock.calls).toEqual([
      ['[skill-kit] save validation warning at step "a": save wrote to undeclared store "typo"\n'],
    ]);
  });

  test('defect: a partial nested write is no mistake, a wrong one is', async () => {
    const stores = { env: z.object({ a: z.object({ x: z.number(), y: z.number() }), b: z.string() }) };
    const partial = await started(
      skillOf({ a: { prompt: 'a', next: TERMINAL, save: () => ({ env: { a: { x: 1 } } }) } }, { stores }),
    );
    await answer(partial, 'a');
    expect(warningsOf(partial)).toEqual([]);
    const wrong = await started(
      skillOf({ a: { prompt: 'a', next: TERMINAL, save: () => ({ env: { a: { x: 'no' } } }) } }, { stores }),
    );
    await answer(wrong, 'a');
    expect(warningsOf(wrong)).toEqual([expect.stringContaining('env.a.x: ')]);
  });

  test('store.steps cannot be shadowed, and steps with awkward names can be read', async () => {
    const session = await started(
      skillOf({
        constructor: {
          prompt: 'c',
          response: z.object({ v: z.number() }),
          save: () => ({ steps: { constructor: 'fake' } }),
          next: 'b',
        },
        b: { prompt: 'b', next: TERMINAL },
      }),
    );
    await answer(session, 'constructor', { v: 1 });
    const { steps } = storeView(frameOf(session.state, 0), session.state.records);
    expect([steps['constructor'], steps.ran('toString'), steps.all('constructor')]).toEqual([
      { v: 1 },
      false,
      [{ v: 1 }],
    ]);
  });
});
