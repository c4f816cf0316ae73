/** A kind of work that no stage has: the life of an attempt knows only the interface of kinds. VMs are mocks. */
import { beforeEach, expect, test, vi } from 'vitest';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { CommandWork } from '../../domain/plan/plan.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { begin, request, RUN, useStageAttempts } from '../../test/rig/runs/stage-attempts.ts';
import type { StageRequest } from '../calls/requests.ts';
import { beginAttempt } from './begin.ts';
import { readResult } from './record.ts';
import { createCancelledResult } from './result.ts';
import { StartFailure } from './start-failure.ts';
import type { AttemptWork, WorkKind } from './work/attempt-work.ts';

const step = vi.hoisted(() => ({ done: [] as string[], fails: {} as Record<string, () => Promise<never>> }));

async function take(name: string): Promise<void> {
  step.done.push(name);
  await step.fails[name]?.();
}

const empty: WorkKind<CommandWork> = {
  async open() {
    await take('open');
    return work;
  },
  abandon: () => take('abandon'),
};

const work: AttemptWork<string, string> = {
  async prepare(vm) {
    await beginAttempt(vm, null);
    await take('prepare');
    return 'prepared';
  },
  async run(_vm, prepared) {
    await take('run');
    return `${prepared}, run`;
  },
  async collect({ backend, request: asked }, ran) {
    await take('collect');
    const result: StageResult = {
      ...createCancelledResult(backend, asked),
      outcome: 'succeeded',
      usage: { turns: ran.length },
    };
    return { result, execs: [] };
  },
};

vi.mock('./work/kinds.ts', () => ({ kindOf: () => empty }));

const rig = useStageAttempts({});

beforeEach(() => {
  step.done = [];
  step.fails = {};
});

const asked = (): StageRequest => request('none');

test('a further kind of work has the whole life of an attempt, and its result is durable', async () => {
  const result = await begin(rig.processDeps(), asked()).result;
  expect(result).toMatchObject({ outcome: 'succeeded', usage: { turns: 'prepared, run'.length } });
  expect(step.done).toEqual(['open', 'prepare', 'run', 'collect']);
  expect(await rig.typesOf()).toEqual(['vm-starting', 'vm-ready', 'stage-started', 'stage-finished', 'vm-stopped']);
  expect(rig.backend.alive()).toEqual([]);
  expect(await begin(rig.processDeps(), asked()).result).toEqual(result);
  expect(step.done).toHaveLength(4);
});

test('work that cannot start fails its stage before a VM boots, and is abandoned', async () => {
  step.fails['open'] = () => Promise.reject(new StartFailure('agent/api-error', 'the server is away'));
  const result = await begin(rig.processDeps(), asked()).result;
  expect(result).toMatchObject({
    outcome: 'failed',
    failure: { code: 'agent/api-error', message: 'the server is away', stderrTail: '' },
  });
  expect(step.done).toEqual(['open', 'abandon']);
  expect(await rig.typesOf()).not.toContain('vm-starting');
});

test('a worker that takes the attempt over repeats each step in the same VM, and abandons nothing', async () => {
  step.fails['run'] = () => Promise.reject(new Error('this worker ends'));
  await expect(begin(rig.processDeps(), asked()).result).rejects.toThrow('this worker ends');
  expect(rig.backend.alive()).toHaveLength(1);
  step.fails = {};
  expect((await begin(rig.processDeps(), asked()).result).outcome).toBe('succeeded');
  expect(step.done).toEqual(['open', 'prepare', 'run', 'open', 'prepare', 'run', 'collect']);
  expect((await rig.typesOf()).filter((type) => type === 'stage-reattached')).toHaveLength(1);
});

test('work whose VM is lost is abandoned, and the attempt has no result', async () => {
  step.fails['run'] = () => Promise.reject(new CodedError('vm/lost', 'the VM is away'));
  await expect(begin(rig.processDeps(), asked()).result).rejects.toMatchObject({ type: 'vm/lost' });
  expect(step.done).toEqual(['open', 'prepare', 'run', 'abandon']);
  expect(await readResult(rig.events, RUN, asked().execKey)).toBeNull();
});
