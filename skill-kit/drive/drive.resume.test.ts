import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { Command } from '../../domain/step-machine/command.ts';
import type { SessionEvent, SessionEventBody } from '../../domain/step-machine/event.ts';
import type { SkillDefinition } from '../../domain/step-machine/definition.ts';
import { factsOf } from '../../domain/step-machine/facts.ts';
import { transition } from '../../domain/step-machine/machine.ts';
import { answer, onJson, open, started } from '../../test/rig/skills/session-in-process.ts';
import { skillOf, TERMINAL } from '../../test/rig/skills/erased-skill.ts';
import { resumeSession, startSession } from './drive.ts';
import { runTurn, type Turn } from './turn.ts';

describe('changed code', () => {
  const v1 = skillOf({ a: { prompt: 'a', next: 'old' }, old: { prompt: 'o', next: TERMINAL } });
  const v2 = skillOf({ a: { prompt: 'a', next: 'new' }, new: { prompt: 'n', next: TERMINAL } }, { version: '2.0.0' });

  test('defect: a session is refused by another skill, another version and other code', async () => {
    const session = await started(v1, { codeHash: 'aaa' });
    expect(() => resumeSession({ ...v1, name: 'other' }, session.state)).toThrow(
      'belongs to skill "sample", not to "other"',
    );
    expect(() => resumeSession(v2, session.state)).toThrow(
      /begun with version 1\.0\.0; this is version 2\.0\.0.*migrations: \[\{ from: '1\.0\.0' \}\]/,
    );
    expect(() => resumeSession(v1, session.state, { codeHash: 'bbb' })).toThrow('other code of version 1.0.0');
    expect(resumeSession(v1, session.state, { codeHash: 'aaa' }).result).toMatchObject({ step: 'a' });
  });

  test('a declared migration takes it over', async () => {
    const session = await started(v1, { codeHash: 'aaa' });
    await answer(session, 'a');
    const migrated = resumeSession(
      {
        ...v2,
        migrations: [{ from: '1.0.0', renamedSteps: { old: 'new' }, stores: (stores) => ({ ...stores, fresh: {} }) }],
      },
      onJson(session.state),
      { codeHash: 'bbb' },
    );
    expect(migrated.state).toMatchObject({ version: '2.0.0', codeHash: 'bbb', frames: [{ stores: { fresh: {} } }] });
    expect(await answer(migrated, 'new')).toMatchObject({ kind: 'done' });
    expect(() => resumeSession({ ...v2, migrations: [{ from: '1.0.0' }] }, onJson(session.state))).toThrow(
      'is at step "old"',
    );
  });

  describe('with sub-skills', () => {
    const top = (version: string, inner: Parameters<typeof skillOf>[0]): SkillDefinition =>
      skillOf(
        { a: { prompt: 'a', next: 'run' }, run: { call: 'sub', next: TERMINAL } },
        {
          version,
          subskills: { sub: { definition: skillOf(inner) } },
          ...(version === '1' ? {} : { migrations: [{ from: '1', renamedSteps: { x: 'y' } }] }),
        },
      );
    const x = { x: { prompt: 'x', next: 'end' }, end: { prompt: 'end', next: TERMINAL } };

    test('a sub-skill that was started directly continues under its own names', async () => {
      const session = await started(top('1', x), { subskill: 'sub' });
      const migrated = resumeSession(top('2', x), onJson(session.state));
      expect(await answer(migrated, 'sub/x')).toMatchObject({ kind: 'prompt', step: 'sub/end' });
    });

    test('a step or a sub-skill that is gone is named', async () => {
      const session = await started(top('1', x));
      await answer(session, 'a');
      expect(() => resumeSession(top('2', { y: { prompt: 'y', next: TERMINAL } }), onJson(session.state))).toThrow(
        'is at step "run/x", which version 2 does not have; keep it in the sub-skill "sub"',
      );
      const alone = skillOf(
        { a: { prompt: 'a', next: 'run' }, run: { prompt: 'r', next: TERMINAL } },
        { version: '2', migrations: [{ from: '1' }] },
      );
      expect(() => resumeSession(alone, onJson(session.state))).toThrow(
        'runs the sub-skill "sub", which version 2 does not have',
      );
    });
  });
});

