/** What is saved after a step, and with which checkpoint the VM after a lost one begins. VMs are mocks, stores are files. */
import { setTimeout as sleep } from 'node:timers/promises';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { describe, expect, test } from 'vitest';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { ErrorCode } from '../../domain/errors/codes.ts';
import type { RunEventBody } from '../../domain/run/event.ts';
import type { AcquiredVm } from '../../domain/run/vm-lease.ts';
import { begin, RUN, useStageAttempts } from '../../test/rig/runs/stage-attempts.ts';
import { LEAST_SANDBOX, plainRequest, plainStage } from '../../test/rig/runs/mock-worker.ts';
import type { ActivityDeps } from '../deps.ts';
import type { Sandbox, SandboxBackend } from '../ports/sandbox.ts';
import type { ScopeRequest, StageRequest } from '../calls/requests.ts';
import { acquireVm, releaseVm } from './shared-vm.ts';

let mayEnd = false;
const rig = useStageAttempts({
  /** Runs until the test lets it end. */
  hold: async ({ killed }) => {
    while (!mayEnd) await sleep(5, undefined, { signal: killed });
    return 0;
  },
});

const SCOPE = {
  id: '_shared',
  stages: ['a', 'b', 'c', 'held'],
  checkpoint: 'each-step',
  sandbox: LEAST_SANDBOX,
} as const;

function scoped(generation: number, resumes?: true): ScopeRequest {
  return { runId: RUN, scope: SCOPE, generation, instance: [], ...(resumes === true ? { resumes } : {}) };
}

function step(id: string, program = 'true', generation = 0): StageRequest {
  return plainRequest(RUN, plainStage(id, '_shared', [program]), {
    scope: SCOPE,
    generation,
    lease: { vmKey: `${RUN}/_shared/${generation}` },
  });
}

function acquire(deps: ActivityDeps, request: ScopeRequest): Promise<AcquiredVm> {
  const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
  return environment.run(() => acquireVm(deps, request));
}

const keyOf = (generation: number) => ({ runId: RUN, scope: '_shared', instance: [], generation });

async function bodiesOf<T extends RunEventBody['type']>(
  type: T,
): Promise<readonly Extract<RunEventBody, { type: T }>[]> {
  const bodies: Extract<RunEventBody, { type: T }>[] = [];
  for await (const { body } of rig.stores.reader.read(RUN, 0, { output: false }))
    if (body.type === type) bodies.push(body as Extract<RunEventBody, { type: T }>);
  return bodies;
}

/** A backend whose VMs fail to be saved, or to start with a checkpoint, with this code. */
function failing(what: 'checkpoint' | 'launch', code: ErrorCode): Partial<ActivityDeps> {
  const backend: SandboxBackend = {
    ...rig.backend,
    async launch(key, spec, signal) {
      if (what === 'launch' && spec.from !== undefined) {
        await rig.backend.launch(key, { ...spec, from: undefined }, signal);
        // Such a launch uses the key up.
        await rig.backend.release(key);
        throw new CodedError(code, `the launch fails with ${code}`);
      }
      const sandbox: Sandbox = await rig.backend.launch(key, spec, signal);
      if (what === 'launch') return sandbox;
      return {
        ...sandbox,
        checkpoint: async () => {
          if (code === 'vm/lost') rig.backend.lose(key);
          throw new CodedError(code, `the checkpoint fails with ${code}`);
        },
      };
    },
  };
  return { backendFor: () => backend };
}

