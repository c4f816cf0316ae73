/** Workflows whose shared VM is saved after each step, through a real Temporal server; only the VM is a mock. */
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { cancelRun, startRun } from '../../client/runs/runs.ts';
import { toWire } from '../../domain/plan/wire.ts';
import type { RunEvent, RunEventBody, RunOutcome } from '../../domain/run/event.ts';
import { compileText } from '../../domain/language/load.ts';
import { checkExpressions } from '../../domain/language/expression/check.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import type { MockProgram } from '../../sandbox/mock/programs.ts';
import { useTestRuns } from '../rig/servers/test-runs.ts';
import { itemsWorkflowId } from '../../workflows/messages.ts';

/** Commands in the order of their starts, by run. */
const starts = new Map<string, string[]>();
/** Commands that may end: `run step`. */
const gates = new Set<string>();

const programs: Record<string, MockProgram> = {
  /** `write RUN STEP [gate]`: adds the step to a file of the workspace, and prints the file. */
  write: async ({ args, files, killed, write }) => {
    const [run = '', step = '', gate] = args;
    starts.set(run, [...(starts.get(run) ?? []), step]);
    const before = files.find('/workspace/steps');
    const text = `${before?.kind === 'file' ? before.body.toString() : ''}${step}\n`;
    files.write('/workspace/steps', Buffer.from(text));
    if (gate === 'gate') while (!gates.has(`${run} ${step}`)) await sleep(10, undefined, { signal: killed });
    await write('stdout', text);
    return 0;
  },
};

const backend = createMockBackend({ programs });
const RECORDED = ['saved', 'saved-lost-twice', 'saved-empty', 'saved-items'];
const runs = useTestRuns(backend, {
  recorded: RECORDED,
  windows: async () => [
    itemsWorkflowId((await runs.client.workflow.getHandle('saved-items').describe()).runId, 'each', 0),
  ],
});

const SIX = ['a', 'b', 'c', 'd', 'e', 'f'];

/** Steps in a row; those in `gated` wait for their gate. */
function workflow(run: string, gated: readonly string[], steps: readonly string[] = SIX): string {
  const lines = steps.map((step, index) => {
    const after = index === 0 ? '' : `, depends_on: [${steps[index - 1]!}]`;
    const args = `[${run}, ${step}${gated.includes(step) ? ', gate' : ''}]`;
    return `    - { name: ${step}${after}, run: { program: write, args: ${args} } }`;
  });
  return [
    'kind: workflow',
    'name: saved',
    'sandbox: { mode: mock, isolation: none }',
    'workflow:',
    '  checkpoint: each-step',
    '  steps:',
    ...lines,
    '',
  ].join('\n');
}

async function start(runId: string, spec: string): Promise<void> {
  await startRun(runs.client, { runId, request: { spec }, summary: `test ${runId}` });
}

async function untilRunning(runId: string, step: string, times = 1): Promise<void> {
  const count = (): number => (starts.get(runId) ?? []).filter((each) => each === step).length;
  await expect.poll(count, { timeout: 30_000 }).toBe(times);
}

function lose(runId: string, generation: number): void {
  backend.lose({ runId, scope: '_shared', instance: [], generation });
}

async function bodiesOf<T extends RunEventBody['type']>(
  runId: string,
  type: T,
): Promise<readonly Extract<RunEventBody, { type: T }>[]> {
  const events: readonly RunEvent[] = await runs.stack.eventsOf(runId);
  return events.flatMap(({ body }) => (body.type === type ? [body as Extract<RunEventBody, { type: T }>] : []));
}

async function endOf(runId: string, ...gated: readonly string[]): Promise<RunOutcome> {
  for (const step of gated) gates.add(`${runId} ${step}`);
  return runs.outcomeOf(runId);
}

const namesIn = (folder: string): readonly string[] => readdirSync(folder).toSorted();
const folderOf = (runId: string): string => join(runs.stack.stateDir, 'runs', runId, 'checkpoints');

