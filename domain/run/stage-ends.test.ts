import { expect, test } from 'vitest';
import type { DataRef } from '../plan/plan.ts';
import type { RunEvent, RunEventBody } from './event.ts';
import { readStageEnds } from './stage-ends.ts';

const REF: DataRef = { sha256: 'a'.repeat(64), sizeBytes: 1, mediaType: 'text/plain' };

function finished(stage: string, attempt: number, outcome: 'succeeded' | 'failed' = 'succeeded'): RunEventBody {
  const execKey = `${stage}/0/${attempt}`;
  const failure =
    outcome === 'failed' ? ({ code: 'stage/exit-nonzero', message: 'no', stderrTail: '' } as const) : null;
  return {
    type: 'stage-finished',
    stage,
    execKey,
    result: {
      stage,
      instance: [],
      attempt,
      execKey,
      outcome,
      failure,
      durationMs: 1,
      output: failure === null ? REF : null,
      outputs: {},
      vm: null,
      usage: {},
      command: null,
    },
  };
}

async function endsOf(...bodies: readonly RunEventBody[]): Promise<Readonly<Record<string, string>>> {
  async function* events(): AsyncGenerator<RunEvent> {
    for (const [index, body] of bodies.entries()) yield { seq: index + 1, id: String(index), atMs: 0, body };
  }
  const ends = await readStageEnds('here', events());
  return Object.fromEntries([...ends].map(([stage, { state, ranIn }]) => [stage, `${state} in ${ranIn}`]));
}

const started = (stage: string, attempt: number): RunEventBody => ({
  type: 'stage-started',
  stage,
  execKey: `${stage}/0/${attempt}`,
  attempt,
});

test('results of items are not the result of their stage, however many attempts they had', async () => {
  const item = { stage: 'a', execKey: 'a/a~0/2' } as const;
  const ended = finished('a', 1);
  if (ended.type !== 'stage-finished') throw new Error('finished');
  const events: readonly RunEventBody[] = [
    started('a', 1),
    { type: 'stage-started', ...item, attempt: 2 },
    { ...ended, ...item, result: { ...ended.result, ...item } },
  ];
  expect(await endsOf(...events)).toEqual({});
  expect(await endsOf(...events, finished('a', 1, 'failed'))).toEqual({ a: 'failed in here' });
});

test('the latest attempt counts', async () => {
  expect(await endsOf(started('a', 1), finished('a', 1, 'failed'), started('a', 2), finished('a', 2))).toEqual({
    a: 'succeeded in here',
  });
  expect(await endsOf(finished('a', 1, 'failed'), started('a', 2))).toEqual({});
  expect(await endsOf(started('a', 2), finished('a', 1))).toEqual({});
});

test('a stage that a lost VM makes run again has no end until it has run', async () => {
  const restarted: RunEventBody = { type: 'scope-restarted', scope: 's', reason: 'lost', stages: ['a'] };
  expect(await endsOf(finished('a', 1), finished('b', 1), restarted)).toEqual({ b: 'succeeded in here' });
});

test('a failure by the run machine overrides a result that did not reach it', async () => {
  const failure = { code: 'vm/lost', message: 'gone', stderrTail: '' } as const;
  expect(await endsOf(finished('a', 1), { type: 'stage-failed', stage: 'a', execKey: 'a/0/1', failure })).toEqual({
    a: 'failed in here',
  });
});

test('a given stage keeps the run in which it ran; an answer and the end of a wait count as ends', async () => {
  const question = { message: 'Go?', by: [], fields: [], deadlineAtMs: null, onTimeout: 'fail' } as const;
  expect(
    await endsOf(
      { type: 'stage-given', stage: 'a', runId: 'first', outcome: 'succeeded', output: REF, outputs: {} },
      { type: 'stage-given', stage: 'p', runId: 'here', outcome: 'passed', output: null, outputs: {} },
      { type: 'stage-asking', stage: 'b', execKey: 'b/0/1', attempt: 1, question },
      { type: 'stage-answered', stage: 'b', execKey: 'b/0/1', outcome: 'succeeded', failure: null, output: REF },
      { type: 'stage-skipped', stage: 'c', reason: 'no' },
      { type: 'stage-sleeping', stage: 'w', execKey: 'w/0/1', attempt: 1, untilMs: 1 },
      { type: 'stage-woken', stage: 'w', execKey: 'w/0/1', outcome: 'succeeded' },
    ),
  ).toEqual({
    w: 'succeeded in here',
    a: 'succeeded in first',
    p: 'passed in here',
    b: 'succeeded in here',
    c: 'skipped in here',
  });
});

test('a wait that is over is an end, even if its start is recorded later', async () => {
  const sleeping: RunEventBody = { type: 'stage-sleeping', stage: 'a', execKey: 'a/0/1', attempt: 1, untilMs: 9 };
  const woken: RunEventBody = { type: 'stage-woken', stage: 'a', execKey: 'a/0/1', outcome: 'succeeded' };
  expect(await endsOf(sleeping)).toEqual({});
  expect(await endsOf(sleeping, woken)).toEqual({ a: 'succeeded in here' });
  expect(await endsOf(woken, sleeping)).toEqual({ a: 'succeeded in here' });
});
