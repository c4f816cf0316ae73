import { describe, expect, test } from 'vitest';
import { answer, open, pathOf, started } from '../../test/rig/skills/session-in-process.ts';
import { skillOf, TERMINAL } from '../../test/rig/skills/erased-skill.ts';
import { startSession, tickSession } from './drive.ts';

describe('time', () => {
  const clock = (): { now: () => number; pass: (ms: number) => void } => {
    let at = 1_000_000;
    return { now: () => at, pass: (ms) => void (at += ms) };
  };

  test('a wait passes when its time has come', async () => {
    const { now, pass } = clock();
    const skill = skillOf({
      a: { prompt: 'a', next: 'rest' },
      rest: { wait: { durationMs: ({ params }) => (params as { ms: number }).ms }, next: 'b' },
      b: { prompt: 'b', next: TERMINAL },
    });
    const session = await started(skill, { now, params: { ms: 5_000 } });
    expect(await answer(session, 'a')).toEqual({
      kind: 'waiting',
      step: 'rest',
      dueMs: 1_005_000,
      completed: { step: 'a', response: {}, actionResult: undefined, result: {} },
    });
    pass(4_999);
    expect(await answer(session, 'rest')).toMatchObject({ kind: 'waiting' });
    pass(1);
    expect(await tickSession(session)).toMatchObject({ kind: 'prompt', step: 'b' });
    expect(pathOf(session)).toEqual(['a', 'rest']);
  });

  test('a call that names a wait that is over gets the next step', async () => {
    const { now, pass } = clock();
    const session = await started(
      skillOf({ rest: { wait: { durationMs: 10 }, next: 'b' }, b: { prompt: 'b', next: TERMINAL } }),
      { now },
    );
    pass(10);
    expect(await answer(session, 'rest')).toMatchObject({ kind: 'prompt', step: 'b', completed: { step: 'rest' } });
  });

  test('a person who does not answer in time is passed over, and counted', async () => {
    const { now, pass } = clock();
    const skill = skillOf({
      approve: {
        prompt: 'ok?',
        human: { deadlineMs: 60_000, onExpiry: 'self', assignee: 'ada' },
        maxVisits: 2,
        onMaxVisits: 'escalate',
        next: TERMINAL,
      },
      escalate: { prompt: 'late', next: TERMINAL },
    });
    const session = open(skill, { now });
    expect(await startSession(session)).toMatchObject({
      step: 'approve',
      human: { assignee: 'ada', dueMs: 1_060_000 },
    });
    pass(60_000);
    expect(await tickSession(session)).toMatchObject({ step: 'approve', human: { dueMs: 1_120_000 } });
    pass(60_000);
    expect(await answer(session, 'approve')).toMatchObject({
      kind: 'error',
      error: 'order',
      message: 'The deadline of step "approve" has passed; the session has moved on.',
    });
    expect(session.result).toMatchObject({ step: 'escalate' });
    expect(pathOf(session)).toEqual([]);
  });
});
