import { expect, test } from 'vitest';
import type { RunEvent, RunEventBody } from './event.ts';
import { readAttemptSeries, seriesOf } from './agent-saves.ts';

async function* logOf(bodies: readonly RunEventBody[]): AsyncIterable<RunEvent> {
  for (const [index, body] of bodies.entries()) yield { id: `e${index}`, seq: index + 1, atMs: index, body };
}

const read = async (...bodies: readonly RunEventBody[]) =>
  Object.fromEntries(await readAttemptSeries('r', logOf(bodies)));

const started = (execKey: string, attempt: number): RunEventBody => ({
  type: 'stage-started',
  stage: 'fix',
  execKey,
  attempt,
});
const saved = (execKey: string, sessionId: string): RunEventBody => ({
  type: 'stage-progress',
  stage: 'fix',
  execKey,
  sessionId,
  folders: [],
  frozenMs: 0,
});
const used = (execKey: string, turns: number): RunEventBody => ({
  type: 'agent-usage',
  stage: 'fix',
  execKey,
  inputTokens: 1,
  outputTokens: 1,
  cachedInputTokens: 0,
  costUsd: null,
  turns,
});
const ended = (execKey: string, outcome: 'failed' | 'succeeded'): RunEventBody => {
  const failure = outcome === 'failed' ? { code: 'stage/timeout' as const, message: execKey, stderrTail: '' } : null;
  const result = { stage: 'fix', instance: [], attempt: 1, execKey, outcome, failure, durationMs: 1, output: null };
  return {
    type: 'stage-finished',
    stage: 'fix',
    execKey,
    result: { ...result, outputs: {}, vm: null, usage: {}, command: null },
  };
};

test('the newest save of a failed attempt has its turns, its time and the reason of the failure', async () => {
  expect(
    await read(
      started('fix/0/1', 1),
      used('fix/0/1', 2),
      saved('fix/0/1', 's1'),
      used('fix/0/1', 5),
      saved('fix/0/1', 's2'),
      ended('fix/0/1', 'failed'),
    ),
  ).toEqual({
    'fix/0': {
      state: 'failed',
      hasStarted: true,
      save: {
        runId: 'r',
        execKey: 'fix/0/1',
        savedAtMs: 4,
        sessionId: 's2',
        folders: [],
        turns: 5,
        ended: { code: 'stage/timeout', message: 'fix/0/1' },
      },
    },
  });
});

test('an attempt without a save does not hide the save before it, and a success removes the save', async () => {
  const first = [started('fix/0/1', 1), saved('fix/0/1', 's1'), ended('fix/0/1', 'failed'), started('fix/0/2', 2)];
  expect((await read(...first, ended('fix/0/2', 'failed')))['fix/0']).toMatchObject({
    state: 'failed',
    save: { execKey: 'fix/0/1', ended: { message: 'fix/0/1' } },
  });
  expect((await read(...first, ended('fix/0/2', 'succeeded')))['fix/0']).toEqual({
    state: 'succeeded',
    hasStarted: true,
    save: null,
  });
  expect((await read(...first, saved('fix/0/2', 's2'), saved('fix/0/1', 'late')))['fix/0']).toMatchObject({
    state: 'open',
    save: { sessionId: 's2', ended: null },
  });
});

test('the turns of a session include the turns of all its attempts and runs', async () => {
  const resumed = (execKey: string, from: string, more: object = {}): RunEventBody => ({
    type: 'stage-resumed',
    stage: 'fix',
    execKey,
    from,
    savedAtMs: 0,
    ...more,
  });
  const { 'fix/0': series } = await read(
    started('fix/0/1', 1),
    resumed('fix/0/1', 'fix/0/3', { runId: 'first', turns: 10 }),
    used('fix/0/1', 4),
    saved('fix/0/1', 's'),
    started('fix/0/2', 2),
    resumed('fix/0/2', 'fix/0/1'),
    used('fix/0/2', 1),
    saved('fix/0/2', 's'),
  );
  expect(series?.save?.turns).toBe(15);
  const counted = await read(used('fix/0/1', 1), { ...saved('fix/0/1', 's'), turns: 14 } as RunEventBody);
  expect(counted['fix/0']?.save?.turns, 'as the session itself has them').toBe(14);
});

test('an attempt that failed before its command started has not started', async () => {
  expect(await read(ended('fix/0/1', 'failed'))).toEqual({
    'fix/0': { state: 'failed', hasStarted: false, save: null },
  });
});

test('each item is a series of its own, and texts that are not exec keys are ignored', async () => {
  expect(Object.keys(await read(saved('fix/fixes~1/2', 's'), saved('no key', 's')))).toEqual(['fix/fixes~1']);
  expect(seriesOf('fix/0/1/5000')).toBe('fix/0');
  expect(seriesOf('__proto__')).toBeNull();
});
