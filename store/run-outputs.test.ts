import { expect, test } from 'vitest';
import type { RunReader } from '../activities/ports/run-reader.ts';
import type { DataRef } from '../domain/plan/plan.ts';
import type { RunEvent, RunEventBody } from '../domain/run/event.ts';
import { stageResult } from '../test/rig/runs/stage-results.ts';
import { readOutputs, type StageOutput } from './run-outputs.ts';

const ref = (sha256: string): DataRef => ({ sha256, sizeBytes: 1, mediaType: 'application/x-tar' });

function finished(stage: string, attempt: number, outputs: Readonly<Record<string, DataRef>>): RunEventBody {
  const execKey = `${stage}/0/${attempt}`;
  const result = stageResult(execKey, { outputs });
  return { type: 'stage-finished', stage, execKey, result };
}

async function outputsOf(bodies: readonly RunEventBody[]): Promise<readonly StageOutput[]> {
  const reader: RunReader = {
    async *read() {
      for (const [index, body] of bodies.entries())
        yield { seq: index + 1, id: `e${index}`, atMs: 1, body } satisfies RunEvent;
    },
    async *follow() {},
  };
  return await readOutputs(reader, 'r');
}

async function shaOf(bodies: readonly RunEventBody[]): Promise<readonly string[]> {
  return (await outputsOf(bodies)).map((output) => `${output.stage}.${output.name} ${output.ref.sha256}`);
}

test('the last outputs of a stage that ran again count, and a stage whose VM was lost has no outputs', async () => {
  const first = [finished('a', 1, { x: ref('1') }), finished('b', 1, { y: ref('2') })];
  expect(await shaOf(first)).toEqual(['a.x 1', 'b.y 2']);
  const lost: RunEventBody = { type: 'scope-restarted', scope: 's', reason: 'killed', stages: ['a'] };
  expect(await shaOf([...first, lost])).toEqual(['b.y 2']);
  expect(await shaOf([...first, lost, finished('a', 2, { x: ref('3') })])).toEqual(['b.y 2', 'a.x 3']);
  const failure = { code: 'vm/lost', message: 'gone', stderrTail: '' } as const;
  expect(await shaOf([...first, { type: 'stage-failed', stage: 'b', execKey: 'b/0/2', failure }])).toEqual(['a.x 1']);
});

/** Returns the end of an attempt that failed, with its partial outputs. */
function failed(attempt: number, partial: Readonly<Record<string, DataRef>>): RunEventBody {
  const body = finished('a', attempt, {}) as Extract<RunEventBody, { type: 'stage-finished' }>;
  const failure = { code: 'stage/timeout', message: 'late', stderrTail: '' } as const;
  return { ...body, result: { ...body.result, outcome: 'failed', failure, partial } };
}

test('the partial outputs of an attempt that did not succeed are marked, and those of a later attempt replace them', async () => {
  const patch = { ...ref('p1'), mediaType: 'text/x-patch' };
  const owner = { stage: 'a', label: 'a', instance: [] };
  expect(await outputsOf([failed(1, { 'partial.patch': patch, x: ref('t') })])).toEqual([
    { ...owner, name: 'partial.patch', isFile: true, isPartial: true, ref: patch },
    { ...owner, name: 'x', isPartial: true, ref: ref('t') },
  ]);
  const both = [failed(1, { x: ref('1') }), failed(2, { x: ref('2') })];
  expect(await shaOf(both)).toEqual(['a.x 2']);
  expect(await shaOf([...both, finished('a', 3, {})])).toEqual([]);
});

test('partial outputs stay until an attempt succeeds or leaves others', async () => {
  const first = failed(1, { x: ref('1') });
  const lost: RunEventBody = { type: 'scope-restarted', scope: 's', reason: 'killed', stages: ['a'] };
  const failure = { code: 'vm/lost', message: 'gone', stderrTail: '' } as const;
  const gaveUp: RunEventBody = { type: 'stage-failed', stage: 'a', execKey: 'a/0/2', failure };
  for (const later of [failed(2, {}), lost, gaveUp]) expect(await shaOf([first, later])).toEqual(['a.x 1']);
});

test('outputs of items follow those of the run, in the order of their items', async () => {
  const of = (item: string): RunEventBody => {
    const body = finished('fixes.work', 1, { x: ref(item) }) as Extract<RunEventBody, { type: 'stage-finished' }>;
    return { ...body, execKey: `fixes.work/fixes~${item}/1` };
  };
  const outputs = await outputsOf([of('10'), of('2'), finished('a', 1, { x: ref('a') }), of('0.2')]);
  expect(outputs.map(({ label, ref: { sha256 } }) => `${label} ${sha256}`)).toEqual([
    'a a',
    'fixes[2].work 2',
    'fixes[10].work 10',
    'fixes#2[0].work 0.2',
  ]);
});

test('a service has its last publication as output, until it ends with more or with nothing', async () => {
  const published = (sha256: string, attempt = 1): RunEventBody => ({
    type: 'stage-published',
    stage: 'a',
    execKey: `a/0/${attempt}`,
    output: ref(sha256),
  });
  expect(await shaOf([published('1'), finished('b', 1, { y: ref('2') }), published('3')])).toEqual([
    'a.null 3',
    'b.y 2',
  ]);
  const lost: RunEventBody = { type: 'scope-restarted', scope: 's', reason: 'killed', stages: ['a'] };
  expect(await shaOf([published('1'), lost])).toEqual([]);
  expect(await shaOf([published('1'), lost, published('4', 2)])).toEqual(['a.null 4']);
  expect(await shaOf([published('1'), finished('a', 1, { x: ref('5') })])).toEqual(['a.x 5']);
});
