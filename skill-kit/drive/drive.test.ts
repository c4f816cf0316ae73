import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { answer, onJson, open, pathOf, started } from '../../test/rig/skills/session-in-process.ts';
import { skillOf, TERMINAL } from '../../test/rig/skills/erased-skill.ts';
import { advanceSession, resumeSession, startSession } from './drive.ts';

describe('a session', () => {
  test('goes from prompt to prompt to its end, and says what was completed', async () => {
    const session = open(
      skillOf({
        ask: { prompt: 'How many?', response: z.object({ n: z.number() }), next: 'tell' },
        tell: { prompt: ({ store }) => `You said ${(store.steps['ask'] as { n: number }).n}.`, next: TERMINAL },
      }),
    );
    const first = await startSession(session);
    expect(first).toMatchObject({
      kind: 'prompt',
      step: 'ask',
      prompt: '<prompt>\nHow many?\n</prompt>',
      schema: { type: 'object' },
    });
    expect(Object.keys(first)).toEqual(['kind', 'step', 'preamble', 'prompt', 'schema']);
    const second = await answer(session, 'ask', { n: 3 });
    expect(second).toStrictEqual({
      kind: 'prompt',
      step: 'tell',
      prompt: '<prompt>\nYou said 3.\n</prompt>',
      schema: null,
      completed: { step: 'ask', response: { n: 3 }, actionResult: undefined, result: { n: 3 } },
    });
    expect(await answer(session, 'tell')).toStrictEqual({
      kind: 'done',
      done: true,
      finalOutput: {},
      completed: { step: 'tell', response: {}, actionResult: undefined, result: {} },
    });
  });

  test('continues from its state as JSON after every single answer', async () => {
    const skill = skillOf({
      loop: {
        prompt: ({ attempts }) => `p${attempts}`,
        response: z.object({ i: z.number() }),
        save: ({ response }) => ({ sum: { last: response } }),
        maxVisits: 50,
        next: ({ attempts }) => (attempts < 20 ? 'self' : 'fork'),
      },
      fork: { parallel: { branches: ['a', 'b'], join: 'end' } },
      a: { prompt: 'a', next: 'end' },
      b: { prompt: 'b', next: 'end' },
      end: { prompt: 'e', next: TERMINAL },
    });
    let session = await started(skill);
    for (let i = 0; i < 20; i++) {
      await answer(session, 'loop', { i });
      session = resumeSession(skill, onJson(session.state));
    }
    await answer(session, 'b');
    session = resumeSession(skill, onJson(session.state));
    await answer(session, 'a');
    expect(await answer(resumeSession(skill, onJson(session.state)), 'end')).toMatchObject({ kind: 'done' });
  });

  test('refuses params that do not fit, naming the skill, the field and the flag', () => {
    const skill = skillOf({ a: { prompt: 'x', next: TERMINAL } }, { params: z.object({ repo: z.string() }) });
    expect(() => open(skill, { params: {} })).toThrow(/Invalid params for skill "sample": repo: .*--params/);
  });

  test('defect: step order is enforced, and done is sticky', async () => {
    const session = await started(skillOf({ a: { prompt: 'a', next: 'b' }, b: { prompt: 'b', next: TERMINAL } }));
    expect(await answer(session, 'b')).toEqual({
      kind: 'error',
      error: 'order',
      step: 'b',
      message: 'Step "b" is not the current step. Answer "a" instead.',
      retry: false,
    });
    expect(await answer(session, 'nowhere')).toEqual({
      kind: 'error',
      error: 'validation',
      step: 'nowhere',
      message: 'Unknown step "nowhere"',
      retry: false,
    });
    await answer(session, 'a');
    const done = await answer(session, 'b');
    expect(await answer(session, 'a')).toEqual({
      kind: 'done',
      done: true,
      finalOutput: (done as { finalOutput: unknown }).finalOutput,
    });
    expect(pathOf(session)).toEqual(['a', 'b']);
  });

  test('two answers for the same turn: one wins, the other hears that the step is busy', async () => {
    let runs = 0;
    const skill = skillOf({
      a: { prompt: 'a', action: async () => ++runs, next: 'b' },
      b: { prompt: 'b', next: TERMINAL },
    });
    const session = await started(skill);
    const [first, second] = await Promise.all([answer(session, 'a'), answer(session, 'a')]);
    expect(first).toMatchObject({ kind: 'prompt', step: 'b' });
    expect(second).toMatchObject({ kind: 'error', error: 'busy', retry: false });
    expect(runs).toBe(1);
    expect(await advanceSession(session, { step: 'b', output: {}, turn: 1 })).toMatchObject({
      kind: 'error',
      error: 'order',
    });
  });
});

describe('answers that do not fit', () => {
  const skill = skillOf({
    a: {
      prompt: 'a',
      response: z.object({ v: z.string() }),
      maxInvalid: 3,
      save: () => ({ seen: { n: 1 } }),
      next: TERMINAL,
    },
  });

  test('change neither store nor visits', async () => {
    const session = await started(skill);
    const before = session.state.frames[0]!;
    expect(await answer(session, 'a', { v: 1 })).toMatchObject({
      kind: 'error',
      error: 'validation',
      step: 'a',
      retry: true,
      message: expect.stringMatching(/^v: /) as string,
    });
    const after = session.state.frames[0]!;
    expect([after.visits, after.stores, session.state.records.length]).toEqual([before.visits, before.stores, 0]);
    expect(await answer(session, 'a', { v: 'x' })).toMatchObject({ kind: 'done' });
  });

  test('defect: they are bounded', async () => {
    const session = await started(skill);
    await answer(session, 'a', 1);
    await answer(session, 'a', 1);
    expect(await answer(session, 'a', 1)).toMatchObject({ kind: 'error', error: 'limit', retry: false });
    expect(await answer(session, 'a', { v: 'x' })).toMatchObject({ kind: 'error', error: 'failed', retry: false });
  });
});

describe('steps without a prompt', () => {
  test('defect: no record is lost and none comes twice', async () => {
    const skill = skillOf({
      x: { prompt: 'x', next: 'p1' },
      p1: { save: () => ({ step: 'one' }), next: 'p2' },
      p2: { action: () => 'two', next: 'y' },
      y: { prompt: 'y', next: TERMINAL },
    });
    const session = await started(skill);
    const result = await answer(session, 'x', {});
    expect(result).toMatchObject({
      step: 'y',
      completed: { step: 'x', result: {} },
      autoAdvanced: [
        { step: 'p1', result: 'one' },
        { step: 'p2', actionResult: 'two', result: 'two' },
      ],
    });
    expect(pathOf(session)).toEqual(['x', 'p1', 'p2']);
  });

  test('before the first prompt they are passed by start', async () => {
    const session = open(
      skillOf({
        gate: { save: () => ({ env: { ready: true } }), next: 'a' },
        a: { prompt: ({ store }) => JSON.stringify(store['env']), next: TERMINAL },
      }),
    );
    expect(await startSession(session)).toMatchObject({
      step: 'a',
      autoAdvanced: [{ step: 'gate' }],
      preamble: expect.any(String) as string,
      prompt: expect.stringContaining('ready') as string,
    });
  });

  test('defect: one whose schema refuses {} ends the session, because no client can answer it', async () => {
    const session = open(skillOf({ gate: { response: z.object({ v: z.number() }), next: TERMINAL } }));
    await expect(startSession(session)).rejects.toThrow(
      /^Step "gate" has no prompt, so its response is \{\}, which its response schema refuses: v: .*Give it a prompt/,
    );
    expect(session.state.status.kind).toBe('failed');
  });
});
