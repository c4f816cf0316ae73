import { expect, test } from 'vitest';
import type { SkillDefinition, StepConfig } from '../../domain/step-machine/definition.ts';
import { recordsOf } from '../../domain/step-machine/records.ts';
import type { SessionEvent } from '../../domain/step-machine/event.ts';
import { Fold, transition } from '../../domain/step-machine/machine.ts';
import type { SessionState } from '../../domain/step-machine/state.ts';
import { define, TERMINAL } from '../../test/rig/skills/erased-skill.ts';
import { generator } from '../../test/rig/skills/random-skill.ts';
import { sealed } from '../../test/rig/skills/sealed-state.ts';
import { advanceSession, createSession, resumeSession, startSession, tickSession, type Session } from './drive.ts';

/** Any graph of any kinds of steps; most of them are wrong in some way that only running them shows. */
function randomSkill(random: (below: number) => number, depth: number): SkillDefinition {
  const names = Array.from({ length: 2 + random(6) }, (_, i) => `s${i}`);
  const any = (): string => names[random(names.length)]!;
  const next = (): NonNullable<StepConfig['next']> => {
    const [one, other] = [any(), any()];
    const kinds: NonNullable<StepConfig['next']>[] = [
      one,
      'self',
      TERMINAL,
      () => (random(2) === 0 ? one : other),
      [{ to: one, when: () => random(2) === 0 }, { to: other }],
      one,
    ];
    if (depth > 0) kinds.push('subskill:sub');
    return kinds[random(kinds.length)]!;
  };
  const limits = (): Partial<StepConfig> =>
    random(3) === 0 ? { maxVisits: 1 + random(4), ...(random(2) === 0 ? { onMaxVisits: any() } : {}) } : {};
  const step = (): StepConfig => {
    const kind = random(12);
    if (kind < 5)
      return {
        prompt: 'p',
        next: next(),
        ...limits(),
        ...(random(4) === 0 ? { human: { deadlineMs: 10, onExpiry: any() } } : {}),
      };
    if (kind < 7) return { next: next(), ...limits() };
    if (kind === 7)
      return {
        action: () => (random(3) === 0 ? Promise.reject(new Error('flaky')) : random(9)),
        retry: { maxAttempts: 2 },
        next: next(),
        ...limits(),
      };
    if (kind === 8) return { wait: { durationMs: random(20) }, next: next(), ...limits() };
    if (kind < 11) return { parallel: { branches: [...new Set([any(), any(), any()])], join: any() }, ...limits() };
    return depth > 0 ? { call: 'sub', next: next(), ...limits() } : { next: next() };
  };
  const subskills = depth > 0 ? { subskills: { sub: { definition: randomSkill(random, depth - 1) } } } : {};
  return {
    kind: 'skill',
    name: 'random',
    version: '1',
    resolveVersion: false,
    entry: 's0',
    steps: Object.fromEntries(names.map((name) => [name, define(step())])),
    ...subskills,
  };
}

function expectConsistent({ runtime, state }: Session): void {
  for (const { id, open } of state.groups) {
    const inside =
      state.cursors.filter(({ group }) => group === id).length +
      state.groups.filter(({ parent }) => parent === id).length;
    expect(inside).toBe(open);
  }
  for (const cursor of state.cursors) expect(state.frames.some(({ id }) => id === cursor.frame)).toBe(true);
  for (const frame of state.frames) {
    const caller = state.cursors.find(({ id }) => id === frame.returnTo);
    const isCalled = frame.returnTo !== null && state.status.kind === 'open';
    expect(caller?.phase).toEqual(isCalled ? { kind: 'calling', frame: frame.id } : undefined);
  }
  const { visits } = state.frames[0]!;
  const recorded = [...recordsOf(state.records)].filter(({ frame }) => frame === 0);
  for (const [name, count] of Object.entries(visits)) {
    const { maxVisits, human } = runtime.facts.steps[name]!;
    expect(count).toBeLessThanOrEqual(maxVisits ?? 10);
    const records = recorded.filter(({ step }) => step === name).length;
    // A visit that a person let pass counts and leaves no record.
    expect(human === null ? records : Math.max(records, count)).toBe(count);
  }
}

/** Folded one by one, each from a frozen state, the events give the same state as in a row. */
function expectSameOneByOne({ runtime, state }: Session, from: SessionState, events: readonly SessionEvent[]): void {
  const row = new Fold(runtime.facts, from);
  let one = from;
  for (const event of events) {
    const { state: next, commands } = transition(runtime.facts, one, event);
    expect(row.apply(event, event.atMs)).toEqual(commands);
    one = sealed(next);
  }
  expect(row.state).toEqual(one);
  expect(state).toEqual(one);
}

test(
  'for every random skill, each request gets an answer, limits hold, and the session continues from its state as JSON',
  { timeout: 60_000 },
  async () => {
    const ends = new Set<string>();
    let ran = 0;
    for (let seed = 1; seed <= 1_500; seed++) {
      const random = generator(seed);
      const skill = randomSkill(random, 2);
      let atMs = 1_000;
      const heard: SessionEvent[] = [];
      let isFirst = true;
      const config = {
        onEvent: (event: SessionEvent) => void (isFirst && heard.push(event)),
        throws: false,
        now: () => atMs,
        sleep: async () => undefined,
        warn: () => undefined,
      };
      let session: Session;
      try {
        session = createSession(skill, { ...config, session: `s${seed}` });
      } catch {
        continue;
      }
      ran++;
      const [from, driven] = [sealed(session.state), session];
      let result = await startSession(session);
      for (let turns = 0; turns < 400 && session.state.status.kind === 'open'; turns++) {
        expectConsistent(session);
        if (random(5) === 0) {
          isFirst = false;
          session = resumeSession(skill, JSON.parse(JSON.stringify(session.state)) as SessionState, config);
        }
        if (random(4) === 0) atMs += random(15);
        if (result.kind === 'waiting') {
          atMs = Math.max(atMs, result.dueMs);
          result = await tickSession(session);
        } else if (result.kind === 'prompt') {
          const steps = [result.step, ...(result.open ?? []).map(({ step }) => step)];
          const step = steps[random(steps.length)]!;
          const rivals = random(3) === 0 ? [advanceSession(session, { step: 's1', output: {} })] : [];
          const [first] = await Promise.all([advanceSession(session, { step, output: {} }), ...rivals]);
          // A caller that is too late gets no notice when the session is ready again, so this test waits.
          await session.idle();
          result = first!.kind === 'error' && first!.error === 'order' ? session.result : first!;
        } else {
          if (result.kind !== 'error' || result.error !== 'action')
            throw new Error(`seed ${seed}: ${JSON.stringify(result)}`);
          result = await advanceSession(session, { step: result.step, output: {} });
        }
        if (
          session.state.status.kind === 'open' &&
          (result.kind === 'done' || (result.kind === 'error' && result.error === 'busy'))
        )
          throw new Error(`seed ${seed}: ${JSON.stringify(result)}`);
        if (result.kind === 'done' || result.kind === 'error') continue;
        result = session.result;
      }
      expectConsistent(session);
      expectSameOneByOne(driven, from, heard);
      ends.add(session.state.status.kind);
    }
    expect([...ends].toSorted()).toEqual(['done', 'failed']);
    expect(ran).toBeGreaterThan(300);
  },
);
