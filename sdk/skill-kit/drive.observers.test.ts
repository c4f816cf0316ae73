import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { answer, open, pathOf, started, warnings } from '../../test/rig/driven-session.ts';
import { skillOf, TERMINAL } from '../../test/rig/erased-skill.ts';
import { startSession } from './drive.ts';

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
    expect(heard).toEqual(['start:a', 'invalid:a1', 'complete:a', 'move:a>b', 'start:b', 'complete:b', 'move:b>__terminal__', 'done:a,b']);
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
    expect(warnings).toEqual(['observer error: observer broke']);
  });

  test('defect: params that cannot be cloned do not stop the start', async () => {
    const session = open(skillOf({ a: { prompt: 'a', next: TERMINAL } }, { observers: { onStepStart: () => undefined } }), { params: { f: () => 1 } });
    expect(await startSession(session)).toMatchObject({ step: 'a' });
    expect(warnings[0]).toMatch(/cannot be cloned/);
  });
});
