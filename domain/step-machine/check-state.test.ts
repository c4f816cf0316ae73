import { describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { advanceSession, createSession, startSession } from '../../skill-kit/drive/drive.ts';
import { onJson } from '../../test/rig/skills/session-in-process.ts';
import { skillOf, TERMINAL } from '../../test/rig/skills/erased-skill.ts';
import { problemOfAction, problemOfState } from './check-state.ts';
import type { Command } from './command.ts';
import type { SkillFacts } from './facts.ts';
import type { SessionState } from './state.ts';

type RunAction = Extract<Command, { readonly type: 'run-action' }>;

interface Acting {
  readonly state: SessionState;
  readonly facts: SkillFacts;
  readonly command: RunAction;
}

/** A state and its command, as an activity receives them. */
async function acting(): Promise<Acting> {
  let endAction: () => void = () => undefined;
  const definition = skillOf({
    ask: {
      prompt: 'p',
      response: z.object({ n: z.number() }),
      timeoutMs: 60_000,
      action: () => new Promise<void>((resolve) => (endAction = resolve)),
      next: 'quiet',
    },
    quiet: { prompt: 'q', next: TERMINAL },
  });
  const seen: { command: RunAction; state: SessionState }[] = [];
  const session = createSession(definition, {
    session: 's1',
    onCommand: (command) => {
      if (command.type === 'run-action') seen.push({ command, state: onJson(session.state) });
    },
  });
  await startSession(session);
  const answered = advanceSession(session, { step: 'ask', output: { n: 1 } });
  // Without this, its time limit could end in a test of another file.
  onTestFinished(async () => {
    endAction();
    await answered;
  });
  await expect.poll(() => seen.length).toBe(1);
  return { ...onJson(seen[0]! as never as SessionState), facts: session.runtime.facts } as never;
}

describe('a state', () => {
  test('that the engine made has no problem, and neither has the action that follows from it', async () => {
    const { state, facts, command } = await acting();
    expect(problemOfState(state, 's1')).toBeNull();
    expect(problemOfAction(facts, state, command)).toBeNull();
  });

  test('a state of another shape has a problem', async () => {
    const { state } = await acting();
    const [cursor] = state.cursors;
    for (const [wrong, problem] of [
      [null, 'it is not an object'],
      [[], 'it is not an object'],
      [{ ...state, format: 2 }, 'format'],
      [{ ...state, session: 's2' }, 'another session'],
      [{ ...state, skill: 5 }, 'names no skill'],
      [{ ...state, turn: 1.5 }, 'turn is not a whole number'],
      [{ ...state, frames: {} }, 'frames are not a list'],
      [{ ...state, frames: [{ ...state.frames[0], skill: ['a', 5] }] }, 'one of its frames is not valid'],
      [{ ...state, frames: [{ ...state.frames[0], stores: [] }] }, 'one of its frames has no stores'],
      [{ ...state, cursors: [{ ...cursor, step: '' }] }, 'one of its cursors is not valid'],
      [{ ...state, cursors: [{ ...cursor, frame: 9 }] }, 'is not in any of its frames'],
      [{ ...state, requests: Array.from({ length: 10_001 }, () => ({})) }, 'requests are not a list of at most 10000'],
      [{ ...state, records: null }, 'no records'],
      [{ ...state, records: { ...state.records, length: 7 } }, 'the count of its records is wrong'],
      [{ ...state, records: { ...state.records, flushedRef: '/../../../etc/passwd' } }, 'have an invalid name'],
    ] as const)
      expect(problemOfState(wrong, 's1'), problem).toContain(problem);
  });

  test('and an action that does not follow from it have a problem', async () => {
    const { state, facts, command } = await acting();
    for (const [wrong, problem] of [
      [{ ...command, cursor: 99 }, 'no current step at the place of the action'],
      [{ ...command, step: 'quiet' }, 'no current step at the place of the action'],
      [{ ...command, attempt: 2 }, 'is not at attempt 2'],
      [{ ...command, response: { n: 1_000_000 } }, 'answers to something else'],
      [{ ...command, timeoutMs: null }, 'another time limit'],
      [{ ...command, idempotencyKey: 's2/1/ask' }, "is not its turn's"],
    ] as const)
      expect(problemOfAction(facts, state, wrong), problem).toContain(problem);
    const elsewhere = { ...state, cursors: state.cursors.map((cursor) => ({ ...cursor, step: 'quiet' })) };
    expect(problemOfAction(facts, elsewhere, { ...command, step: 'quiet' })).toBe('step "quiet" has no action');
    const inNone = { ...state, frames: state.frames.map((frame) => ({ ...frame, skill: ['__proto__'] })) };
    expect(problemOfAction(facts, inNone, command)).toBe('it has no sub-skill "__proto__"');
  });
});