describe('a workflow whose VM is lost', () => {
  test('repeats only the fifth of six steps, and keeps its checkpoints for a retry', async () => {
    await start('saved', workflow('saved', ['e']));
    await untilRunning('saved', 'e');
    const folder = join(folderOf('saved'), '_shared');
    expect(namesIn(folder)).toEqual(['1', '1.json', '2', '2.json', '3', '3.json', '4', '4.json']);
    for (const name of ['4.json', '4/disk', '4/checkpoint.json'])
      expect(statSync(join(folder, name)).mode & 0o777, name).toBe(0o600);
    lose('saved', 0);
    await untilRunning('saved', 'e', 2);
    const outcome = await endOf('saved', 'e');
    expect(outcome.state).toBe('succeeded');
    expect(starts.get('saved')).toEqual([...SIX.slice(0, 5), 'e', 'f']);
    // The interrupted attempt wrote its line after the checkpoint.
    expect(await runs.textOf(outcome)).toBe('a\nb\nc\nd\ne\nf\n');
    expect(await bodiesOf('saved', 'scope-restarted')).toMatchObject([
      { stages: ['e'], attempts: [1], kept: ['a', 'b', 'c', 'd'] },
    ]);
    expect((await bodiesOf('saved', 'checkpoint-made')).map(({ stage, generation }) => [stage, generation])).toEqual([
      ['a', 0],
      ['b', 0],
      ['c', 0],
      ['d', 0],
      ['e', 1],
      ['f', 1],
    ]);
    const [first, second] = await bodiesOf('saved', 'vm-ready');
    expect(first).not.toHaveProperty('resumedAfter');
    expect(second).toMatchObject({ resumedAfter: 'd' });
    const view = await runs.viewOf('saved');
    expect(view.stages.map(({ id, state, attempt }) => [id, state, attempt])).toEqual([
      ['a', 'succeeded', 1],
      ['b', 'succeeded', 1],
      ['c', 'succeeded', 1],
      ['d', 'succeeded', 1],
      ['e', 'succeeded', 2],
      ['f', 'succeeded', 1],
    ]);
    expect(namesIn(folder).filter((name) => name.endsWith('.json'))).toEqual(
      SIX.map((_, index) => `${index + 1}.json`),
    );
    expect(namesIn(folderOf('saved'))).toEqual(['.ended', '_shared']);
    expect(backend.alive()).toEqual([]);
  });

  test('keeps the steps of both VMs over a second loss', async () => {
    await start('saved-lost-twice', workflow('saved-lost-twice', ['c', 'e']));
    await untilRunning('saved-lost-twice', 'c');
    lose('saved-lost-twice', 0);
    await untilRunning('saved-lost-twice', 'c', 2);
    gates.add('saved-lost-twice c');
    await untilRunning('saved-lost-twice', 'e');
    lose('saved-lost-twice', 1);
    await untilRunning('saved-lost-twice', 'e', 2);
    const outcome = await endOf('saved-lost-twice', 'e');
    expect(await runs.textOf(outcome)).toBe('a\nb\nc\nd\ne\nf\n');
    expect(starts.get('saved-lost-twice')).toEqual(['a', 'b', 'c', 'c', 'd', 'e', 'e', 'f']);
  });

  test('before its next step was saved begins again with the same checkpoint', async () => {
    await start('again', workflow('again', ['c']));
    await untilRunning('again', 'c');
    lose('again', 0);
    await untilRunning('again', 'c', 2);
    lose('again', 1);
    await untilRunning('again', 'c', 3);
    expect(await runs.textOf(await endOf('again', 'c'))).toBe('a\nb\nc\nd\ne\nf\n');
    expect(starts.get('again')).toEqual(['a', 'b', 'c', 'c', 'c', 'd', 'e', 'f']);
  });

  test('in its first step begins with an empty disk, and reports that there is no checkpoint', async () => {
    await start('saved-empty', workflow('saved-empty', ['a']));
    await untilRunning('saved-empty', 'a');
    lose('saved-empty', 0);
    await untilRunning('saved-empty', 'a', 2);
    expect(await runs.textOf(await endOf('saved-empty', 'a'))).toBe('a\nb\nc\nd\ne\nf\n');
    expect((await bodiesOf('saved-empty', 'vm-ready'))[1]).toMatchObject({
      resumeNote: 'the lost VM has no checkpoint on this host',
    });
  });

  const damages: readonly (readonly [string, (folder: string) => void, readonly string[], string])[] = [
    ['without its folder', (folder) => rmSync(folder, { recursive: true }), SIX, 'has no checkpoint on this host'],
    [
      'whose newest record is cut',
      (folder) => writeFileSync(join(folder, '3.json'), readFileSync(join(folder, '3.json')).subarray(0, 40)),
      ['c', 'd', 'e', 'f'],
      'checkpoint 3 is damaged',
    ],
    [
      'whose newest checkpoint is of another VM',
      (folder) => {
        const path = join(folder, '3/checkpoint.json');
        writeFileSync(path, readFileSync(path, 'utf8').replace(/"id":"[0-9a-f]{64}"/, `"id":"${'0'.repeat(64)}"`));
      },
      ['c', 'd', 'e', 'f'],
      'its two records name different checkpoints',
    ],
    [
      'whose newest disk cannot be read',
      (folder) => writeFileSync(join(folder, '3/disk'), 'no disk'),
      ['c', 'd', 'e', 'f'],
      'cannot be used',
    ],
  ];
  test.each(damages)('%s repeats the steps that no whole checkpoint holds', async (name, damage, repeated, note) => {
    const runId = `damaged-${name.replaceAll(' ', '-')}`;
    await start(runId, workflow(runId, ['d']));
    await untilRunning(runId, 'd');
    damage(join(folderOf(runId), '_shared'));
    lose(runId, 0);
    await untilRunning(runId, 'd', 2);
    expect(await runs.textOf(await endOf(runId, 'd'))).toBe('a\nb\nc\nd\ne\nf\n');
    expect(starts.get(runId)).toEqual(['a', 'b', 'c', 'd', ...repeated]);
    expect((await bodiesOf(runId, 'vm-ready'))[1]?.resumeNote).toContain(note);
    expect(namesIn(join(folderOf(runId), '_shared')).filter((name) => name.endsWith('.partial'))).toEqual([]);
  });

  test('repeats all steps with `checkpoint: off`', async () => {
    await start('off', workflow('off', ['c']).replace('each-step', 'off'));
    await untilRunning('off', 'c');
    expect(existsSync(folderOf('off'))).toBe(false);
    lose('off', 0);
    await untilRunning('off', 'c', 2);
    expect(await runs.textOf(await endOf('off', 'c'))).toBe('a\nb\nc\nd\ne\nf\n');
    expect(starts.get('off')).toEqual(['a', 'b', 'c', 'a', 'b', 'c', 'd', 'e', 'f']);
    expect(await bodiesOf('off', 'checkpoint-made')).toEqual([]);
  });
});