describe('a step', () => {
  test.each(['vm/checkpoint-failed', 'store/io', 'host/disk-full'] as const)(
    'succeeds if its checkpoint fails with %s, and an event contains the reason',
    async (code) => {
      const deps = rig.processDeps(failing('checkpoint', code));
      await acquire(deps, scoped(0));
      expect((await begin(deps, step('a')).result).outcome).toBe('succeeded');
      expect(await bodiesOf('checkpoint-failed')).toMatchObject([
        { stage: 'a', execKey: 'a/0/1', generation: 0, reason: `the checkpoint fails with ${code}` },
      ]);
      expect(await bodiesOf('checkpoint-made')).toEqual([]);
      await releaseVm(deps, scoped(0));
    },
  );

  test('is not saved while the disk of the host is nearly full, and succeeds', async () => {
    const deps = rig.processDeps();
    const checkpoints = { ...deps.checkpoints!, findObstacle: () => 'the disk is full' };
    await acquire(deps, scoped(0));
    expect((await begin({ ...deps, checkpoints }, step('a')).result).outcome).toBe('succeeded');
    expect(await bodiesOf('checkpoint-failed')).toMatchObject([{ reason: 'the disk is full' }]);
    await releaseVm(deps, scoped(0));
  });

  test('is lost if its VM is lost while it is saved', async () => {
    const deps = rig.processDeps(failing('checkpoint', 'vm/lost'));
    await acquire(deps, scoped(0));
    await expect(begin(deps, step('a')).result).rejects.toMatchObject({ type: 'vm/lost' });
    expect(await bodiesOf('stage-finished')).toEqual([]);
    await releaseVm(deps, scoped(0));
  });

  test('is saved once, also if another worker takes it over after its checkpoint', async () => {
    const deps = rig.processDeps();
    await acquire(deps, scoped(0));
    const dying: ActivityDeps = {
      ...deps,
      events: {
        ...deps.events,
        append: async (runId, events, writer) => {
          if (events.some(({ body }) => body.type === 'stage-finished')) throw new Error('the worker dies');
          return await deps.events.append(runId, events, writer);
        },
      },
    };
    await expect(begin(dying, step('a')).result).rejects.toThrow('the worker dies');
    expect((await begin(rig.processDeps(), step('a')).result).outcome).toBe('succeeded');
    expect(await bodiesOf('checkpoint-made')).toHaveLength(1);
    expect((await deps.checkpoints!.list(keyOf(0))).whole).toMatchObject([{ number: 1, after: 'a' }]);
    await releaseVm(deps, scoped(0));
  });

  test('is not saved while another step runs, and the other step saves both', async () => {
    mayEnd = false;
    const deps = rig.processDeps();
    await acquire(deps, scoped(0));
    const held = begin(deps, step('held', 'hold'));
    await expect.poll(async () => (await bodiesOf('stage-started')).length).toBe(1);
    await begin(deps, step('a')).result;
    expect([await bodiesOf('checkpoint-made'), await bodiesOf('checkpoint-failed')]).toEqual([[], []]);
    mayEnd = true;
    await held.result;
    const { whole } = await deps.checkpoints!.list(keyOf(0));
    expect(whole.map(({ holds }) => holds)).toEqual([
      [
        { stage: 'a', attempt: 1 },
        { stage: 'held', attempt: 1 },
      ],
    ]);
    await releaseVm(deps, scoped(0));
  });

  test('that is cancelled is not saved, and a step that is saved after it names it', async () => {
    mayEnd = false;
    const deps = rig.processDeps();
    await acquire(deps, scoped(0));
    const held = begin(deps, step('held', 'hold'));
    await expect.poll(async () => (await bodiesOf('stage-started')).length).toBe(1);
    held.cancel({ cancelRequested: true });
    expect((await held.result).outcome).toBe('cancelled');
    expect((await deps.checkpoints!.list(keyOf(0))).whole).toEqual([]);
    await begin(deps, step('a')).result;
    const named = (await deps.checkpoints!.list(keyOf(0))).whole.map(({ holds }) => holds.map(({ stage }) => stage));
    expect(named).toEqual([['held', 'a']]);
    await releaseVm(deps, scoped(0));
  });

  test('is not saved beside a command of a person, and an event names it', async () => {
    mayEnd = false;
    const deps = rig.processDeps();
    await acquire(deps, scoped(0));
    const backend: SandboxBackend = {
      ...rig.backend,
      async launch(key, spec, signal) {
        const sandbox = await rig.backend.launch(key, spec, signal);
        const limits = { timeoutMs: 60_000, maxOutputBytes: 1_024 };
        await sandbox.exec(
          { key: 'by-ada', program: 'hold', args: [], env: {}, cwd: '/workspace', stdin: null, ...limits },
          signal,
        );
        return sandbox;
      },
    };
    expect((await begin({ ...deps, backendFor: () => backend }, step('a')).result).outcome).toBe('succeeded');
    expect(await bodiesOf('checkpoint-failed')).toMatchObject([
      { stage: 'a', reason: 'the command by-ada of a person runs in the VM' },
    ]);
    mayEnd = true;
    await releaseVm(deps, scoped(0));
  });

  test('is not saved beside a command that began during the copy', async () => {
    mayEnd = false;
    const deps = rig.processDeps();
    await acquire(deps, scoped(0));
    let held: ReturnType<typeof begin> | null = null;
    const backend: SandboxBackend = {
      ...rig.backend,
      async launch(key, spec, signal) {
        const sandbox = await rig.backend.launch(key, spec, signal);
        return {
          ...sandbox,
          async checkpoint(target, stop) {
            const record = await sandbox.checkpoint(target, stop);
            if (held !== null) return record;
            held = begin(deps, step('held', 'hold'));
            while ((await sandbox.execs()).length < 2) await sleep(5);
            return record;
          },
        };
      },
    };
    await begin({ ...deps, backendFor: () => backend }, step('a')).result;
    expect((await deps.checkpoints!.list(keyOf(0))).whole).toEqual([]);
    mayEnd = true;
    await held!.result;
    expect((await deps.checkpoints!.list(keyOf(0))).whole).toMatchObject([{ after: 'held' }]);
    await releaseVm(deps, scoped(0));
  });
});

