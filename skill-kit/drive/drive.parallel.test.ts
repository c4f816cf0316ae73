import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { SkillDefinition, StepConfig } from '../../domain/step-machine/definition.ts';
import { answer, open, pathOf, started } from '../../test/rig/skills/session-in-process.ts';
import { skillOf, TERMINAL } from '../../test/rig/skills/erased-skill.ts';
import { startSession } from './drive.ts';

describe('parallel steps', () => {
  const review = (more: Partial<StepConfig> = {}): SkillDefinition =>
    skillOf({
      begin: { prompt: 'begin', next: 'fork' },
      fork: { parallel: { branches: ['left', 'right', 'auto'], join: 'merge' } },
      left: { prompt: 'left', response: z.object({ l: z.number() }), next: 'left2' },
      left2: { prompt: 'left2', next: 'merge' },
      right: { prompt: 'right', response: z.object({ r: z.number() }), next: 'merge', ...more },
      auto: { action: () => 'measured', next: 'merge' },
      merge: {
        prompt: ({ store }) => JSON.stringify([store.steps['left'], store.steps['right'], store.steps['auto']]),
        next: TERMINAL,
      },
    });

  test('are open at once, are answered in any order, and join when all are through', async () => {
    const session = await started(review());
    const forked = await answer(session, 'begin');
    expect(forked).toMatchObject({ step: 'left', open: [{ step: 'right', prompt: '<prompt>\nright\n</prompt>' }] });
    expect(await answer(session, 'right', { r: 2 })).toMatchObject({ step: 'left', completed: { step: 'right' } });
    expect(await answer(session, 'merge')).toMatchObject({ error: 'order' });
    expect(await answer(session, 'left', { l: 1 })).toMatchObject({ step: 'left2' });
    expect(await answer(session, 'left2')).toMatchObject({
      step: 'merge',
      prompt: expect.stringContaining('[{"l":1},{"r":2},"measured"]') as string,
    });
    expect(await answer(session, 'merge')).toMatchObject({ kind: 'done' });
    expect(pathOf(session).filter((step) => step === 'merge')).toHaveLength(1);
  });

  test('run their actions at the same time', async () => {
    let inside = 0;
    let most = 0;
    const action = async (): Promise<void> => {
      most = Math.max(most, ++inside);
      await new Promise((resolve) => setImmediate(resolve));
      inside--;
    };
    const session = open(
      skillOf({
        fork: { parallel: { branches: ['a', 'b'], join: 'z' } },
        a: { action, next: 'z' },
        b: { action, next: 'z' },
        z: { prompt: 'z', next: TERMINAL },
      }),
    );
    expect(await startSession(session)).toMatchObject({ step: 'z' });
    expect(most).toBe(2);
  });

  test('save one after the other, and none over what another has written', async () => {
    const save: StepConfig['save'] = ({ store }) => ({
      seen: { n: ((store['seen'] as { n?: number } | undefined)?.n ?? 0) + 1 },
    });
    const skill = skillOf({
      fork: { parallel: { branches: ['a', 'b', 'c'], join: 'z' } },
      ...Object.fromEntries(['a', 'b', 'c'].map((name) => [name, { save, next: 'z' }])),
      z: { save: ({ store }) => ({ step: store['seen'] }), next: TERMINAL },
    });
    expect(await startSession(open(skill))).toMatchObject({ kind: 'done', finalOutput: { n: 3 } });
  });

  test('start nothing more once one of them has ended the session', async () => {
    let acted = 0;
    const skill = skillOf({
      fork: { parallel: { branches: ['bad', 'good'], join: 'z' } },
      bad: { wait: { durationMs: () => Number.NaN }, next: 'z' },
      good: { action: () => ++acted, next: 'z' },
      z: { prompt: 'z', next: TERMINAL },
    });
    await expect(startSession(open(skill))).rejects.toThrow('wait.durationMs returned NaN');
    expect(acted).toBe(0);
  });

  test('parallel steps of sub-skills with the same names are named by their addresses', async () => {
    const sub = { definition: skillOf({ look: { prompt: 'look', next: TERMINAL } }) };
    const skill = skillOf(
      {
        fork: { parallel: { branches: ['one', 'two'], join: 'z' } },
        one: { call: 'sub', next: 'z' },
        two: { call: 'sub', next: 'z' },
        z: { prompt: 'z', next: TERMINAL },
      },
      { subskills: { sub } },
    );
    const session = await started(skill);
    const message = 'Several current steps are called "look". Name one of them: "one/look", "two/look".';
    expect(await answer(session, 'look')).toMatchObject({ kind: 'error', error: 'order', message });
    await answer(session, 'two/look');
    expect(await answer(session, 'look')).toMatchObject({ step: 'z' });
  });

  test('nest, and a branch may loop', async () => {
    const session = await started(
      skillOf({
        outer: { parallel: { branches: ['inner', 'c'], join: 'z' } },
        inner: { parallel: { branches: ['a', 'b'], join: 'mid' } },
        a: { prompt: 'a', maxVisits: 2, onMaxVisits: 'mid', next: 'self' },
        b: { prompt: 'b', next: 'mid' },
        mid: { next: 'z' },
        c: { prompt: 'c', next: 'z' },
        z: { prompt: 'z', next: TERMINAL },
      }),
    );
    for (const step of ['b', 'a', 'a']) await answer(session, step);
    expect(await answer(session, 'c')).toMatchObject({ step: 'z' });
    expect(session.state.groups).toEqual([]);
  });

  test('a branch that would end the skill is refused when it can be seen, and fails when it cannot', async () => {
    const steps = {
      fork: { parallel: { branches: ['a', 'b'], join: 'z' } },
      a: { prompt: 'a', next: TERMINAL },
      b: { prompt: 'b', next: 'z' },
      z: { prompt: 'z', next: TERMINAL },
    };
    expect(() => open(skillOf(steps))).toThrow(/branch "a" can end the skill at "a"/);
    const hidden = await started(
      skillOf({ ...steps, a: { prompt: 'a', next: () => 'away' }, away: { prompt: 'x', next: TERMINAL } }),
    );
    await answer(hidden, 'a');
    await expect(answer(hidden, 'away')).rejects.toThrow('from within parallel steps');
  });
});
