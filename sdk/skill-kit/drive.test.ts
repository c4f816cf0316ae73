import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { Command } from '../../domain/step-machine/command.ts';
import type { SkillDefinition, StepConfig, StepDefinition } from '../../domain/step-machine/definition.ts';
import type { SessionEvent, SessionEventBody } from '../../domain/step-machine/event.ts';
import { factsOf } from '../../domain/step-machine/facts.ts';
import { transition } from '../../domain/step-machine/machine.ts';
import type { SessionState } from '../../domain/step-machine/state.ts';
import { recordsOf } from '../../domain/step-machine/records.ts';
import { storeView } from '../../domain/step-machine/store-view.ts';
import {
  advanceSession,
  cancelSession,
  createSession,
  CycleGuardError,
  replaySession,
  resumeSession,
  type Session,
  type SessionConfig,
  startSession,
  tickSession,
} from './drive.ts';

import { runTurn, type Turn } from './drive-turn.ts';

const TERMINAL = { terminal: true } as const;

function skillOf(steps: Record<string, StepConfig>, more: Partial<SkillDefinition> = {}): SkillDefinition {
  const define = (config: StepConfig): StepDefinition => ({ kind: 'step', config, extend: (overrides) => define({ ...config, ...overrides }) });
  return {
    kind: 'skill',
    name: 'sample',
    version: '1.0.0',
    resolveVersion: false,
    entry: Object.keys(steps)[0]!,
    steps: Object.fromEntries(Object.entries(steps).map(([name, config]) => [name, define(config)])),
    ...more,
  };
}

let warnings: string[] = [];
afterEach(() => void (warnings = []));

function open(skill: SkillDefinition, config: SessionConfig = {}): Session {
  return createSession(skill, { session: 's1', warn: (message) => void warnings.push(message), ...config });
}

async function started(skill: SkillDefinition, config: SessionConfig = {}): Promise<Session> {
  const session = open(skill, config);
  await startSession(session);
  return session;
}

const answer = (session: Session, step: string, output: unknown = {}) => advanceSession(session, { step, output });
const pathOf = (session: Session): string[] => [...recordsOf(session.state.records)].map(({ step }) => step);
const onJson = (state: SessionState): SessionState => JSON.parse(JSON.stringify(state)) as SessionState;