describe('the VM after a lost one', () => {
  const held = (...stages: readonly string[]) => stages.map((stage) => ({ stage, attempt: 1 }));

  async function twoSteps(deps: ActivityDeps): Promise<void> {
    await acquire(deps, scoped(0));
    await begin(deps, step('a')).result;
    await begin(deps, step('b')).result;
    rig.backend.lose(keyOf(0));
    await releaseVm(deps, scoped(0, true));
  }

  test('holds the attempts of the newest checkpoint, and answers with them again', async () => {
    const deps = rig.processDeps();
    await twoSteps(deps);
    expect((await acquire(deps, scoped(1, true))).holds).toEqual(held('a', 'b'));
    expect((await acquire(rig.processDeps(), scoped(1, true))).holds).toEqual(held('a', 'b'));
    expect(await bodiesOf('vm-ready')).toMatchObject([{ generation: 0 }, { generation: 1, resumedAfter: 'b' }]);
    await releaseVm(deps, scoped(1));
    // A later run may begin with them.
    expect((await deps.checkpoints!.list(keyOf(0))).whole.map(({ after }) => after)).toEqual(['b', 'a']);
  });

  test('begins with the checkpoint before, if the newest one holds a step without a result', async () => {
    const deps = rig.processDeps();
    await acquire(deps, scoped(0));
    await begin(deps, step('a')).result;
    const dying: ActivityDeps = {
      ...deps,
      events: {
        ...deps.events,
        append: async (runId, events, writer) => {
          if (events.some(({ body }) => body.type === 'stage-finished')) throw new Error('the worker dies');
          return await deps.events.append(runId, events, writer);
        },
      },
    };
    await expect(begin(dying, step('b')).result).rejects.toThrow('the worker dies');
    rig.backend.lose(keyOf(0));
    await releaseVm(deps, scoped(0, true));
    expect((await acquire(deps, scoped(1, true))).holds).toEqual(held('a'));
    expect((await bodiesOf('vm-ready'))[1]).toMatchObject({
      resumedAfter: 'a',
      resumeNote: 'the checkpoint after b holds b, whose result was not recorded',
    });
    await releaseVm(deps, scoped(1));
  });

  test('tries each checkpoint in one VM, and then begins with an empty disk', async () => {
    const deps = rig.processDeps();
    await twoSteps(deps);
    const broken = rig.processDeps(failing('launch', 'vm/boot-timeout'));
    for (const [generation, left] of [
      [1, 1],
      [2, 0],
    ] as const) {
      await expect(acquire(broken, scoped(generation, true))).rejects.toMatchObject({ type: 'vm/boot-timeout' });
      await releaseVm(broken, scoped(generation, true));
      expect((await deps.checkpoints!.list(keyOf(0))).whole).toHaveLength(left);
    }
    expect(await acquire(broken, scoped(3, true))).not.toHaveProperty('holds');
    await releaseVm(broken, scoped(3));
  });

  test('that does not fit the newest checkpoint begins with the one before, also if its key is used up', async () => {
    const deps = rig.processDeps();
    await twoSteps(deps);
    const broken = rig.processDeps(failing('launch', 'vm/checkpoint-unfit'));
    await expect(acquire(broken, scoped(1, true))).rejects.toMatchObject({ type: 'vm/lost' });
    await releaseVm(broken, scoped(1, true));
    expect((await deps.checkpoints!.list(keyOf(0))).whole).toMatchObject([{ after: 'a' }]);
    expect((await acquire(deps, scoped(2, true))).holds).toEqual(held('a'));
    await releaseVm(deps, scoped(2));
  });

  test('begins with an empty disk if the answer of another host is a lease for that host', async () => {
    const deps = rig.processDeps();
    await twoSteps(deps);
    const elsewhere = { vmKey: `${RUN}/_shared/1`, queue: 'voidbox-host:other', host: 'other' };
    const needs: unknown[] = [];
    const counted: SandboxBackend = { ...rig.backend, name: 'qemu' };
    const leases = {
      ...deps.leases,
      grant: async (_key: unknown, need: unknown) => {
        needs.push(need);
        return elsewhere;
      },
    };
    expect(await acquire({ ...deps, leases, backendFor: () => counted }, scoped(1, true))).toEqual(elsewhere);
    expect(needs).toMatchObject([{ boundTo: 'h' }]);
  });

  test('that follows no lost one begins with an empty disk, and no checkpoint of the scope stays', async () => {
    const deps = rig.processDeps();
    await twoSteps(deps);
    expect(await acquire(deps, scoped(1))).not.toHaveProperty('holds');
    expect((await deps.checkpoints!.list(keyOf(0))).whole).toEqual([]);
    await releaseVm(deps, scoped(1));
  });
});

