/**
 * Writable mounts across the stages, attempts and VMs of a scope. VMs are mocks; the host's folder and all stores are
 * files.
 */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { REMEMBERED_MS } from '../../sandbox/mock/ended-vms.ts';
import { createMockBackend, type MockBackend } from '../../sandbox/mock/backend.ts';
import type { MockIo } from '../../sandbox/mock/programs.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import { mountsDir } from '../../store/state-folder.ts';
import { mockWorkerDeps, plainRequest, plainStage } from '../../test/rig/runs/mock-worker.ts';
import type { StageRequest } from '../calls/requests.ts';
import type { ActivityDeps } from '../deps.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { LaunchSpec, Sandbox, SandboxBackend } from '../ports/sandbox.ts';
import { finishRun } from '../finish-run.ts';
import { runStage } from '../attempt/run-stage.ts';

const RUN = 'run-1';

let base: string;
let host: string;
let backend: MockBackend;
let stores: Stores;
let events: EventLog;
/** A test opens a gate to let a program continue. */
let gates: Set<string>;
let nowMs: number;

async function gate(name: string): Promise<void> {
  while (!gates.has(name)) await sleep(5);
}

function read({ files }: MockIo, name: string): string {
  const node = files.find(`/data/${name}`);
  return node?.kind === 'file' ? node.body.toString() : `no ${name}`;
}

function write({ files }: MockIo, name: string, text: string): void {
  files.write(`/data/${name}`, Buffer.from(text));
}

beforeEach(async () => {
  base = mkdtempSync(join(tmpdir(), 'voidbox-stage-mounts-'));
  host = join(base, 'host');
  mkdirSync(host);
  writeFileSync(join(host, 'a'), 'a of the host');
  gates = new Set();
  nowMs = 0;
  stores = await openStores({ stateDir: join(base, 'state') });
  ({ events } = stores);
  backend = createMockBackend({
    now: () => nowMs,
    programs: {
      // `write a text` writes at once, and prints the earlier content.
      write: async (io) => {
        await io.write('stdout', read(io, io.args[0]!));
        write(io, io.args[0]!, io.args[1]!);
        return 0;
      },
      // Writes, waits for a gate, and writes again.
      'write-slowly': async (io) => {
        write(io, io.args[0]!, 'half');
        await io.write('stdout', 'begun, ');
        await gate(io.args[0]!);
        await io.write('stdout', read(io, io.args[0]!));
        write(io, io.args[0]!, 'whole');
        return 0;
      },
      // Prints the content before and after a gate.
      'read-twice': async (io) => {
        await io.write('stdout', `${read(io, 'a')}, `);
        await gate('reader');
        await io.write('stdout', read(io, 'a'));
        return 0;
      },
      'write-and-fail': async (io) => {
        write(io, 'a', 'of a failed stage');
        write(io, 'made', 'by a failed stage');
        return 1;
      },
    },
  });
});
afterEach(async () => {
  for (const generation of [0, 1]) await backend.release({ runId: RUN, scope: 'shared', instance: [], generation });
  await backend.release({ runId: RUN, scope: 'other', instance: [], generation: 0 });
  await stores.close();
  rmSync(base, { recursive: true, force: true });
});

/** A worker process; a second call creates its successor on the same host. */
function worker(change: Partial<ActivityDeps> = {}): ActivityDeps {
  return mockWorkerDeps(
    { stateDir: join(base, 'state'), stores, backend },
    { mountPolicy: { allowedRoots: [base] }, ...change },
  );
}

function sandboxPlan(): LaunchSpec {
  const mounts = [{ hostPath: host, guestPath: '/data', mode: 'rw' }] as const;
  return { mode: 'mock', isolation: 'none', memoryMib: 64, vcpus: 1, diskMib: 64, mounts };
}

function run(
  deps: ActivityDeps,
  id: string,
  command: readonly [string, ...string[]],
  change: Partial<StageRequest> = {},
): Promise<StageResult> {
  const request = plainRequest(RUN, plainStage(id, 'shared', command), {
    scope: { id: 'shared', stages: ['one', 'two', 'three'], sandbox: sandboxPlan() },
    lease: { vmKey: `${RUN}/shared/${change.generation ?? 0}` },
    ...change,
  });
  const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
  const result = environment.run<[ActivityDeps, StageRequest], StageResult, typeof runStage>(runStage, deps, request);
  result.catch(() => undefined);
  return result;
}

async function outputOf(stage: string): Promise<string> {
  let text = '';
  for await (const { body } of stores.reader.read(RUN, 0))
    if (body.type === 'output' && body.stage === stage) text += body.data;
  return text;
}

async function untilOutput(stage: string, needle: string): Promise<void> {
  while (!(await outputOf(stage)).includes(needle)) await sleep(5);
}

function onHost(): Record<string, string> {
  return Object.fromEntries(readdirSync(host).map((name) => [name, readFileSync(join(host, name), 'utf8')]));
}