describe('a session', () => {
  test('goes from prompt to prompt to its end, and says what was completed', async () => {
    const session = open(
      skillOf({
        ask: { prompt: 'How many?', response: z.object({ n: z.number() }), next: 'tell' },
        tell: { prompt: ({ store }) => `You said ${(store.steps['ask'] as { n: number }).n}.`, next: TERMINAL },
      }),
    );
    const first = await startSession(session);
    expect(first).toMatchObject({ kind: 'prompt', step: 'ask', prompt: '<prompt>\nHow many?\n</prompt>', schema: { type: 'object' } });
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

  test('goes on from its state as JSON after every single answer', async () => {
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
    expect(await answer(session, 'nowhere')).toEqual({ kind: 'error', error: 'validation', step: 'nowhere', message: 'Unknown step "nowhere"', retry: false });
    await answer(session, 'a');
    const done = await answer(session, 'b');
    expect(await answer(session, 'a')).toEqual({ kind: 'done', done: true, finalOutput: (done as { finalOutput: unknown }).finalOutput });
    expect(pathOf(session)).toEqual(['a', 'b']);
  });

  test('two answers for the same turn: one wins, the other hears that the step is busy', async () => {
    let runs = 0;
    const skill = skillOf({ a: { prompt: 'a', action: async () => ++runs, next: 'b' }, b: { prompt: 'b', next: TERMINAL } });
    const session = await started(skill);
    const [first, second] = await Promise.all([answer(session, 'a'), answer(session, 'a')]);
    expect(first).toMatchObject({ kind: 'prompt', step: 'b' });
    expect(second).toMatchObject({ kind: 'error', error: 'busy', retry: false });
    expect(runs).toBe(1);
    expect(await advanceSession(session, { step: 'b', output: {}, turn: 1 })).toMatchObject({ kind: 'error', error: 'order' });
  });
});

describe('answers that do not fit', () => {
  const skill = skillOf({ a: { prompt: 'a', response: z.object({ v: z.string() }), maxInvalid: 3, save: () => ({ seen: { n: 1 } }), next: TERMINAL } });

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
      skillOf({ a: { prompt: 'a', next: 'b', maxVisits: 1, onMaxVisits: 'b' }, b: { prompt: 'b', next: 'a', maxVisits: 1, onMaxVisits: 'a' } }),
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

  test('a target that nobody knows ends the session with a message', async () => {
    const session = await started(skillOf({ a: { prompt: 'a', next: () => 'nowhere' } }));
    await expect(answer(session, 'a')).rejects.toThrow(/unknown target "nowhere".*or a step: a/);
    expect(session.state.status.kind).toBe('failed');
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
      skillOf({ gate: { save: () => ({ env: { ready: true } }), next: 'a' }, a: { prompt: ({ store }) => JSON.stringify(store['env']), next: TERMINAL } }),
    );
    expect(await startSession(session)).toMatchObject({
      step: 'a',
      autoAdvanced: [{ step: 'gate' }],
      preamble: expect.any(String) as string,
      prompt: expect.stringContaining('ready') as string,
    });
  });
});

describe('results and store', () => {
  test('defect: the final output is the result of the last step', async () => {
    const session = await started(
      skillOf({ a: { prompt: 'a', action: () => ({ built: true }), save: ({ actionResult }) => ({ step: { report: actionResult } }), next: TERMINAL } }),
    );
    expect(await answer(session, 'a')).toMatchObject({ finalOutput: { report: { built: true } } });
  });

  describe('a finalOutput schema', () => {
    const finalOutput = z.object({ card: z.string() });
    const last = (more: Partial<StepConfig>): SkillDefinition =>
      skillOf({ a: { prompt: 'a', response: z.object({ card: z.string() }), next: TERMINAL, ...more } }, { finalOutput });

    test('takes the answer when the last step has acted on it, and the result when that fits', async () => {
      expect(await answer(await started(last({ action: () => ({ path: '/x' }) })), 'a', { card: 'c' })).toMatchObject({
        finalOutput: { card: 'c' },
        completed: { result: { path: '/x' } },
      });
      expect(await answer(await started(last({ action: () => ({ card: 'printed' }) })), 'a', { card: 'c' })).toMatchObject({
        finalOutput: { card: 'printed' },
      });
    });

    test('that neither fits says so of both, and how to give what does', async () => {
      const refused = answer(await started(last({ response: z.object({ card: z.number() }), action: () => ({ path: '/x' }) })), 'a', { card: 1 });
      await expect(refused).rejects.toThrow(
        /^Final output validation failed: card: .* The result of step "a" is not .* skill "sample" .* Nor is its response: card: .* Let the step's `save` return it as `step`\.$/,
      );
    });

    test('is not satisfied by a step that nobody answers', async () => {
      const silent = skillOf({ a: { action: () => ({ n: 'no number' }), next: TERMINAL } }, { finalOutput: z.object({ n: z.number().optional() }) });
      await expect(startSession(open(silent))).rejects.toThrow(/Final output validation failed: n: /);
    });
  });

  test('a final output that does not fit its schema ends the session before anybody hears that it is complete', async () => {
    const heard: string[] = [];
    const session = await started(
      skillOf(
        { a: { prompt: 'a', next: TERMINAL } },
        { finalOutput: z.object({ n: z.number() }), observers: { onSkillComplete: () => void heard.push('complete') } },
      ),
    );
    await expect(answer(session, 'a')).rejects.toThrow(/Final output validation failed: n: /);
    expect(heard).toEqual([]);
  });

  test.each([[null], [undefined], [{}], [{ step: undefined }]])('save that returns %j leaves the default result', async (returned) => {
    const session = await started(skillOf({ a: { prompt: 'a', response: z.object({ v: z.number() }), save: () => returned, next: TERMINAL } }));
    expect(await answer(session, 'a', { v: 1 })).toMatchObject({ completed: { result: { v: 1 } } });
  });

  test('writes merge deeply; null and arrays replace', async () => {
    const writes = [{ env: { a: { x: 1, y: 2 }, list: [1, 2] } }, { env: { a: { y: 3 }, list: [9], gone: null } }];
    const session = await started(skillOf({ a: { prompt: 'a', next: 'self', save: ({ store }) => writes[store.steps.history.length] } }));
    await answer(session, 'a');
    await answer(session, 'a');
    expect(storeView(session.state, 0)['env']).toEqual({ a: { x: 1, y: 3 }, list: [9], gone: null });
  });

  test('an undeclared store is warned about and written', async () => {
    const session = await started(
      skillOf({ a: { prompt: 'a', next: TERMINAL, save: () => ({ typo: { x: 1 } }) } }, { stores: { env: z.object({ x: z.number() }) } }),
    );
    expect(await answer(session, 'a')).toMatchObject({ kind: 'done' });
    expect(warnings).toEqual(['save validation warning at step "a": save wrote to undeclared store "typo"']);
  });

  test('defect: a partial nested write is no mistake, a wrong one is', async () => {
    const stores = { env: z.object({ a: z.object({ x: z.number(), y: z.number() }), b: z.string() }) };
    const partial = await started(skillOf({ a: { prompt: 'a', next: TERMINAL, save: () => ({ env: { a: { x: 1 } } }) } }, { stores }));
    await answer(partial, 'a');
    expect(warnings).toEqual([]);
    const wrong = await started(skillOf({ a: { prompt: 'a', next: TERMINAL, save: () => ({ env: { a: { x: 'no' } } }) } }, { stores }));
    await answer(wrong, 'a');
    expect(warnings).toEqual([expect.stringContaining('env.a.x: ')]);
  });

  test('store.steps cannot be shadowed, and steps with awkward names can be read', async () => {
    const session = await started(
      skillOf({
        constructor: { prompt: 'c', response: z.object({ v: z.number() }), save: () => ({ steps: { constructor: 'fake' } }), next: 'b' },
        b: { prompt: 'b', next: TERMINAL },
      }),
    );
    await answer(session, 'constructor', { v: 1 });
    const { steps } = storeView(session.state, 0);
    expect([steps['constructor'], steps.ran('toString'), steps.all('constructor')]).toEqual([{ v: 1 }, false, [{ v: 1 }]]);
  });
});

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

  test('wait for one another, are heard before the answer is given, and may throw', async () => {
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

  test('params that cannot be cloned do not stop the start', async () => {
    const session = open(skillOf({ a: { prompt: 'a', next: TERMINAL } }, { observers: { onStepStart: () => undefined } }), { params: { f: () => 1 } });
    expect(await startSession(session)).toMatchObject({ step: 'a' });
    expect(warnings[0]).toMatch(/cannot be cloned/);
  });
});

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
      skillOf({ a: { prompt: 'a', response: z.object({ v: z.number() }), action: { run }, retry: { maxAttempts: 3 }, next: TERMINAL } }),
    );
    await expect(answer(session, 'a', { v: 1 })).rejects.toThrow(/Action "probe" at step "a": its output does not fit its schema: ok: /);
    expect(session.result).toMatchObject({ kind: 'prompt', step: 'a' });
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
    const session = await started(skillOf({ a: { prompt: 'a', action, retry: { maxAttempts: 4, backoffMs: 100, maxBackoffMs: 250 }, next: TERMINAL } }), {
      sleep: async (ms) => void slept.push(ms),
    });
    expect(await answer(session, 'a')).toMatchObject({ kind: 'done', finalOutput: 'ok' });
    expect(slept).toEqual([100, 200, 250]);
    expect(calls).toEqual(['s1/1/a#1', 's1/1/a#2', 's1/1/a#3', 's1/1/a#4']);
    expect([...recordsOf(session.state.records)][0]!.failures?.map(({ message }) => message)).toEqual(['no 1', 'no 2', 'no 3']);
  });

  test('defect: the signal fires when the time is up, and the attempt ends even if the action goes on', async () => {
    const aborted: boolean[] = [];
    const action: StepConfig['action'] = ({ signal, attempt }) =>
      attempt === 2 ? 'in time' : new Promise(() => (signal as AbortSignal).addEventListener('abort', () => void aborted.push(signal.aborted)));
    const session = await started(skillOf({ a: { prompt: 'a', action, timeoutMs: 20, retry: { maxAttempts: 2, backoffMs: 0 }, next: TERMINAL } }));
    expect(await answer(session, 'a')).toMatchObject({ finalOutput: 'in time' });
    expect(aborted).toEqual([true]);
    expect([...recordsOf(session.state.records)][0]!.failures).toEqual([{ attempt: 1, message: 'ran past its timeoutMs of 20', timedOut: true }]);
  });

  test('cancelling fires the signal and answers whoever waits', async () => {
    let isAborted = false;
    const action: StepConfig['action'] = ({ signal }) => new Promise(() => (signal as AbortSignal).addEventListener('abort', () => (isAborted = true)));
    const session = await started(skillOf({ a: { prompt: 'a', action, next: TERMINAL } }));
    const waiting = answer(session, 'a');
    cancelSession(session, 'enough');
    expect(await waiting).toMatchObject({ kind: 'error', error: 'cancelled', retry: false, message: 'The session was cancelled: enough' });
    expect(isAborted).toBe(true);
    expect(await answer(session, 'a')).toMatchObject({ error: 'cancelled' });
  });

  test('a crash in the middle of an action repeats it under the same key', async () => {
    const keys: string[] = [];
    const skill = skillOf({
      a: { prompt: 'a', action: ({ idempotencyKey }) => (keys.push(idempotencyKey) === 1 ? new Promise(() => undefined) : 'ok'), next: 'b' },
      b: { prompt: 'b', next: TERMINAL },
    });
    const first = await started(skill);
    void answer(first, 'a');
    const second = resumeSession(skill, onJson(first.state));
    await second.idle();
    expect(second.result).toMatchObject({ step: 'b' });
    expect(keys).toEqual(['s1/1/a', 's1/1/a']);
  });

  test('of a step without a prompt, that fails, can be repeated by naming the step', async () => {
    let calls = 0;
    const action = (): string => {
      if (++calls === 1) throw new Error('down');
      return 'up';
    };
    const session = await started(skillOf({ a: { prompt: 'a', next: 'probe' }, probe: { action, next: 'b' }, b: { prompt: 'b', next: TERMINAL } }), {
      throws: false,
    });
    expect(await answer(session, 'a')).toMatchObject({
      kind: 'error',
      error: 'action',
      step: 'probe',
      retry: true,
      message: expect.stringContaining('down') as string,
    });
    expect(await answer(session, 'probe')).toMatchObject({ kind: 'prompt', step: 'b', completed: { step: 'probe', actionResult: 'up' } });
    expect(pathOf(session)).toEqual(['a', 'probe']);
  });
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

  test('next and prompt: the record stays, naming the step goes on from there', async () => {
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
    await expect(answer(await started(skillOf({ a: { prompt: 'a', next: [{ to: 'a', when: () => false }] } })), 'a')).rejects.toThrow('no branch matched');
  });

  test('a callback that is async although it must not be is named', async () => {
    const session = await started(skillOf({ a: { prompt: 'a', save: (async () => ({})) as never, next: TERMINAL } }));
    await expect(answer(session, 'a')).rejects.toThrow('step "a": save gave a promise');
  });
});

