import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { SkillDefinition, StepConfig } from '../../domain/step-machine/definition.ts';
import { answer, pathOf, started } from '../../test/rig/skills/session-in-process.ts';
import { skillOf, TERMINAL } from '../../test/rig/skills/erased-skill.ts';
import { CycleGuardError, resumeSession } from './drive.ts';

describe('limits', () => {
  test('nine self-visits pass, the tenth advance rejects with CycleGuardError (defect: self was unbounded)', async () => {
    for (const next of ['self', 'a', () => 'a', () => 'self', [{ to: 'self' }]] as StepConfig['next'][]) {
      const session = await started(skillOf({ a: { prompt: 'a', next: next! } }));
      for (let i = 0; i < 9; i++) expect(await answer(session, 'a')).toMatchObject({ kind: 'prompt', step: 'a' });
      await expect(answer(session, 'a')).rejects.toThrow(CycleGuardError);
    }
  });

  test('defect: maxVisits limits the visits of the step that has it', async () => {
    const session = await started(
      skillOf({
        a: { prompt: 'a', next: 'b', maxVisits: 2, onMaxVisits: 'z' },
        b: { prompt: 'b', next: 'a', maxVisits: 9 },
        z: { prompt: 'z', next: TERMINAL },
      }),
    );
    for (const step of ['a', 'b', 'a']) await answer(session, step);
    expect(await answer(session, 'b')).toMatchObject({ kind: 'prompt', step: 'z' });
  });

  test('defect: the target of onMaxVisits is looked at too', async () => {
    const session = await started(
      skillOf({
        a: { prompt: 'a', next: 'self', maxVisits: 1, onMaxVisits: 'b' },
        b: { prompt: 'b', next: 'a', maxVisits: 1, onMaxVisits: 'z' },
        z: { prompt: 'z', next: TERMINAL },
      }),
    );
    expect(await answer(session, 'a')).toMatchObject({ step: 'b' });
    expect(await answer(session, 'b')).toMatchObject({ step: 'z' });
  });

  test('two steps that send each other their excess end in an error, not in a loop', async () => {
    const session = await started(
      skillOf({
        a: { prompt: 'a', next: 'b', maxVisits: 1, onMaxVisits: 'b' },
        b: { prompt: 'b', next: 'a', maxVisits: 1, onMaxVisits: 'a' },
      }),
    );
    await answer(session, 'a');
    await expect(answer(session, 'b')).rejects.toThrow(/exceeded maxVisits \(1\)/);
  });

  test('twenty steps without a prompt pass, the twenty-first is one too many', async () => {
    const chain = (length: number): SkillDefinition => {
      const steps: Record<string, StepConfig> = { a: { prompt: 'a', next: 's1' } };
      for (let i = 1; i <= length; i++) steps[`s${i}`] = { next: i === length ? 'z' : `s${i + 1}` };
      return skillOf({ ...steps, z: { prompt: 'z', next: TERMINAL } });
    };
    const passes = await started(chain(20));
    expect(await answer(passes, 'a')).toMatchObject({ step: 'z' });
    expect(pathOf(passes)).toHaveLength(21);
    await expect(answer(await started(chain(21)), 'a')).rejects.toThrow('Auto-advance depth exceeded (20)');
  });

  test('an unknown target ends the session with a message', async () => {
    const session = await started(skillOf({ a: { prompt: 'a', next: () => 'nowhere' } }));
    await expect(answer(session, 'a')).rejects.toThrow(/unknown target "nowhere".*or a step: a/);
    expect(session.state.status.kind).toBe('failed');
  });
});

test('10,000 looped steps copy no records: every advance pushes onto one array', async () => {
  const session = await started(
    skillOf({
      a: {
        prompt: 'a',
        response: z.object({ i: z.number() }),
        maxVisits: 1e6,
        save: ({ response }) => ({ last: { i: response } }),
        next: 'self',
      },
    }),
  );
  await answer(session, 'a', { i: -1 });
  const { items } = session.state.records;
  for (let i = 0; i < 10_000; i++) await answer(session, 'a', { i });
  expect(session.state.records.items).toBe(items);
  expect(session.state.records.length).toBe(10_001);
  expect(session.state.frames[0]!.visits).toEqual({ a: 10_001 });
  expect(JSON.stringify({ ...session.state, records: null }).length).toBeLessThan(2_000);
}, 300_000);

test('a sub-skill that is called again and again reads only its own records, and names them', async () => {
  const paths: (readonly string[])[] = [];
  const skill = skillOf(
    { a: { prompt: 'a', maxVisits: 1e6, next: 'run' }, run: { call: 'sub', maxVisits: 1e6, next: 'a' } },
    {
      subskills: {
        sub: {
          definition: skillOf(
            { q: { next: TERMINAL } },
            { observers: { onSkillComplete: ({ path }) => void paths.push(path) } },
          ),
        },
      },
    },
  );
  const session = await started(skill);
  for (let i = 0; i < 100; i++) await answer(session, 'a');
  const { records } = session.state;
  let looked = 0;
  const items = new Proxy(records.items, {
    get: (target, key) => (
      typeof key === 'string' && /^\d+$/.test(key) && looked++,
      Reflect.get(target, key) as unknown
    ),
  });
  const watched = resumeSession(skill, { ...session.state, records: { ...records, items } });
  await answer(watched, 'a');
  expect(looked).toBeLessThan(10);
  expect(paths).toEqual(Array.from({ length: 101 }, () => ['q']));
});