describe('stages that share a VM and its writable mount', () => {
  test('write at the same time, and lose no changes of each other', async () => {
    const deps = worker();
    const one = run(deps, 'one', ['write-slowly', 'a']);
    await untilOutput('one', 'begun');
    const two = run(deps, 'two', ['write', 'b', 'b of two']);
    expect((await two).outcome).toBe('succeeded');
    // The first stage is in the middle: the copy of the second stage contains its files so far.
    expect(onHost()).toEqual({ a: 'half', b: 'b of two' });
    gates.add('a');
    expect((await one).outcome).toBe('succeeded');
    expect(await outputOf('one')).toBe('begun, half');
    expect(onHost()).toEqual({ a: 'whole', b: 'b of two' });
  });

  test('keep the folder for a stage that reads for long, and do not see later changes of the host', async () => {
    const deps = worker();
    const one = run(deps, 'one', ['read-twice']);
    await untilOutput('one', ', ');
    writeFileSync(join(host, 'a'), 'edited');
    expect((await run(deps, 'two', ['write', 'b', 'b'])).outcome).toBe('succeeded');
    gates.add('reader');
    expect((await one).outcome).toBe('succeeded');
    expect(await outputOf('one')).toBe('a of the host, a of the host');
    expect(onHost()).toEqual({ a: 'edited', b: 'b' });
  });

  test('continue with the files of an earlier stage, also of a failed one, which copies nothing back itself', async () => {
    const deps = worker();
    expect((await run(deps, 'one', ['write-and-fail'])).outcome).toBe('failed');
    expect(onHost()).toEqual({ a: 'a of the host' });
    // A retry by the author is another command in the same VM.
    expect((await run(deps, 'one', ['write', 'a', 'of the retry'], { execKey: 'one/0/2', attempt: 2 })).outcome).toBe(
      'succeeded',
    );
    expect(await outputOf('one')).toBe('of a failed stage');
    expect(onHost()).toEqual({ a: 'of the retry', made: 'by a failed stage' });
  });

  test('fail with the path if the host changed the same entry, and copy nothing else', async () => {
    const deps = worker();
    const one = run(deps, 'one', ['write-slowly', 'a']);
    await untilOutput('one', 'begun');
    writeFileSync(join(host, 'a'), 'edited meanwhile');
    gates.add('a');
    expect(await one).toMatchObject({
      outcome: 'failed',
      failure: {
        code: 'stage/mount-conflict',
        message: expect.stringMatching(/^\/data is not copied back to .*: a also changed on the host/) as string,
      },
    });
    expect(onHost()).toEqual({ a: 'edited meanwhile' });
  });
});

test('a stage that writes to `.git` succeeds, the host keeps its files, and a notice names them', async () => {
  mkdirSync(join(host, '.git'));
  writeFileSync(join(host, '.git', 'config'), 'of the user');
  expect((await run(worker(), 'one', ['write', '.git/config', 'of the guest'])).outcome).toBe('succeeded');
  expect(readFileSync(join(host, '.git', 'config'), 'utf8')).toBe('of the user');
  const notices: string[] = [];
  for await (const { body } of stores.reader.read(RUN, 0)) if (body.type === 'notice') notices.push(body.message);
  expect(notices).toEqual([
    'the mount /data of stage one is copied back without .git/config: git could run programs that these files name. `git: writable` at the mount copies them, too',
  ]);
});

test('VMs with the same folder copy it back one after the other, so that each sees the changes of the other', async () => {
  const { mounts } = worker();
  let copying = 0;
  let mostAtOnce = 0;
  const watched: ActivityDeps['mounts'] = {
    ...mounts,
    async copyBack(...args) {
      copying += 1;
      mostAtOnce = Math.max(mostAtOnce, copying);
      // Long enough for the other VM to reach this point.
      await sleep(300);
      const copied = await mounts.copyBack(...args);
      copying -= 1;
      return copied;
    },
  };
  const deps = worker({ mounts: watched });
  const elsewhere = { id: 'other', stages: ['two'], sandbox: sandboxPlan() };
  const other = {
    scope: elsewhere,
    lease: { vmKey: `${RUN}/other/0` },
    stage: plainStage('two', 'other', ['write', 'b', 'of two']),
  };
  // Both VMs begin with the original folder.
  const one = run(deps, 'one', ['write-slowly', 'b']);
  await untilOutput('one', 'begun');
  const two = run(deps, 'two', ['write', 'b', 'of two'], other);
  await untilOutput('two', 'no b');
  gates.add('b');
  const results = await Promise.all([one, two]);
  expect(mostAtOnce).toBe(1);
  expect(results.map(({ failure }) => failure?.code ?? 'copied').toSorted()).toEqual([
    'copied',
    'stage/mount-conflict',
  ]);
});