describe('parallel steps', () => {
  const review = (more: Partial<StepConfig> = {}): SkillDefinition =>
    skillOf({
      begin: { prompt: 'begin', next: 'fork' },
      fork: { parallel: { branches: ['left', 'right', 'auto'], join: 'merge' } },
      left: { prompt: 'left', response: z.object({ l: z.number() }), next: 'left2' },
      left2: { prompt: 'left2', next: 'merge' },
      right: { prompt: 'right', response: z.object({ r: z.number() }), next: 'merge', ...more },
      auto: { action: () => 'measured', next: 'merge' },
      merge: { prompt: ({ store }) => JSON.stringify([store.steps['left'], store.steps['right'], store.steps['auto']]), next: TERMINAL },
    });

  test('are open at once, are answered in any order, and join when all are through', async () => {
    const session = await started(review());
    const forked = await answer(session, 'begin');
    expect(forked).toMatchObject({ step: 'left', open: [{ step: 'right', prompt: '<prompt>\nright\n</prompt>' }] });
    expect(await answer(session, 'right', { r: 2 })).toMatchObject({ step: 'left', completed: { step: 'right' } });
    expect(await answer(session, 'merge')).toMatchObject({ error: 'order' });
    expect(await answer(session, 'left', { l: 1 })).toMatchObject({ step: 'left2' });
    expect(await answer(session, 'left2')).toMatchObject({ step: 'merge', prompt: expect.stringContaining('[{"l":1},{"r":2},"measured"]') as string });
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
    const hidden = await started(skillOf({ ...steps, a: { prompt: 'a', next: () => 'away' }, away: { prompt: 'x', next: TERMINAL } }));
    await answer(hidden, 'a');
    await expect(answer(hidden, 'away')).rejects.toThrow('from within parallel steps');
  });
});

