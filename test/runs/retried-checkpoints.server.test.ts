/** Retries and forks of workflows that were saved after each step, through a real Temporal server; only the VM is a mock. */
import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { Activities, RunRequest } from '../../activities/contract.ts';
import { cancelRun, startRun } from '../../client/runs/runs.ts';
import type { RunEvent, RunEventBody, RunOutcome } from '../../domain/run/event.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import type { MockProgram } from '../../sandbox/mock/programs.ts';
import { useTestRuns } from '../rig/servers/test-runs.ts';

/** Steps in the order of their starts, by the key of the spec. */
const starts = new Map<string, string[]>();
/** Steps that fail: `key step`. */
const broken = new Set<string>();
/** Steps that may end: `key step`. */
const gates = new Set<string>();

const programs: Record<string, MockProgram> = {
  /** `write KEY STEP [gate]`: adds the step to a file outside of the workspace, and prints the file. */
  write: async ({ args, files, killed, write }) => {
    const [key = '', step = '', gate] = args;
    starts.set(key, [...(starts.get(key) ?? []), step]);
    const before = files.find('/tmp/steps');
    const text = `${before?.kind === 'file' ? before.body.toString() : ''}${step}\n`;
    files.write('/tmp/steps', Buffer.from(text));
    if (broken.has(`${key} ${step}`)) return 4;
    if (gate === 'gate') while (!gates.has(`${key} ${step}`)) await sleep(10, undefined, { signal: killed });
    await write('stdout', text);
    return 0;
  },
};

const backend = createMockBackend({ programs });
const runs = useTestRuns(backend, { recorded: ['origin-saved', 'origin-saved-empty', 'origin-saved-lost'] });

const SIX = ['a', 'b', 'c', 'd', 'e', 'f'];
const ALL = 'a\nb\nc\nd\ne\nf\n';

interface SpecOptions {
  readonly gated?: string;
  readonly attempts?: number;
  /** In place of the step's own text. */
  readonly change?: Readonly<Record<string, string>>;
  readonly more?: readonly string[];
  readonly diskMb?: number;
}

function spec(key: string, { gated, attempts = 1, change = {}, more = [], diskMb = 64 }: SpecOptions = {}): string {
  const steps = [...SIX, ...more].map((step, index, all) => {
    const after = index === 0 ? '' : `, depends_on: [${all[index - 1]!}]`;
    const retry = attempts === 1 ? '' : `, retry: { max_attempts: ${attempts} }`;
    const args = `[${key}, ${change[step] ?? step}${gated === step ? ', gate' : ''}]`;
    return `    - { name: ${step}${after}${retry}, run: { program: write, args: ${args} } }`;
  });
  return `kind: workflow
name: saved
sandbox: { mode: mock, isolation: none, disk_mb: ${diskMb} }
workflow:
  checkpoint: each-step
  steps:
${steps.join('\n')}
`;
}

async function start(runId: string, request: RunRequest): Promise<void> {
  await startRun(runs.client, { runId, request, summary: `test ${runId}` });
}

async function run(runId: string, request: RunRequest): Promise<RunOutcome> {
  await start(runId, request);
  return runs.outcomeOf(runId);
}

/** A run of six steps that fails in the fifth. */
async function fail(key: string, options: SpecOptions = {}): Promise<void> {
  broken.add(`${key} e`);
  expect(await run(key, { spec: spec(key, options) })).toMatchObject({ state: 'failed', failedStage: 'e' });
  broken.delete(`${key} e`);
  starts.delete(key);
}

const retryOf = (runId: string, from: string | null = 'e'): RunRequest => ({ origin: { runId, kind: 'retry', from } });

async function bodiesOf<T extends RunEventBody['type']>(
  runId: string,
  type: T,
): Promise<readonly Extract<RunEventBody, { type: T }>[]> {
  const events: readonly RunEvent[] = await runs.stack.eventsOf(runId);
  return events.flatMap(({ body }) => (body.type === type ? [body as Extract<RunEventBody, { type: T }>] : []));
}

async function untilRunning(key: string, step: string, times = 1): Promise<void> {
  const count = (): number => (starts.get(key) ?? []).filter((each) => each === step).length;
  await expect.poll(count, { timeout: 30_000 }).toBe(times);
}

const folderOf = (runId: string): string => join(runs.stack.stateDir, 'runs', runId);

/** Starts another worker, which does this before the first VM of a run. */
async function beforeFirstVm(work: (runId: string) => void): Promise<void> {
  await runs.stopWorker();
  await runs.startWorker((activities: Activities) => ({
    acquireVm: (call) => {
      if (call.generation === 0) work(call.runId);
      return activities.acquireVm(call);
    },
  }));
}

