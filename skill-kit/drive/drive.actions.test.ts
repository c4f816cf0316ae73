import { type } from 'arktype';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { Command } from '../../domain/step-machine/command.ts';
import type { StepConfig } from '../../domain/step-machine/definition.ts';
import { recordsOf } from '../../domain/step-machine/records.ts';
import { answer, onJson, pathOf, started } from '../../test/rig/skills/session-in-process.ts';
import { skillOf, TERMINAL } from '../../test/rig/skills/erased-skill.ts';
import { cancelSession, resumeSession } from './drive.ts';

describe('actions', () => {
  test('defect: the output is checked against its schema', async () => {
    const run = {
      kind: 'action',
      name: 'probe',
      input: z.object({ v: z.number() }),
      output: z.object({ ok: z.boolean() }),
      run: () => ({ ok: 'yes' }),
    } as const;
    const session = await started(
      skillOf({
        a: {
          prompt: 'a',
          response: z.object({ v: z.number() }),
          action: { run },
          retry: { maxAttempts: 3 },
          next: TERMINAL,
        },
      }),
    );
    await expect(answer(session, 'a', { v: 1 })).rejects.toThrow(
      /Action "probe" at step "a": its output does not fit its schema: ok: /,
    );
    expect(session.result).toMatchObject({ kind: 'prompt', step: 'a' });
  });

  test('an output may have keys that are undefined, as optional ones often are', async () => {
    const run = {
      kind: 'action',
      name: 'look',
      input: type({}),
      output: type({ 'id?': 'string' }),
      run: () => ({ id: undefined }),
    } as const;
    const session = await started(skillOf({ a: { prompt: 'a', action: { run }, next: TERMINAL } }));
    expect(await answer(session, 'a')).toMatchObject({ kind: 'done', finalOutput: {} });
  });

  test('may give bytes', async () => {
    const session = await started(skillOf({ a: { prompt: 'a', action: () => Buffer.from('text'), next: TERMINAL } }));
    expect(await answer(session, 'a')).toMatchObject({ kind: 'done', finalOutput: Buffer.from('text') });
  });

  test('an action that fails leaves nothing behind; the next answer has another key', async () => {
    const keys: string[] = [];
    const session = await started(
      skillOf({
        a: {
          prompt: 'a',
          action: ({ idempotencyKey }) => {
            keys.push(idempotencyKey);
            if (keys.length === 1) throw new RangeError('flaky');
            return 'ok';
          },
          next: TERMINAL,
        },
      }),
    );
    await expect(answer(session, 'a')).rejects.toThrow(RangeError);
    expect(session.state.records.length).toBe(0);
    expect(await answer(session, 'a')).toMatchObject({ kind: 'done', finalOutput: 'ok' });
    expect(keys).toEqual(['s1/1/a', 's1/2/a']);
  });

  test('are tried again after growing delays under one key, and the failures are recorded', async () => {
    const slept: number[] = [];
    const calls: string[] = [];
    const action: StepConfig['action'] = ({ attempt, idempotencyKey }) => {
      calls.push(`${idempotencyKey}#${attempt}`);
      if (attempt < 4) throw new Error(`no ${attempt}`);
      return 'ok';
    };
    const session = await started(
      skillOf({
        a: { prompt: 'a', action, retry: { maxAttempts: 4, backoffMs: 100, maxBackoffMs: 250 }, next: TERMINAL },
      }),
      {
        sleep: async (ms) => void slept.push(ms),
      },
    );
    expect(await answer(session, 'a')).toMatchObject({ kind: 'done', finalOutput: 'ok' });
    expect(slept).toEqual([100, 200, 250]);
    expect(calls).toEqual(['s1/1/a#1', 's1/1/a#2', 's1/1/a#3', 's1/1/a#4']);
    expect([...recordsOf(session.state.records)][0]!.failures?.map(({ message }) => message)).toEqual([
      'no 1',
      'no 2',
      'no 3',
    ]);
  });

  test('defect: the signal fires when the time is up, and the attempt ends even if the action continues', async () => {
    const aborted: boolean[] = [];
    const action: StepConfig['action'] = ({ signal, attempt }) =>
      attempt === 2
        ? 'in time'
        : new Promise(() => (signal as AbortSignal).addEventListener('abort', () => void aborted.push(signal.aborted)));
    const session = await started(
      skillOf({ a: { prompt: 'a', action, timeoutMs: 20, retry: { maxAttempts: 2, backoffMs: 0 }, next: TERMINAL } }),
    );
    expect(await answer(session, 'a')).toMatchObject({ finalOutput: 'in time' });
    expect(aborted).toEqual([true]);
    expect([...recordsOf(session.state.records)][0]!.failures).toEqual([
      { attempt: 1, message: 'ran past its timeoutMs of 20', timedOut: true },
    ]);
  });

  test('an attempt may take longer than one timer can count', async () => {
    const action = async (): Promise<string> => new Promise((resolve) => setTimeout(resolve, 20, 'ok'));
    expect(
      await answer(
        await started(skillOf({ a: { prompt: 'a', action, timeoutMs: 30 * 86_400_000, next: TERMINAL } })),
        'a',
      ),
    ).toMatchObject({
      finalOutput: 'ok',
    });
  });

  test('a cancel fires the signal and answers the callers that wait', async () => {
    let isAborted = false;
    const action: StepConfig['action'] = ({ signal }) =>
      new Promise(() => (signal as AbortSignal).addEventListener('abort', () => (isAborted = true)));
    const session = await started(skillOf({ a: { prompt: 'a', action, next: TERMINAL } }));
    const waiting = answer(session, 'a');
    cancelSession(session, 'enough');
    expect(await waiting).toMatchObject({
      kind: 'error',
      error: 'cancelled',
      retry: false,
      message: 'The session was cancelled: enough',
    });
    expect(isAborted).toBe(true);
    expect(await answer(session, 'a')).toMatchObject({ error: 'cancelled' });
  });

  test('a crash in the middle of an action repeats it under the same key', async () => {
    const keys: string[] = [];
    const skill = skillOf({
      a: {
        prompt: 'a',
        action: ({ idempotencyKey }) => (keys.push(idempotencyKey) === 1 ? new Promise(() => undefined) : 'ok'),
        next: 'b',
      },
      b: { prompt: 'b', next: TERMINAL },
    });
    const first = await started(skill);
    void answer(first, 'a');
    const second = resumeSession(skill, onJson(first.state));
    await second.idle();
    expect(second.result).toMatchObject({ step: 'b' });
    expect(keys).toEqual(['s1/1/a', 's1/1/a']);
  });

  test('a failed action of a step without a prompt can be repeated by naming the step', async () => {
    let calls = 0;
    const action = (): string => {
      if (++calls === 1) throw new Error('down');
      return 'up';
    };
    const session = await started(
      skillOf({ a: { prompt: 'a', next: 'probe' }, probe: { action, next: 'b' }, b: { prompt: 'b', next: TERMINAL } }),
      {
        throws: false,
      },
    );
    expect(await answer(session, 'a')).toMatchObject({
      kind: 'error',
      error: 'action',
      step: 'probe',
      retry: true,
      message: expect.stringContaining('down') as string,
    });
    expect(await answer(session, 'probe')).toMatchObject({
      kind: 'prompt',
      step: 'b',
      completed: { step: 'probe', actionResult: 'up' },
    });
    expect(pathOf(session)).toEqual(['a', 'probe']);
  });
});