describe('a VM that is lost', () => {
  test('is replaced by a VM that starts from the same folder', async () => {
    const deps = worker();
    expect((await run(deps, 'one', ['write', 'a', 'of the lost VM'])).outcome).toBe('succeeded');
    expect(onHost()).toEqual({ a: 'of the lost VM' });
    backend.lose({ runId: RUN, scope: 'shared', instance: [], generation: 0 });
    await expect(run(deps, 'two', ['write', 'a', 'x'])).rejects.toMatchObject({ type: 'vm/lost' });
    const again = { generation: 1, execKey: 'one/0/2', attempt: 2 };
    expect((await run(worker(), 'one', ['write', 'a', 'of the second VM'], again)).outcome).toBe('succeeded');
    expect(await outputOf('one')).toBe('a of the hosta of the host');
    expect(onHost()).toEqual({ a: 'of the second VM' });
  });
});

test('a VM whose key had a VM that the host has forgotten gets the folder too', async () => {
  const deps = worker();
  expect((await run(deps, 'one', ['write', 'a', 'of the lost VM'])).outcome).toBe('succeeded');
  backend.lose({ runId: RUN, scope: 'shared', instance: [], generation: 0 });
  nowMs += REMEMBERED_MS + 1;
  // The host forgets the VM, and the run is reset to a point before the loss.
  await backend.release({ runId: RUN, scope: 'other', instance: [], generation: 0 });
  expect((await run(deps, 'two', ['write', 'b', 'b'])).outcome).toBe('succeeded');
  expect(onHost()).toEqual({ a: 'a of the host', b: 'b' });
  // The mark counts for the VM that the worker finds.
  expect((await run(worker(), 'three', ['write', 'c', 'c'])).outcome).toBe('succeeded');
  expect(onHost()).toEqual({ a: 'a of the host', b: 'b', c: 'c' });
});

describe('a worker that dies', () => {
  const dies = new CodedError('store/io', 'the process is gone');

  test('between the copy back and the result: its successor copies again, and does not treat the first copy as an edit', async () => {
    const dying: EventLog = {
      ...events,
      append: (runId, added, writer) =>
        added.some(({ body }) => body.type === 'stage-finished')
          ? Promise.reject(dies)
          : events.append(runId, added, writer),
    };
    await expect(run(worker({ events: dying }), 'one', ['write', 'a', 'new'])).rejects.toMatchObject({
      type: 'store/io',
    });
    expect(onHost()).toEqual({ a: 'new' });
    expect((await run(worker(), 'one', ['write', 'a', 'new'])).outcome).toBe('succeeded');
    expect(await outputOf('one')).toBe('a of the host');
    expect(onHost()).toEqual({ a: 'new' });
  });

  test('while it puts the folder in: its successor starts again', async () => {
    const halfway: SandboxBackend = {
      ...backend,
      launch: async (...args) => {
        const sandbox = await backend.launch(...args);
        const putTar: Sandbox['putTar'] = async (path) => {
          await sandbox.writeFile(
            `${path}/a`,
            4,
            (async function* () {
              yield Buffer.from('half');
            })(),
            new AbortController().signal,
          );
          throw dies;
        };
        return { ...sandbox, putTar };
      },
    };
    await expect(run(worker({ backendFor: () => halfway }), 'one', ['write', 'a', 'new'])).rejects.toMatchObject({
      type: 'store/io',
    });
    expect((await run(worker(), 'one', ['write', 'a', 'new'])).outcome).toBe('succeeded');
    expect(await outputOf('one')).toBe('a of the host');
  });

  test('and whose build put the folder in for each command: the files in its VM are not overwritten', async () => {
    const vm = await backend.launch(
      { runId: RUN, scope: 'shared', instance: [], generation: 0 },
      sandboxPlan(),
      new AbortController().signal,
    );
    await vm.exec(
      {
        key: 'earlier',
        program: 'write',
        args: ['a', 'of an earlier build'],
        env: {},
        cwd: '/',
        stdin: null,
        timeoutMs: 1_000,
        maxOutputBytes: 1_000,
      },
      new AbortController().signal,
    );
    writeFileSync(join(host, 'later'), 'put there since');
    expect((await run(worker(), 'one', ['write', 'b', 'new'])).outcome).toBe('succeeded');
    expect(onHost()).toEqual({ a: 'of an earlier build', b: 'new', later: 'put there since' });
    expect((await run(worker(), 'two', ['write', 'b', 'newer'])).outcome).toBe('succeeded');
    expect(onHost()).toEqual({ a: 'of an earlier build', b: 'newer', later: 'put there since' });
  });
});

test("the captures of a run's mounts are deleted at its end", async () => {
  const deps = worker();
  await run(deps, 'one', ['write', 'a', 'new']);
  const kept = mountsDir(join(base, 'state'), RUN);
  expect(existsSync(kept)).toBe(true);
  await finishRun(deps, {
    runId: RUN,
    outcome: { state: 'succeeded', failedStage: null, failure: null, output: null },
    merge: null,
    events: [],
  });
  expect(existsSync(kept)).toBe(false);
});
