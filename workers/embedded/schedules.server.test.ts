/** Temporal Schedules on the embedded stack of the command line: which commands name them, when the stack ends, and which missed actions run. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client, ScheduleOptions } from '@temporalio/client';
import { expect, test } from 'vitest';
import { buildId } from '../../client/embedded/build-id.ts';
import { keepListenRecord, type ListenRecord } from '../../client/embedded/listen-file.ts';
import type { HoldingSchedules } from '../../client/embedded/schedules.ts';
import { stackLockFile, type StackInfo } from '../../client/embedded/stack-info.ts';
import { connectRuns } from '../../client/temporal/connect.ts';
import { createEmbeddedAddress } from '../../client/temporal/temporal-address.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { resolveStackPieces } from '../../setup/resolve.ts';
import { Rig, until } from '../../test/e2e/rig.ts';
import { napSpec } from '../../test/rig/runs/sleeping-run.ts';

const IDLE_LIMIT_MS = 1_000;
const LISTENING: ListenRecord = {
  listen: [{ host: '127.0.0.1', port: 0 }],
  publicUrl: null,
  tls: null,
  behindProxy: false,
  specRoot: null,
};
/** No worker polls it, and the workflow ends after a second. */
const NOTHING = {
  type: 'startWorkflow',
  workflowType: 'none',
  taskQueue: 'none',
  args: [],
  workflowExecutionTimeout: '1s',
} as const;

async function up(rig: Rig): Promise<StackInfo> {
  const { code, stdout, stderr } = await rig.cli('up', '--json');
  if (code !== 0) throw new Error(stderr);
  return (JSON.parse(stdout) as { stack: StackInfo }).stack;
}

async function withClient<T>(
  { address }: { readonly address: string },
  use: (client: Client) => Promise<T>,
): Promise<T> {
  const runs = await connectRuns(createEmbeddedAddress(address));
  try {
    return await use(runs.client);
  } finally {
    await runs.close();
  }
}

const create = (client: Client, scheduleId: string, options: Omit<ScheduleOptions, 'scheduleId' | 'action'>) =>
  client.schedule.create({ scheduleId, action: NOTHING, ...options });

/** The server lists a schedule a moment after its creation. */
async function listed({ schedule }: Client): Promise<readonly string[]> {
  const ids: string[] = [];
  for await (const { scheduleId } of schedule.list()) ids.push(scheduleId);
  return ids.toSorted();
}

async function schedulesOf(rig: Rig, command: string): Promise<HoldingSchedules | null> {
  const { stdout } = await rig.cli(command, '--json');
  return (JSON.parse(stdout) as { schedules: HoldingSchedules | null }).schedules;
}

/** Starts a stack as a command does, with another limit. */
async function startShortLived(rig: Rig): Promise<ChildProcess> {
  const env = readEnvironment(rig.env);
  const pieces = await resolveStackPieces(env, { install: false });
  const values = {
    'state-dir': rig.stateDir,
    'cache-dir': env.cacheDir,
    build: buildId(findPackageRoot()),
    pieces: JSON.stringify(pieces),
    'idle-limit-ms': String(IDLE_LIMIT_MS),
  };
  const supervisor = join(findPackageRoot(), 'dist/workers/embedded/supervisor.js');
  const options = Object.entries(values).flatMap(([name, value]) => [`--${name}`, value]);
  const command = ['lock', '--file', stackLockFile(rig.stateDir), '--', process.execPath, supervisor, ...options];
  const child = spawn(pieces.keeper, command, { env: rig.env, detached: true, stdio: 'ignore' });
  child.unref();
  return child;
}

async function endOf(rig: Rig, supervisor: ChildProcess): Promise<void> {
  await until('the idle stack to end', 90_000, () => supervisor.exitCode !== null);
  expect(readFileSync(join(rig.stateDir, 'logs/supervisor.log'), 'utf8')).toContain(
    'no open run and no schedule for 1 s',
  );
}

