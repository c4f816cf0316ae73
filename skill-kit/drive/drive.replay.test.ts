import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { SkillDefinition } from '../../domain/step-machine/definition.ts';
import { recordsOf } from '../../domain/step-machine/records.ts';
import { answer, open, warningsOf } from '../../test/rig/skills/session-in-process.ts';
import { skillOf, TERMINAL } from '../../test/rig/skills/erased-skill.ts';
import { CycleGuardError, placeSession, replayHistory, type Session, startSession } from './drive.ts';

function replaySession(session: Session, history: readonly unknown[], place: string): void {
  replayHistory(session, history);
  placeSession(session, place);
}

/** One branch calls `sub`, the other asks twice. */
function besideAnother(sub: SkillDefinition): SkillDefinition {
  return skillOf(
    {
      fork: { parallel: { branches: ['use', 'other'], join: 'z' } },
      use: { call: 'sub', next: 'z' },
      other: { prompt: 'o', next: 'more' },
      more: { prompt: 'm', next: 'z' },
      z: { prompt: 'z', next: TERMINAL },
    },
    { subskills: { sub: { definition: sub } } },
  );
}

describe('a history that the client carries', () => {
  const skill = skillOf({
    a: {
      prompt: 'a',
      response: z.object({ v: z.number() }),
      save: ({ response }) => ({ sum: { v: (response as { v: number }).v } }),
      action: () => 'ran',
      next: 'gate',
    },
    gate: { next: 'b' },
    b: { prompt: ({ store }) => JSON.stringify(store), next: 'self' },
  });

  test('is counted and saved again; no action runs, and no observer is called', async () => {
    const heard: string[] = [];
    const session = open({
      ...skill,
      observers: {
        onStepStart: ({ step }) => void heard.push(step),
        onStepComplete: ({ step }) => void heard.push(step),
      },
    });
    replaySession(
      session,
      [
        { step: 'a', response: { v: 4 }, actionResult: 'earlier' },
        { step: 'gate', response: {} },
        { step: 'b', response: {} },
      ],
      'b',
    );
    expect(heard).toEqual([]);
    expect(session.state.frames[0]).toMatchObject({
      visits: { a: 1, gate: 1, b: 1 },
      stores: { sum: { v: 4 } },
      last: { a: 'earlier' },
    });
    expect(await answer(session, 'b')).toMatchObject({ step: 'b', prompt: expect.stringContaining('"v":4') as string });
    expect(heard).toEqual(['b', 'b']);
  });

  test('malformed entries and unknown steps are skipped with a warning, answers that do not fit are kept', () => {
    const session = open(skill);
    replaySession(
      session,
      [{ step: 'a', output: {} }, 7, { step: 'zz', response: 1 }, { step: 'a', response: { v: 'raw' } }],
      'b',
    );
    expect(warningsOf(session)).toEqual([
      'skipping malformed history entry: {"step":"a","output":{}}',
      'skipping malformed history entry: 7',
      'skipping history entry of unknown step "zz"',
    ]);
    expect([...recordsOf(session.state.records)].map(({ response }) => response)).toEqual([{ v: 'raw' }]);
  });

  test('limits hold over it', () => {
    const session = open(skill);
    expect(() =>
      replaySession(
        session,
        Array.from({ length: 10 }, () => ({ step: 'b', response: {} })),
        'b',
      ),
    ).toThrow(CycleGuardError);
  });

  test('a session that has only its history starts from what it says', async () => {
    const session = open(skillOf({ a: { prompt: ({ attempts }) => `seen ${attempts}`, next: 'self' } }));
    session.feed({ type: 'replay', step: 'a', response: {} });
    expect(await startSession(session)).toMatchObject({ prompt: '<prompt>\nseen 1\n</prompt>' });
  });

  test('leads into parallel steps: what the other branches still owe is open', async () => {
    const parallel = skillOf({
      begin: { prompt: 'x', next: 'fork' },
      fork: { parallel: { branches: ['l', 'r'], join: 'z' } },
      l: { prompt: 'l', next: 'z' },
      r: { prompt: 'r', next: 'z' },
      z: { prompt: 'z', next: TERMINAL },
    });
    const history = [
      { step: 'begin', response: {} },
      { step: 'fork', response: {} },
    ];
    const one = open(parallel);
    replaySession(one, history, 'r');
    expect(await answer(one, 'r')).toMatchObject({ kind: 'prompt', step: 'l' });
    const two = open(parallel);
    replaySession(two, [...history, { step: 'r', response: {} }], 'l');
    expect(await answer(two, 'l')).toMatchObject({ kind: 'prompt', step: 'z' });
  });

  test('defect: a sub-skill has its params on every answer, not only on the first', async () => {
    const sub = skillOf(
      {
        one: { prompt: '1', next: 'two' },
        two: { prompt: ({ params }) => `for ${(params as { who: string }).who}`, next: TERMINAL },
      },
      { params: z.object({ who: z.string() }) },
    );
    const main = skillOf(
      { route: { prompt: 'r', response: z.object({ who: z.string() }), next: 'subskill:sub' } },
      { subskills: { sub: { definition: sub, paramsMap: (response) => response } } },
    );
    const session = open(main);
    replaySession(session, [{ step: 'route', response: { who: 'ada' } }], 'sub/one');
    expect(await answer(session, 'sub/one')).toMatchObject({ step: 'sub/two', prompt: '<prompt>\nfor ada\n</prompt>' });
  });

  test('leads into a called sub-skill and out of it again', async () => {
    const sub = skillOf({
      one: { prompt: '1', next: 'two' },
      two: { prompt: '2', response: z.object({ n: z.number() }), next: TERMINAL },
    });
    const main = skillOf(
      {
        use: { call: 'sub', next: 'end' },
        end: { prompt: ({ store }) => JSON.stringify(store.steps['use']), next: TERMINAL },
      },
      { subskills: { sub: { definition: sub } } },
    );
    const session = open(main);
    replaySession(session, [{ step: 'use/one', response: {} }], 'use/two');
    const back = await answer(session, 'use/two', { n: 5 });
    expect(back).toMatchObject({
      step: 'end',
      prompt: expect.stringContaining('{"n":5}') as string,
      autoAdvanced: [{ step: 'use', actionResult: { n: 5 } }],
    });
    const later = open(main);
    replaySession(
      later,
      [
        { step: 'use/one', response: {} },
        { step: 'use/two', response: { n: 5 } },
        { step: 'use', response: {}, actionResult: { n: 5 } },
      ],
      'end',
    );
    expect(await answer(later, 'end')).toMatchObject({ kind: 'done' });
    const over = open(main);
    replaySession(over, [], 'use');
    expect(await answer(over, 'use')).toMatchObject({ kind: 'prompt', step: 'use/one' });
  });

  test('leads from a sub-skill on into one of its own, which keeps its store', async () => {
    const deep = skillOf({
      one: { prompt: '1', save: () => ({ kept: { one: true } }), next: 'two' },
      two: { prompt: '2', next: 'three' },
      three: { prompt: ({ store }) => JSON.stringify([store['kept'], store.steps.history.length]), next: TERMINAL },
    });
    const sub = skillOf(
      { pick: { prompt: 'p', next: 'subskill:deep' } },
      { subskills: { deep: { definition: deep } } },
    );
    const main = skillOf({ route: { prompt: 'r', next: 'subskill:sub' } }, { subskills: { sub: { definition: sub } } });
    const session = open(main);
    const history = ['route', 'sub/pick', 'sub/deep/one'].map((step) => ({ step, response: {} }));
    replaySession(session, history, 'sub/deep/two');
    expect(await answer(session, 'sub/deep/two')).toMatchObject({
      step: 'sub/deep/three',
      prompt: '<prompt>\n[{"one":true},2]\n</prompt>',
    });
    expect(warningsOf(session)).toEqual([]);
  });

  test('keeps the place of a sub-skill that another branch has called', async () => {
    const sub = skillOf(
      { one: { prompt: '1', next: 'quiet' }, quiet: { next: 'deeper' }, deeper: { call: 'deep', next: TERMINAL } },
      {
        subskills: { deep: { definition: skillOf({ d: { prompt: 'd', next: TERMINAL } }) } },
      },
    );
    const session = open(besideAnother(sub));
    const history = ['fork', 'use/one', 'use/quiet'].map((step) => ({ step, response: {} }));
    replaySession(session, history, 'other');
    expect(await answer(session, 'other')).toMatchObject({ step: 'more', open: [{ step: 'use/deeper/d' }] });
    await answer(session, 'more');
    expect(await answer(session, 'use/deeper/d')).toMatchObject({ step: 'z' });
  });

  test('keeps the place of a sub-skill that the one called by another branch has led to', async () => {
    const last = skillOf({ l: { prompt: 'l', next: TERMINAL } });
    const sub = skillOf({ one: { prompt: '1', next: 'subskill:last' } }, { subskills: { last: { definition: last } } });
    const session = open(besideAnother(sub));
    replaySession(
      session,
      ['fork', 'use/one'].map((step) => ({ step, response: {} })),
      'other',
    );
    expect(await answer(session, 'other')).toMatchObject({ step: 'more', open: [{ step: 'use/last/l' }] });
    await answer(session, 'more');
    expect(await answer(session, 'use/last/l')).toMatchObject({ step: 'z' });
  });
});