describe('the first VM of a run that took a checkpoint over', () => {
  const given = { type: 'stage-given', runId: 'earlier', outcome: 'succeeded', output: null, outputs: {} } as const;
  const taken = (...stages: readonly string[]) => stages.map((stage) => ({ stage, attempt: 0 }));

  /** Run `earlier` has saved its VM after `a` and `b`, and this run takes the newest checkpoint over. */
  async function takeOver(deps: ActivityDeps, recorded: readonly string[] = ['a', 'b']): Promise<void> {
    await acquire(deps, scoped(0));
    await begin(deps, step('a')).result;
    await begin(deps, step('b')).result;
    await releaseVm(deps, scoped(0));
    const scope = { runId: 'next', scope: '_shared', instance: [] };
    const source = { runId: RUN, scope: '_shared', instance: [] };
    const newest = { number: 2, holds: taken('a', 'b') };
    expect(await deps.checkpoints!.takeOver(source, scope, [newest])).toBeNull();
    const events = recorded.map((stage) => ({ id: `stage/${stage}/given`, atMs: 1, body: { ...given, stage } }));
    await deps.events.append('next', events);
  }

  const next = (generation: number): ScopeRequest => ({ ...scoped(generation, true), runId: 'next' });
  const lose = (generation: number): void =>
    rig.backend.lose({ runId: 'next', scope: '_shared', instance: [], generation });

  async function readyOf(generation: number): Promise<RunEventBody | undefined> {
    for await (const { body } of rig.stores.reader.read('next', 0))
      if (body.type === 'vm-ready' && body.generation === generation) return body;
    return undefined;
  }

  test('begins with it, and so does the next VM if the first one is lost before a step was saved', async () => {
    const deps = rig.processDeps();
    await takeOver(deps);
    expect((await acquire(deps, next(0))).holds).toEqual(taken('a', 'b'));
    expect(await readyOf(0)).toMatchObject({ resumedAfter: 'b' });
    lose(0);
    await releaseVm(deps, next(0));
    expect((await acquire(deps, next(1))).holds).toEqual(taken('a', 'b'));
    await releaseVm(deps, next(1));
  });

  test('adds its own steps to the work that it took over', async () => {
    const deps = rig.processDeps();
    await takeOver(deps);
    await acquire(deps, next(0));
    const own = { ...step('c'), runId: 'next', lease: { vmKey: 'next/_shared/0' } };
    expect((await begin(deps, own).result).outcome).toBe('succeeded');
    lose(0);
    await releaseVm(deps, next(0));
    expect((await acquire(deps, next(1))).holds).toEqual([...taken('a', 'b'), { stage: 'c', attempt: 1 }]);
    await releaseVm(deps, next(1));
  });

  test('begins with an empty disk if it is gone, and the reason is in the event', async () => {
    const deps = rig.processDeps();
    await takeOver(deps);
    await deps.checkpoints!.dropRun('next');
    expect(await acquire(deps, next(0))).not.toHaveProperty('holds');
    expect(await readyOf(0)).toMatchObject({ resumeNote: 'no checkpoint of the earlier run is on this host' });
    await releaseVm(deps, next(0));
  });

  test('begins with an empty disk if it holds a stage that the run was not given', async () => {
    const deps = rig.processDeps();
    await takeOver(deps, ['a']);
    expect(await acquire(deps, next(0))).not.toHaveProperty('holds');
    expect(await readyOf(0)).toMatchObject({
      resumeNote: 'the checkpoint after b holds b, whose result was not recorded',
    });
    await releaseVm(deps, next(0));
  });

  test('begins with an empty disk if no VM can start from it', async () => {
    const deps = rig.processDeps();
    await takeOver(deps);
    const unfit = rig.processDeps(failing('launch', 'vm/checkpoint-unfit'));
    await expect(acquire(unfit, next(0))).rejects.toMatchObject({ type: 'vm/lost' });
    await releaseVm(unfit, next(0));
    expect(await acquire(deps, next(1))).not.toHaveProperty('holds');
    expect(await readyOf(1)).toMatchObject({ resumeNote: 'the lost VM has no checkpoint on this host' });
    await releaseVm(deps, next(1));
  });
});