test('callers that wait get an error when the result of an action cannot be kept', async () => {
  const onCommand = (command: Command): void => {
    if (command.type === 'run-action' && command.step === 'second') throw new Error('the disk is full');
  };
  const skill = skillOf({
    a: { prompt: 'a', action: async () => 1, next: 'second' },
    second: { action: () => 2, next: TERMINAL },
  });
  const session = await started(skill, { onCommand });
  await expect(answer(session, 'a')).rejects.toThrow('the disk is full');
  await expect(session.idle()).rejects.toThrow('the disk is full');
});

describe('callbacks that throw', () => {
  test('save: nothing is recorded, the step can be answered again', async () => {
    let calls = 0;
    const save = (): void => {
      if (++calls === 1) throw new TypeError('bad save');
    };
    const session = await started(skillOf({ a: { prompt: 'a', save, next: TERMINAL } }));
    await expect(answer(session, 'a')).rejects.toThrow(TypeError);
    expect(session.state.records.length).toBe(0);
    expect(await answer(session, 'a')).toMatchObject({ kind: 'done' });
  });

  test('next and prompt: the record stays, and naming the step continues from there', async () => {
    let broken = true;
    const fail = (what: string): void => {
      if (broken) throw new Error(what);
    };
    const session = await started(
      skillOf({
        a: { prompt: 'a', next: () => (fail('next'), 'b') },
        b: { prompt: () => (fail('prompt'), 'b'), next: TERMINAL },
      }),
    );
    await expect(answer(session, 'a')).rejects.toThrow('next');
    broken = false;
    expect(await answer(session, 'a')).toMatchObject({ step: 'b' });
    expect(pathOf(session)).toEqual(['a']);
    await expect(
      answer(await started(skillOf({ a: { prompt: 'a', next: [{ to: 'a', when: () => false }] } })), 'a'),
    ).rejects.toThrow('no branch matched');
  });

  test('a callback that is async although it must not be is named', async () => {
    const session = await started(skillOf({ a: { prompt: 'a', save: (async () => ({})) as never, next: TERMINAL } }));
    await expect(answer(session, 'a')).rejects.toThrow('step "a": save returned a promise');
    await expect(started(skillOf({ a: { prompt: (async () => 'a') as never, next: TERMINAL } }))).rejects.toThrow(
      'step "a": prompt returned a promise',
    );
    const topics = { t: { label: 'T', content: (async () => 'text') as never } };
    const topical = await started(skillOf({ a: { prompt: 'a', next: 'topic:t' } }, { topics }));
    await expect(answer(topical, 'a')).rejects.toThrow('topic "t": content returned a promise');
  });
});