// Side by side: both mostly wait.
test.concurrent(
  'a schedule or a listener keeps an idle stack up, and `up`, `ps` and `down` name it; paused and exhausted ones do not',
  { timeout: 300_000 },
  async ({ expect }) => {
    await using held = new Rig();
    await using other = new Rig();
    await withClient(await up(held), async (client) => {
      await create(client, 'nightly', { spec: { intervals: [{ every: '1d' }] } });
    });
    await withClient(await up(other), async (client) => {
      await create(client, 'paused', { spec: { intervals: [{ every: '1d' }] }, state: { paused: true } });
      await create(client, 'exhausted', { spec: { intervals: [{ every: '1s' }] }, state: { remainingActions: 1 } });
      const { schedule } = client;
      const taken = async () => (await schedule.getHandle('exhausted').describe()).info.numActionsTaken;
      await expect.poll(taken, { timeout: 30_000 }).toBe(1);
      await expect.poll(() => listed(client), { timeout: 30_000 }).toEqual(['exhausted', 'paused']);
    });
    await expect.poll(() => schedulesOf(held, 'ps'), { timeout: 30_000 }).toMatchObject({ count: 1 });
    await expect.poll(() => schedulesOf(other, 'ps'), { timeout: 30_000 }).toMatchObject({ count: 0 });

    const named = { count: 1, isComplete: true, next: [{ id: 'nightly', nextAtMs: expect.any(Number) as number }] };
    expect(await schedulesOf(held, 'up')).toEqual(named);
    for (const command of ['up', 'ps'])
      expect((await held.cli(command)).stdout).toMatch(
        /^schedules {3}1 Temporal Schedule keeps the stack up: nightly \(next .*T00:00:00Z, in .*\)$/m,
      );
    expect((await held.cli('down')).stdout).toMatch(
      /^warning: 1 Temporal Schedule will not run while the stack is down: nightly \(next .*T00:00:00Z, in .*\)$/m,
    );
    for (const command of ['up', 'ps', 'down'])
      expect((await other.cli(command)).stdout).not.toMatch(/^(schedules|warning)/m);

    const stays = await startShortLived(held);
    await held.liveStack(90_000);
    await using listening = new Rig();
    keepListenRecord(listening.stateDir, LISTENING);
    const listens = await startShortLived(listening);
    await listening.liveStack(90_000);
    expect(await schedulesOf(held, 'ps')).toEqual(named);
    // It starts later, and so it is idle for less time than the one that stays.
    await endOf(other, await startShortLived(other));
    expect([stays.exitCode, listens.exitCode]).toEqual([null, null]);
    expect((await listening.cli('up', '--no-listen')).code).toBe(0);
    await endOf(listening, listens);
    await withClient(await held.liveStack(), (client) => client.schedule.getHandle('nightly').pause());
    await endOf(held, stays);
  },
);

const SHORT_WINDOW_MS = 10_000;
const BETWEEN_MS = 3_000;
const COUNT = 3;

test.concurrent(
  'a stack that starts again runs the missed actions of the catch-up window, and with `Skip` one of those that come together',
  { timeout: 300_000 },
  async ({ expect }) => {
    await using rig = new Rig();
    const stack = await up(rig);
    const firstMs = Math.ceil((Date.now() + 45_000) / BETWEEN_MS) * BETWEEN_MS;
    const times = Array.from({ length: COUNT }, (_, n) => new Date(firstMs + n * BETWEEN_MS));
    const spec = {
      intervals: [{ every: BETWEEN_MS }],
      startAt: times[0]!,
      endAt: new Date(firstMs + (COUNT - 0.5) * BETWEEN_MS),
    };
    await withClient(stack, async (client) => {
      await create(client, 'all', { spec, policies: { overlap: 'ALLOW_ALL' } });
      await create(client, 'short', { spec, policies: { overlap: 'ALLOW_ALL', catchupWindow: SHORT_WINDOW_MS } });
      const run = { workflowType: 'voidboxRun', taskQueue: 'voidbox', args: [{ spec: napSpec(0) }] };
      await client.schedule.create({
        scheduleId: 'skip',
        spec,
        action: { type: 'startWorkflow', workflowId: 'skip', ...run },
      });
    });
    expect((await rig.cli('down')).stdout).toContain('3 Temporal Schedules will not run while the stack is down');
    expect(Date.now(), 'the stack was stopped too late for this test').toBeLessThan(firstMs);
    await sleep(times.at(-1)!.getTime() + SHORT_WINDOW_MS + 1_000 - Date.now());

    const nameOf = (id: string, time: Date): string => `${id}-${time.toISOString().replace('.000', '')}`;
    await withClient(await up(rig), async (client) => {
      const started = async (scheduleId: string): Promise<readonly string[]> => {
        const ids: string[] = [];
        const query = `TemporalScheduledById = '${scheduleId}'`;
        for await (const { workflowId } of client.workflow.list({ query })) ids.push(workflowId);
        return ids.toSorted();
      };
      const infoOf = async (id: string) => (await client.schedule.getHandle(id).describe()).info;
      await expect
        .poll(() => started('all'), { timeout: 30_000 })
        .toEqual(times.map((time) => expect.stringContaining(nameOf('', time)) as string));
      await expect.poll(() => started('skip'), { timeout: 30_000 }).toEqual([nameOf('skip', times[0]!)]);
      expect(await infoOf('skip')).toMatchObject({ numActionsTaken: 1, numActionsSkippedOverlap: COUNT - 1 });
      await expect
        .poll(() => infoOf('short'), { timeout: 30_000 })
        .toMatchObject({ numActionsTaken: 0, numActionsMissedCatchupWindow: COUNT });
      const { policies } = await client.schedule.getHandle('all').describe();
      expect(policies.catchupWindow).toBe(365 * 24 * 3_600_000);
    });
    const run = nameOf('skip', times[0]!);
    expect((await rig.finish(run)).outcome.state).toBe('succeeded');
    expect((await rig.cli('status', run)).stdout).toContain('succeeded');
  },
);
