/**
 * A command as an activity: the results of a later attempt, of a lost VM and of a foreign call. VMs are mocks, stores
 * are files.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { LOST_VM_ATTEMPTS } from '../../domain/errors/code-info.ts';
import { checkPlan } from '../../domain/language/check-plan.ts';
import { createMockBackend, type MockBackend } from '../../sandbox/mock/backend.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import { mockWorkerDeps } from '../../test/rig/runs/mock-worker.ts';
import type { CommandOutcome, CommandRequest } from '../contract-command.ts';
import type { ActivityDeps } from '../deps.ts';
import { createCommandActivities } from './run-command.ts';

let stateDir: string;
let stores: Stores;
let backend: MockBackend;
let started: number;
let losses: number;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-commands-'));
  stores = await openStores({ stateDir });
  started = 0;
  losses = 0;
  backend = createMockBackend({
    programs: {
      /** Loses its VM as often as the test sets, then prints how often it was started. */
      fragile: async ({ killed, write }) => {
        started += 1;
        if (losses === 0) {
          await write('stdout', `${started}`);
          return 0;
        }
        losses -= 1;
        for (const key of backend.alive()) loseByName(key);
        await sleep(60_000, undefined, { signal: killed });
        return 0;
      },
    },
  });
});

afterEach(async () => {
  await stores.close();
  rmSync(stateDir, { recursive: true, force: true });
});

function loseByName(name: string): void {
  const [runId = '', scope = '', generation = ''] = name.split('/');
  backend.lose({ runId, scope, instance: [], generation: Number(generation) });
}

function deps(change: Partial<ActivityDeps> = {}): ActivityDeps {
  return mockWorkerDeps({ stateDir, stores, backend }, { checkPlan, ...change });
}

interface Caller {
  readonly workflowId?: string;
  readonly runId?: string;
  readonly activityId?: string;
}

function run(request: CommandRequest, caller: Caller = {}, its = deps()): Promise<CommandOutcome> {
  const { workflowId = 'order 42', runId = 'x', activityId = '7' } = caller;
  const environment = new MockActivityEnvironment(
    { workflowExecution: { workflowId, runId }, activityId },
    { logger: new DefaultLogger('ERROR', () => undefined) },
  );
  return environment.run(() => createCommandActivities(its).runCommand(request));
}

async function typesIn(runId: string): Promise<readonly string[]> {
  const types: string[] = [];
  for await (const { body } of stores.reader.read(runId, 0)) types.push(body.type);
  return types;
}

test('a later attempt of the same call gets the recorded result, and no command runs again', async () => {
  const first = await run({ program: 'fragile' });
  expect(first).toMatchObject({ outcome: 'succeeded', stdout: '1' });
  expect(first.runId).toMatch(/^order-42\.fragile\.[0-9a-f]{16}$/);
  expect(await run({ program: 'fragile' }, {}, deps())).toEqual(first);
  expect(started).toBe(1);
});

test.each<[string, Caller]>([
  ['activity', { activityId: '8' }],
  ['execution', { runId: 'y' }],
  ['workflow', { workflowId: 'order-42' }],
])('another %s is another command', async (_what, other) => {
  const first = await run({ program: 'fragile' });
  const second = await run({ program: 'fragile' }, other);
  expect(second.runId).not.toBe(first.runId);
  expect(second.stdout).toBe('2');
});

test(`a command gets another VM after a loss, ${LOST_VM_ATTEMPTS} times`, async () => {
  losses = LOST_VM_ATTEMPTS;
  const { runId, ...outcome } = await run({ program: 'fragile' });
  expect(outcome).toMatchObject({ outcome: 'succeeded', stdout: `${LOST_VM_ATTEMPTS + 1}` });
  expect((await typesIn(runId)).filter((type) => type === 'vm-lost')).toHaveLength(LOST_VM_ATTEMPTS);
  expect(backend.alive()).toEqual([]);
});

test('one more loss fails the command, and its run records the failure', async () => {
  losses = LOST_VM_ATTEMPTS + 1;
  const message = `the VM was lost ${LOST_VM_ATTEMPTS + 1} times`;
  await expect(run({ program: 'fragile' })).rejects.toMatchObject({
    type: 'vm/lost',
    nonRetryable: true,
    message: expect.stringContaining(message),
  });
  const [runId = ''] = await stores.index.idsFrom('order-42.');
  const end = await stores.events.find(runId, 'run/finished');
  expect(end?.body).toMatchObject({ outcome: { state: 'failed', failure: { code: 'vm/lost' } } });
  // The next call, as after an operator's reset, finds the end.
  await expect(run({ program: 'fragile' })).rejects.toMatchObject({ type: 'run/ended' });
  expect(started).toBe(LOST_VM_ATTEMPTS + 1);
});

