import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { z } from 'zod';
import { answer, open, pathOf, started, warningsOf } from '../../test/rig/skills/session-in-process.ts';
import { skillOf, TERMINAL } from '../../test/rig/skills/erased-skill.ts';
import { startSession } from './drive.ts';
import { OBSERVER_LIMIT_MS } from './observers.ts';

describe('observers', () => {
  test('hear each fact once, in order, and cannot change the session', async () => {
    const heard: string[] = [];
    const note = (name: string) => (event: object) => {
      heard.push(
        `${name}:${Object.values(event)
          .filter((value) => typeof value === 'string')
          .slice(0, 2)
          .join('>')}`,
      );
      Object.assign(event, { step: 'changed', response: null });
    };
    const skill = skillOf(
      { a: { prompt: 'a', response: z.object({ v: z.string() }), next: 'b' }, b: { prompt: 'b', next: TERMINAL } },
      {
        observers: {
          onStepStart: note('start'),
          onStepComplete: note('complete'),
          onTransition: note('move'),
          onStepValidationFailed: ({ step, attempt }) => void heard.push(`invalid:${step}${attempt}`),
          onSkillComplete: ({ path }) => void heard.push(`done:${path.join()}`),
        },
      },
    );
    const session = await started(skill);
    await answer(session, 'a', {});
    await answer(session, 'a', { v: 'x' });
    await answer(session, 'b');
    expect(heard).toEqual([
      'start:a',
      'invalid:a1',
      'complete:a',
      'move:a>b',
      'start:b',
      'complete:b',
      'move:b>__terminal__',
      'done:a,b',
    ]);
    expect(pathOf(session)).toEqual(['a', 'b']);
  });

  test('defect: wait for one another, are heard before the answer is given, and may throw', async () => {
    const heard: string[] = [];
    const skill = skillOf(
      { a: { prompt: 'a', next: 'b' }, b: { prompt: 'b', next: TERMINAL } },
      {
        observers: {
          onStepStart: async ({ step }) => {
            await new Promise((resolve) => setImmediate(resolve));
            heard.push(`start ${step}`);
          },
          onStepComplete: () => {
            heard.push('complete');
            throw new Error('observer broke');
          },
        },
      },
    );
    const session = await started(skill);
    expect(heard).toEqual(['start a']);
    expect(await answer(session, 'a')).toMatchObject({ step: 'b' });
    expect(heard).toEqual(['start a', 'complete', 'start b']);
    expect(warningsOf(session)).toEqual(['observer error: observer broke']);
  });

  test('defect: params that cannot be cloned do not stop the start', async () => {
    const session = open(
      skillOf({ a: { prompt: 'a', next: TERMINAL } }, { observers: { onStepStart: () => undefined } }),
      { params: { f: () => 1 } },
    );
    expect(await startSession(session)).toMatchObject({ step: 'a' });
    expect(warningsOf(session)[0]).toMatch(/cannot be cloned/);
  });

  test('observers get a payload without the circular members that cannot be cloned', async () => {
    const odd: Record<string, unknown> = { f: () => 1 };
    odd['self'] = odd;
    const heard: unknown[] = [];
    const skill = skillOf(
      {
        a: { prompt: 'a', action: async () => Promise.resolve(1), next: 'b' },
        b: { save: () => ({ step: odd }), next: TERMINAL },
      },
      { observers: { onSkillComplete: (event) => void heard.push(event) } },
    );
    expect(await answer(await started(skill), 'a')).toMatchObject({ kind: 'done' });
    expect(heard).toMatchObject([{ path: ['a', 'b'], finalOutput: undefined }]);
  });

  test('one that never ends is waited for a while, and then no longer', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const heard: string[] = [];
    const skill = skillOf(
      { a: { prompt: 'a', next: TERMINAL } },
      {
        observers: {
          onStepStart: () => new Promise(() => undefined),
          onStepComplete: ({ step }) => void heard.push(step),
        },
      },
    );
    const session = open(skill);
    const prompt = startSession(session);
    await vi.advanceTimersByTimeAsync(OBSERVER_LIMIT_MS);
    expect(await prompt).toMatchObject({ step: 'a' });
    expect(warningsOf(session)).toEqual(['observer onStepStart has not ended after 5 s and is no longer waited for']);
    expect(await answer(session, 'a')).toMatchObject({ kind: 'done' });
    expect(heard).toEqual(['a']);
  });
});