describe('steps that run at the same time', () => {
  const beside = (run: string): string =>
    workflow(run, [], ['a'])
      .replace('\n  steps:', '\n  output_step: d\n  steps:')
      .concat(
        `    - { name: b, depends_on: [a], run: { program: write, args: [${run}, b, gate] } }\n`,
        `    - { name: c, depends_on: [a], run: { program: write, args: [${run}, c, gate] } }\n`,
        `    - { name: d, depends_on: [b, c], run: { program: write, args: [${run}, d, gate] } }\n`,
      );

  test('are saved together, with the last of them', async () => {
    await start('beside', beside('beside'));
    await untilRunning('beside', 'b');
    await untilRunning('beside', 'c');
    gates.add('beside b');
    await expect
      .poll(async () => (await bodiesOf('beside', 'stage-finished')).map(({ stage }) => stage), { timeout: 30_000 })
      .toEqual(['a', 'b']);
    expect((await bodiesOf('beside', 'checkpoint-made')).map(({ stage }) => stage)).toEqual(['a']);
    gates.add('beside c');
    await untilRunning('beside', 'd');
    expect((await bodiesOf('beside', 'checkpoint-made')).map(({ stage }) => stage)).toEqual(['a', 'c']);
    lose('beside', 0);
    await untilRunning('beside', 'd', 2);
    expect((await endOf('beside', 'd')).state).toBe('succeeded');
    expect((starts.get('beside') ?? []).toSorted()).toEqual(['a', 'b', 'c', 'd', 'd']);
  });

  test('repeat both if one of them is lost after the end of the other', async () => {
    await start('half', beside('half'));
    await untilRunning('half', 'b');
    await untilRunning('half', 'c');
    gates.add('half b');
    await expect.poll(async () => (await bodiesOf('half', 'stage-finished')).length, { timeout: 30_000 }).toBe(2);
    lose('half', 0);
    await untilRunning('half', 'c', 2);
    await endOf('half', 'c', 'd');
    expect((starts.get('half') ?? []).toSorted()).toEqual(['a', 'b', 'b', 'c', 'c', 'd']);
    expect(await bodiesOf('half', 'scope-restarted')).toMatchObject([{ stages: ['b', 'c'], kept: ['a'] }]);
  });
});