describe('a retry of a run whose fifth of six steps failed', () => {
  test.each(['e', null])('repeats only the fifth and the sixth, from %s', async (from) => {
    const key = from === null ? 'saved-again' : 'saved-first';
    await fail(key);
    const runId = from === null ? 'again' : 'origin-saved';
    const outcome = await run(runId, retryOf(key, from));
    expect(outcome.state).toBe('succeeded');
    expect(starts.get(key)).toEqual(['e', 'f']);
    // The failed attempt wrote its line after the checkpoint.
    expect(await runs.textOf(outcome)).toBe(ALL);
    expect((await bodiesOf(runId, 'stage-given')).map(({ stage }) => stage)).toEqual(['a', 'b', 'c', 'd']);
    expect(await bodiesOf(runId, 'vm-ready')).toMatchObject([{ generation: 0, resumedAfter: 'd' }]);
    expect(await bodiesOf(runId, 'scope-restarted')).toEqual([]);
    expect((await runs.viewOf(runId)).stages.map(({ id, state, attempt }) => [id, state, attempt])).toEqual([
      ['a', 'succeeded', 0],
      ['b', 'succeeded', 0],
      ['c', 'succeeded', 0],
      ['d', 'succeeded', 0],
      ['e', 'succeeded', 1],
      ['f', 'succeeded', 1],
    ]);
    expect(backend.alive()).toEqual([]);
  });

  test('begins before its first attempt if the step was tried several times', async () => {
    await fail('tried', { attempts: 3 });
    expect(await runs.textOf(await run('tried-again', retryOf('tried')))).toBe(ALL);
    expect(starts.get('tried')).toEqual(['e', 'f']);
  });

  test('repeats from an earlier step that a person names', async () => {
    await fail('earlier');
    expect(await runs.textOf(await run('earlier-again', retryOf('earlier', 'c')))).toBe(ALL);
    expect(starts.get('earlier')).toEqual(['c', 'd', 'e', 'f']);
  });

  test('repeats only the fifth again if it fails again and the retry is retried', async () => {
    await fail('chain');
    broken.add('chain e');
    expect((await run('chain-2', retryOf('chain'))).state).toBe('failed');
    broken.delete('chain e');
    rmSync(folderOf('chain'), { recursive: true });
    starts.delete('chain');
    expect(await runs.textOf(await run('chain-3', retryOf('chain-2')))).toBe(ALL);
    expect(starts.get('chain')).toEqual(['e', 'f']);
    // The checkpoints of the first run went with the second to the third.
    starts.delete('chain');
    rmSync(folderOf('chain-2'), { recursive: true });
    expect(await runs.textOf(await run('chain-4', retryOf('chain-3', 'c')))).toBe(ALL);
    expect(starts.get('chain')).toEqual(['c', 'd', 'e', 'f']);
    expect(await bodiesOf('chain-4', 'vm-ready')).toMatchObject([{ resumedAfter: 'b' }]);
  });

  test('repeats only the interrupted step if its VM is lost', async () => {
    await fail('lost', { gated: 'e' });
    await start('origin-saved-lost', retryOf('lost'));
    await untilRunning('lost', 'e');
    backend.lose({ runId: 'origin-saved-lost', scope: '_shared', instance: [], generation: 0 });
    await untilRunning('lost', 'e', 2);
    gates.add('lost e');
    expect(await runs.textOf(await runs.outcomeOf('origin-saved-lost'))).toBe(ALL);
    expect(starts.get('lost')).toEqual(['e', 'e', 'f']);
    expect(await bodiesOf('origin-saved-lost', 'scope-restarted')).toMatchObject([
      { stages: ['e'], kept: ['a', 'b', 'c', 'd'] },
    ]);
  });

  test('runs all steps if the checkpoints are gone, and an event names the reason', async () => {
    await fail('gone');
    rmSync(join(folderOf('gone'), 'checkpoints'), { recursive: true });
    expect(await runs.textOf(await run('gone-again', retryOf('gone')))).toBe(ALL);
    expect(starts.get('gone')).toEqual(SIX);
    expect((await bodiesOf('gone-again', 'notice')).map(({ message }) => message)).toEqual([
      'the VM of a starts without a checkpoint, so all 6 stages of it run: run gone keeps no checkpoint of its VM on this host',
    ]);
    expect(await bodiesOf('gone-again', 'stage-given')).toEqual([]);
  });

  test('loses nothing if the earlier run is deleted after its admission', async () => {
    await fail('pruned');
    await beforeFirstVm((runId) => {
      if (runId === 'pruned-again') rmSync(folderOf('pruned'), { recursive: true });
    });
    expect(await runs.textOf(await run('pruned-again', retryOf('pruned')))).toBe(ALL);
    expect(existsSync(folderOf('pruned'))).toBe(false);
    expect(starts.get('pruned')).toEqual(['e', 'f']);
  });

  test('runs all steps if the checkpoint that it took over is gone before its first VM', async () => {
    await fail('taken');
    await beforeFirstVm((runId) => {
      if (runId === 'origin-saved-empty') rmSync(join(folderOf(runId), 'checkpoints'), { recursive: true });
    });
    expect(await runs.textOf(await run('origin-saved-empty', retryOf('taken')))).toBe(ALL);
    expect(starts.get('taken')).toEqual(SIX);
    expect(await bodiesOf('origin-saved-empty', 'vm-ready')).toMatchObject([
      { resumeNote: 'no checkpoint of the earlier run is on this host' },
    ]);
    expect(await bodiesOf('origin-saved-empty', 'scope-restarted')).toMatchObject([
      { stages: ['a', 'b', 'c', 'd'], attempts: [0, 0, 0, 0] },
    ]);
    expect((await runs.viewOf('origin-saved-empty')).stages.every(({ attempt }) => attempt === 1)).toBe(true);
  });
});