test('a session is a fold of its events: the same events give the same state without calling any callback', async () => {
  const skill = skillOf({
    a: {
      prompt: () => String(Math.random()),
      action: () => Math.random(),
      save: () => ({ dice: { n: Math.random() } }),
      next: () => (Math.random() < 2 ? 'fork' : 'a'),
    },
    fork: { parallel: { branches: ['l', 'r'], join: 'z' } },
    l: { prompt: 'l', next: 'z' },
    r: { action: () => Math.random(), next: 'z' },
    z: { prompt: 'z', next: TERMINAL },
  });
  const events: SessionEvent[] = [];
  const session = open(skill, {
    onEvent: (event) => void events.push(JSON.parse(JSON.stringify(event)) as SessionEvent),
  });
  const fresh = onJson(session.state);
  await startSession(session);
  for (const step of ['a', 'l', 'z']) await answer(session, step);
  const folded = events.reduce((state, event) => transition(factsOf(skill), state, event).state, fresh);
  expect(folded).toEqual(onJson(session.state));
  expect(folded.status.kind).toBe('done');
});

test('a turn can be worked out elsewhere: its events, folded here, lead to the same state', async () => {
  const skill = skillOf({
    a: { prompt: 'a', response: z.object({ v: z.number() }), save: () => ({ s: { n: Math.random() } }), next: 'act' },
    act: { action: () => 'never here', next: 'rest' },
    rest: { wait: { durationMs: 5 }, next: TERMINAL },
  });
  const facts = factsOf(skill);
  let state = onJson(open(skill).state);
  const turn = async (event: SessionEventBody): Promise<Turn> => {
    const done = await runTurn(skill, onJson(state), event);
    state = done.events.reduce((before, one) => transition(facts, before, one).state, state);
    expect(onJson(state)).toEqual(onJson(done.state));
    return done;
  };
  expect((await turn({ type: 'start', request: 'q1' })).replies).toMatchObject({ q1: { kind: 'prompt', step: 'a' } });
  expect((await turn({ type: 'advance', request: 'q2', step: 'a', value: {} })).replies).toMatchObject({
    q2: { error: 'validation', retry: true },
  });
  const acting = await turn({ type: 'advance', request: 'q3', step: 'a', value: { v: 1 } });
  expect([acting.replies, acting.deferred.map(({ type }) => type)]).toEqual([{}, ['run-action']]);
  const waiting = await turn({
    type: 'action-ended',
    cursor: state.cursors[0]!.id,
    attempt: 1,
    ok: true,
    value: 'done there',
  });
  expect(waiting.replies).toMatchObject({
    q3: {
      kind: 'waiting',
      step: 'rest',
      completed: { step: 'a' },
      autoAdvanced: [{ step: 'act', result: 'done there' }],
    },
  });
  expect(waiting.deferred).toMatchObject([{ type: 'wait', reason: 'wait', durationMs: 5 }]);
  await turn({ type: 'timer-fired', cursor: state.cursors[0]!.id, reason: 'wait' });
  expect(state.status).toEqual({ kind: 'done', finalOutput: {} });
});

test('another program can carry out commands, and its answer continues the session', async () => {
  const left: Command[] = [];
  const skill = skillOf({ a: { prompt: 'a', action: () => 'here', next: 'b' }, b: { prompt: 'b', next: TERMINAL } });
  const session = await started(skill, {
    defer: ({ type }) => type === 'run-action',
    onDeferred: (command) => void left.push(command),
  });
  const answered = answer(session, 'a');
  await session.idle();
  expect(left).toMatchObject([{ type: 'run-action', idempotencyKey: 's1/1/a' }]);
  session.feed({ type: 'action-ended', cursor: 1, attempt: 1, ok: true, value: 'elsewhere' });
  expect(await answered).toMatchObject({ step: 'b', completed: { actionResult: 'elsewhere' } });
});