describe('sub-skills', () => {
  const deep = skillOf({ d: { prompt: 'd', response: z.object({ d: z.number() }), next: TERMINAL } }, { name: 'deep' });
  const sub = skillOf(
    {
      ask: { prompt: ({ params }) => `for ${(params as { who: string }).who}`, next: 'dig' },
      dig: { call: 'deep', next: 'auto' },
      auto: { save: ({ store }) => ({ step: { dug: store.steps['dig'] } }), next: TERMINAL },
    },
    { name: 'sub', system: 'You dig.', params: z.object({ who: z.string() }), subskills: { deep: { definition: deep } } },
  );
  const dispatcher = skillOf(
    {
      route: { prompt: 'route', response: z.object({ to: z.string() }), next: ({ response }) => (response as { to: string }).to },
      research: { call: 'sub', save: ({ actionResult }) => ({ found: { it: actionResult } }), next: 'report' },
      report: { prompt: ({ store }) => JSON.stringify(store['found']), next: TERMINAL },
    },
    {
      subskills: { sub: { definition: sub, params: (response) => ({ who: (response as { to?: string })?.to ?? 'nobody' }) } },
      topics: { help: { label: 'Help', content: ({ refs }) => refs.load('help.md') } },
    },
  );

  test('nest, are given params by the step that leads to them, and end the session with their output', async () => {
    const session = await started(dispatcher);
    expect(await answer(session, 'route', { to: 'subskill:sub' })).toMatchObject({
      step: 'sub/ask',
      preamble: expect.stringMatching(/^You dig\./) as string,
      completed: { step: 'route' },
      prompt: '<prompt>\nfor subskill:sub\n</prompt>',
    });
    expect(await answer(session, 'sub/ask')).toMatchObject({ step: 'sub/dig/d' });
    expect(await answer(session, 'sub/dig/d', { d: 7 })).toMatchObject({
      kind: 'done',
      finalOutput: { dug: { d: 7 } },
      autoAdvanced: [{ step: 'sub/dig', actionResult: { d: 7 } }, { step: 'sub/auto' }],
    });
  });

  test('that are called come back with their output as the result of the step', async () => {
    const session = await started(dispatcher);
    expect(await answer(session, 'route', { to: 'research' })).toMatchObject({ step: 'research/ask' });
    // The bare name is enough while it is the only one.
    expect(await answer(session, 'ask')).toMatchObject({ step: 'research/dig/d' });
    expect(await answer(session, 'research/dig/d', { d: 7 })).toMatchObject({ step: 'report', prompt: expect.stringContaining('"dug":{"d":7}') as string });
    expect(Object.keys(session.state.frames)).toEqual(['0']);
  });

  test('a redirect to a topic gives its content', async () => {
    const session = await started(dispatcher, { refs: { load: (name) => `text of ${name}`, asset: (path) => path } });
    expect(await answer(session, 'route', { to: 'topic:help' })).toMatchObject({
      kind: 'done',
      finalOutput: { topic: 'help', content: 'text of help.md' },
      completed: { step: 'route' },
    });
  });

  test('defect: a reference that cannot be loaded is an error, not an empty text', async () => {
    await expect(answer(await started(dispatcher), 'route', { to: 'topic:help' })).rejects.toThrow('without a reference loader');
  });

  test('a session can leave redirects to its client', async () => {
    const session = await started(dispatcher, { followRedirects: false });
    expect(await answer(session, 'route', { to: 'subskill:sub' })).toMatchObject({ kind: 'redirect', redirect: 'subskill:sub', completed: { step: 'route' } });
  });

  test('can be started on their own, under the names they have in the skill', async () => {
    const session = open(dispatcher, { subskill: 'sub', params: { who: 'me' } });
    expect(await startSession(session)).toMatchObject({ step: 'sub/ask', prompt: '<prompt>\nfor me\n</prompt>' });
    await answer(session, 'sub/ask');
    expect(await answer(session, 'sub/dig/d', { d: 1 })).toMatchObject({ kind: 'done' });
  });
});

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

  test('whoever names a wait that is over is answered with what follows', async () => {
    const { now, pass } = clock();
    const session = await started(skillOf({ rest: { wait: { durationMs: 10 }, next: 'b' }, b: { prompt: 'b', next: TERMINAL } }), { now });
    pass(10);
    expect(await answer(session, 'rest')).toMatchObject({ kind: 'prompt', step: 'b', completed: { step: 'rest' } });
  });

  test('a person who does not answer in time is passed over, and counted', async () => {
    const { now, pass } = clock();
    const skill = skillOf({
      approve: { prompt: 'ok?', human: { deadlineMs: 60_000, onExpiry: 'self', assignee: 'ada' }, maxVisits: 2, onMaxVisits: 'escalate', next: TERMINAL },
      escalate: { prompt: 'late', next: TERMINAL },
    });
    const session = open(skill, { now });
    expect(await startSession(session)).toMatchObject({ step: 'approve', human: { assignee: 'ada', dueMs: 1_060_000 } });
    pass(60_000);
    expect(await tickSession(session)).toMatchObject({ step: 'approve', human: { dueMs: 1_120_000 } });
    pass(60_000);
    expect(await answer(session, 'approve')).toMatchObject({
      kind: 'error',
      error: 'order',
      message: 'The time to answer step "approve" is over; the session has gone on.',
    });
    expect(session.result).toMatchObject({ step: 'escalate' });
    expect(pathOf(session)).toEqual([]);
  });
});

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

  test('is counted and saved again; no action runs, nobody observes', async () => {
    const heard: string[] = [];
    const session = open({ ...skill, observers: { onStepStart: ({ step }) => void heard.push(step), onStepComplete: ({ step }) => void heard.push(step) } });
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
    expect(session.state.frames[0]).toMatchObject({ visits: { a: 1, gate: 1, b: 1 }, stores: { sum: { v: 4 } }, last: { a: 'earlier' } });
    expect(await answer(session, 'b')).toMatchObject({ step: 'b', prompt: expect.stringContaining('"v":4') as string });
    expect(heard).toEqual(['b', 'b']);
  });

  test('malformed entries and unknown steps are skipped with a warning, answers that do not fit are kept', () => {
    const session = open(skill);
    replaySession(session, [{ step: 'a', output: {} }, 7, { step: 'zz', response: 1 }, { step: 'a', response: { v: 'raw' } }], 'b');
    expect(warnings).toEqual([
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
      { one: { prompt: '1', next: 'two' }, two: { prompt: ({ params }) => `for ${(params as { who: string }).who}`, next: TERMINAL } },
      { params: z.object({ who: z.string() }) },
    );
    const main = skillOf(
      { route: { prompt: 'r', response: z.object({ who: z.string() }), next: 'subskill:sub' } },
      { subskills: { sub: { definition: sub, params: (response) => response } } },
    );
    const session = open(main);
    replaySession(session, [{ step: 'route', response: { who: 'ada' } }], 'sub/one');
    expect(await answer(session, 'sub/one')).toMatchObject({ step: 'sub/two', prompt: '<prompt>\nfor ada\n</prompt>' });
  });

  test('leads into a called sub-skill and out of it again', async () => {
    const sub = skillOf({ one: { prompt: '1', next: 'two' }, two: { prompt: '2', response: z.object({ n: z.number() }), next: TERMINAL } });
    const main = skillOf(
      { use: { call: 'sub', next: 'end' }, end: { prompt: ({ store }) => JSON.stringify(store.steps['use']), next: TERMINAL } },
      { subskills: { sub: { definition: sub } } },
    );
    const session = open(main);
    replaySession(session, [{ step: 'use/one', response: {} }], 'use/two');
    const back = await answer(session, 'use/two', { n: 5 });
    expect(back).toMatchObject({ step: 'end', prompt: expect.stringContaining('{"n":5}') as string, autoAdvanced: [{ step: 'use', actionResult: { n: 5 } }] });
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
});

describe('changed code', () => {
  const v1 = skillOf({ a: { prompt: 'a', next: 'old' }, old: { prompt: 'o', next: TERMINAL } });
  const v2 = skillOf({ a: { prompt: 'a', next: 'new' }, new: { prompt: 'n', next: TERMINAL } }, { version: '2.0.0' });

  test('defect: a session is refused by another skill, another version and other code', async () => {
    const session = await started(v1, { codeHash: 'aaa' });
    expect(() => resumeSession({ ...v1, name: 'other' }, session.state)).toThrow('belongs to skill "sample", not to "other"');
    expect(() => resumeSession(v2, session.state)).toThrow(/begun with version 1\.0\.0; this is version 2\.0\.0.*migrations: \[\{ from: '1\.0\.0' \}\]/);
    expect(() => resumeSession(v1, session.state, { codeHash: 'bbb' })).toThrow('other code of version 1.0.0');
    expect(resumeSession(v1, session.state, { codeHash: 'aaa' }).result).toMatchObject({ step: 'a' });
  });

  test('a declared migration takes it over', async () => {
    const session = await started(v1, { codeHash: 'aaa' });
    await answer(session, 'a');
    const migrated = resumeSession(
      { ...v2, migrations: [{ from: '1.0.0', renamedSteps: { old: 'new' }, stores: (stores) => ({ ...stores, fresh: {} }) }] },
      onJson(session.state),
      { codeHash: 'bbb' },
    );
    expect(migrated.state).toMatchObject({ version: '2.0.0', codeHash: 'bbb', frames: [{ stores: { fresh: {} } }] });
    expect(await answer(migrated, 'new')).toMatchObject({ kind: 'done' });
    expect(() => resumeSession({ ...v2, migrations: [{ from: '1.0.0' }] }, onJson(session.state))).toThrow('stands at step "old"');
  });
});

test('a session is a fold of its events: the same events give the same state without calling anybody', async () => {
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
  const session = open(skill, { onEvent: (event) => void events.push(JSON.parse(JSON.stringify(event)) as SessionEvent) });
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
  expect((await turn({ type: 'advance', request: 'q2', step: 'a', value: {} })).replies).toMatchObject({ q2: { error: 'validation', retry: true } });
  const acting = await turn({ type: 'advance', request: 'q3', step: 'a', value: { v: 1 } });
  expect([acting.replies, acting.deferred.map(({ type }) => type)]).toEqual([{}, ['run-action']]);
  const waiting = await turn({ type: 'action-ended', cursor: state.cursors[0]!.id, attempt: 1, ok: true, value: 'done there' });
  expect(waiting.replies).toMatchObject({
    q3: { kind: 'waiting', step: 'rest', completed: { step: 'a' }, autoAdvanced: [{ step: 'act', result: 'done there' }] },
  });
  expect(waiting.deferred).toMatchObject([{ type: 'wait', reason: 'wait', durationMs: 5 }]);
  await turn({ type: 'timer-fired', cursor: state.cursors[0]!.id, reason: 'wait' });
  expect(state.status).toEqual({ kind: 'done', finalOutput: {} });
});

test('commands can be left to somebody else, whose answer goes on from there', async () => {
  const left: Command[] = [];
  const skill = skillOf({ a: { prompt: 'a', action: () => 'here', next: 'b' }, b: { prompt: 'b', next: TERMINAL } });
  const session = await started(skill, { defer: ({ type }) => type === 'run-action', onDeferred: (command) => void left.push(command) });
  const answered = answer(session, 'a');
  await session.idle();
  expect(left).toMatchObject([{ type: 'run-action', idempotencyKey: 's1/1/a' }]);
  session.feed({ type: 'action-ended', cursor: 1, attempt: 1, ok: true, value: 'elsewhere' });
  expect(await answered).toMatchObject({ step: 'b', completed: { actionResult: 'elsewhere' } });
});

test('10,000 looped steps copy no records: every advance pushes onto one array', async () => {
  const session = await started(
    skillOf({ a: { prompt: 'a', response: z.object({ i: z.number() }), maxVisits: 1e6, save: ({ response }) => ({ last: { i: response } }), next: 'self' } }),
  );
  await answer(session, 'a', { i: -1 });
  const { items } = session.state.records;
  for (let i = 0; i < 10_000; i++) await answer(session, 'a', { i });
  expect(session.state.records.items).toBe(items);
  expect(session.state.records.length).toBe(10_001);
  expect(session.state.frames[0]!.visits).toEqual({ a: 10_001 });
  expect(JSON.stringify({ ...session.state, records: null }).length).toBeLessThan(2_000);
}, 60_000);