test('a retry whose newest checkpoint is damaged begins with an older one that it took over', async () => {
  await fail('older');
  await beforeFirstVm((runId) => {
    if (runId !== 'older-again') return;
    const scope = join(folderOf(runId), 'checkpoints', '_shared');
    const records = readdirSync(scope).filter((name) => name.endsWith('.json'));
    writeFileSync(join(scope, records.toSorted().at(-1)!), '{');
  });
  expect(await runs.textOf(await run('older-again', retryOf('older')))).toBe(ALL);
  expect(starts.get('older')).toEqual(['d', 'e', 'f']);
  expect(await bodiesOf('older-again', 'vm-ready')).toMatchObject([
    { resumedAfter: 'c', resumeNote: expect.stringContaining('is damaged') as string },
  ]);
});

test('a retry of a cancelled run begins before the step that was cancelled', async () => {
  await start('stopped', { spec: spec('stopped', { gated: 'c' }) });
  await untilRunning('stopped', 'c');
  await cancelRun(runs.client, 'stopped');
  expect((await runs.outcomeOf('stopped')).state).toBe('cancelled');
  starts.delete('stopped');
  gates.add('stopped c');
  expect(await runs.textOf(await run('stopped-again', retryOf('stopped', null)))).toBe(ALL);
  expect(starts.get('stopped')).toEqual(['c', 'd', 'e', 'f']);
});

describe('a fork of a run that was saved after each step', () => {
  const forkOf = (runId: string, text: string): RunRequest => ({
    spec: text,
    origin: { runId, kind: 'fork', from: null },
  });

  test('that changed an earlier step runs from there', async () => {
    await fail('forked');
    const outcome = await run('forked-2', forkOf('forked', spec('forked', { change: { c: 'other' } })));
    expect(await runs.textOf(outcome)).toBe('a\nb\nother\nd\ne\nf\n');
    expect(starts.get('forked')).toEqual(['other', 'd', 'e', 'f']);
    expect(await bodiesOf('forked-2', 'vm-ready')).toMatchObject([{ resumedAfter: 'b' }]);
  });

  test('that added a step runs only this step', async () => {
    expect((await run('whole', { spec: spec('whole') })).state).toBe('succeeded');
    starts.delete('whole');
    const outcome = await run('whole-2', forkOf('whole', spec('whole', { more: ['g'] })));
    expect(await runs.textOf(outcome)).toBe(`${ALL}g\n`);
    expect(starts.get('whole')).toEqual(['g']);
  });

  test('that changed the disk of the VM uses no checkpoint', async () => {
    await fail('larger');
    expect((await run('larger-2', forkOf('larger', spec('larger', { diskMb: 128 })))).state).toBe('succeeded');
    expect(starts.get('larger')).toEqual(SIX);
    expect(readdirSync(join(folderOf('larger-2'), 'checkpoints/_shared'))).toContain('6.json');
  });

  test('that admission refuses leaves no checkpoint', async () => {
    await fail('refused');
    const request = forkOf('refused', spec('refused', { more: ['g'] }).replace('write', 'nothing'));
    const refused = {
      ...request,
      spec: `${request.spec!}    - { name: h, run: { program: write, env: { X: { from_host: NEVER_SET } } } }\n`,
    };
    await expect(run('refused-2', refused)).resolves.toMatchObject({ state: 'failed' });
    expect(existsSync(join(folderOf('refused-2'), 'checkpoints'))).toBe(false);
  });
});