test('the place of a command is its host, and running it there is the same run', async () => {
  const environment = new MockActivityEnvironment(
    { workflowExecution: { workflowId: 'order 42', runId: 'x' }, activityId: '3' },
    { logger: new DefaultLogger('ERROR', () => undefined) },
  );
  const place = (request: unknown): Promise<unknown> =>
    environment.run(() => createCommandActivities(deps()).placeCommand(request as never));
  const placed = await place({ program: 'fragile', activityId: '7' });
  expect(placed).toEqual({ runId: expect.stringMatching(/^order-42\.fragile\./), taskQueue: 'voidbox-host:h' });
  expect((await run({ program: 'fragile' })).runId).toBe((placed as CommandOutcome).runId);
  await expect(place({ program: 'fragile', activityId: 7 })).rejects.toMatchObject({ type: 'call/refused' });
});

test('an output is read where its run is, by its ref', async () => {
  const text = 'é'.repeat(1_500);
  const { runId, output } = await run({ program: 'cat', stdin: text });
  const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
  const read = (request: unknown, its = deps()): Promise<unknown> =>
    environment.run(() => createCommandActivities(its).readOutput(request as never));
  expect(await read({ runId, output })).toEqual({ text: 'é'.repeat(1_024), isCut: true });
  const other = deps({ placement: { hostId: 'other', hostQueue: 'voidbox-host:other' } });
  const elsewhere = { type: 'host/elsewhere', nonRetryable: false };
  await expect(read({ runId, output }, other)).rejects.toMatchObject(elsewhere);
  await expect(read({ runId: 'none', output })).rejects.toMatchObject(elsewhere);
  for (const request of [null, { runId: 5, output }, { runId, output: { sha256: '../x' } }])
    await expect(read(request)).rejects.toMatchObject({ type: 'call/refused', nonRetryable: true });
});

test('a secret gets the value that the worker lends, and is redacted', async () => {
  const its = deps({ lentVariables: { read: () => Promise.resolve({ TOKEN: 'hunter-hunter', OTHER: 'x' }) } });
  const printed = await run({ program: 'env', secrets: ['TOKEN'], env: { PLAIN: 'text' } }, {}, its);
  expect(printed.stdout).toContain('PLAIN=text\n');
  expect(printed.stdout).toMatch(/^TOKEN=\S+$/m);
  expect(printed.stdout).not.toMatch(/hunter|OTHER/);
  await expect(run({ program: 'env', secrets: ['TOKEN'] }, { activityId: '8' })).rejects.toMatchObject({
    type: 'host/variable-missing',
    nonRetryable: true,
  });
  expect(await stores.index.idsFrom('order')).toEqual([printed.runId]);
});

test.each<[string, unknown, string]>([
  ['a text for `secrets`', { program: 'a', secrets: 'TOKEN' }, '`secrets` must be a list, it is "TOKEN"'],
  ['no object', 'echo', 'the argument must be an object, it is "echo"'],
  ['no program', {}, '`program` must be a string, it is nothing'],
  ['a list for `env`', { program: 'a', env: ['X'] }, '`env` must be an object'],
  ['a number in `env`', { program: 'a', env: { X: 1 } }, '`env.X` must be a string, it is 1'],
  [
    'a misspelt key',
    { program: 'a', sandbox: { memory_mb: 5 } },
    '`sandbox` has the key "memory_mb", known ones are mode',
  ],
  [
    'a mount without a guest',
    { program: 'a', sandbox: { mounts: [{ host: '/x' }] } },
    '`sandbox.mounts[0].guest` must be',
  ],
  ['a name with a space', { program: 'a', name: 'a b' }, 'letters, digits'],
  ['a timeout of none', { program: 'a', timeoutMs: 0 }, 'timeoutMs'],
  ['an unknown mode', { program: 'a', sandbox: { mode: 'docker' } }, 'mode'],
])('%s is refused and leaves nothing', async (_what, request, words) => {
  await expect(run(request as CommandRequest)).rejects.toMatchObject({
    type: 'admit/invalid',
    nonRetryable: true,
    message: expect.stringContaining(words),
  });
  expect(await stores.index.idsFrom('order')).toEqual([]);
});

test('standard input has at most 256 KiB', async () => {
  const most = 'x'.repeat(256 * 1024);
  expect(await run({ program: 'cat', stdin: most })).toMatchObject({
    output: { sizeBytes: 262_144 },
    isStdoutCut: true,
  });
  await expect(run({ program: 'cat', stdin: `${most}x` }, { activityId: '8' })).rejects.toMatchObject({
    type: 'run/too-large',
  });
});