test('an item of a part resumes, and the other items continue', async () => {
  const part = workflow('saved-items', ['c'], ['a', 'b', 'c']);
  const spec = `kind: pipeline\nname: p\nsandbox: { mode: mock, isolation: none }\npipeline:\n  boxes:\n    - { name: each, uses: ./p.yaml, for_each: [x, y], max_parallel: 2 }\n`;
  const { plan, diagnostics } = compileText(spec, 'x', {
    baseDir: '/x',
    checkExpression: checkExpressions,
    readSpec: () => ({ text: part }),
  });
  expect(diagnostics).toEqual([]);
  await startRun(runs.client, { runId: 'saved-items', request: { plan: toWire(plan!) }, summary: 'test' });
  await untilRunning('saved-items', 'c', 2);
  backend.lose({ runId: 'saved-items', scope: 'each._shared', instance: [{ part: 'each', item: 1 }], generation: 0 });
  await untilRunning('saved-items', 'c', 3);
  expect((await endOf('saved-items', 'c')).state).toBe('succeeded');
  expect((starts.get('saved-items') ?? []).toSorted()).toEqual(['a', 'a', 'b', 'b', 'c', 'c', 'c']);
  expect(existsSync(folderOf('saved-items'))).toBe(false);
});

test('a run that is cancelled keeps its checkpoints for a retry', async () => {
  await start('called-off', workflow('called-off', ['c']));
  await untilRunning('called-off', 'c');
  await cancelRun(runs.client, 'called-off');
  expect((await runs.outcomeOf('called-off')).state).toBe('cancelled');
  expect(namesIn(join(folderOf('called-off'), '_shared'))).toEqual(['1', '1.json', '2', '2.json']);
});

test('another worker continues, and resumes with the checkpoint of the worker before it', async () => {
  await start('other-worker', workflow('other-worker', ['d']));
  await untilRunning('other-worker', 'd');
  await runs.stopWorker();
  lose('other-worker', 0);
  await runs.startWorker();
  await untilRunning('other-worker', 'd', 2);
  expect(await runs.textOf(await endOf('other-worker', 'd'))).toBe('a\nb\nc\nd\ne\nf\n');
  expect(starts.get('other-worker')).toEqual(['a', 'b', 'c', 'd', 'd', 'e', 'f']);
});
