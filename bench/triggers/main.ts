/**
 * `npm run bench:triggers [figure …] [--rounds N] [--no-write]`: figures of events that start runs, each printed and
 * written to docs/reference/benchmarks-triggers.md when it is taken.
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { openAccessStore } from '../../app/access/open-access-store.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { readEnvironment } from '../../setup/environment.ts';
import type { AccessStore } from '../../store/access.ts';
import { interleave, measurePairedRatio, processCpuMs, spread } from '../measure.ts';
import type { Figure } from '../report.ts';
import { type Bench, runFigures } from '../command/run-figures.ts';
import { startNode } from '../servers.ts';
import { AT_ONCE, ACCEPTED, createAcceptArm, createInsertArm } from './accept.ts';
import { EVENTS, sendBurst } from './burst.ts';
import { FILES, measureFolder } from './folder.ts';
import { createBareStartArm, createWebhookArm } from './first-event.ts';
import { startTriggerStack, type TriggerStack } from './stack.ts';
import { createSender, type Sender } from './webhook.ts';

const FIGURES: Readonly<Record<string, (bench: Bench) => Promise<Figure>>> = {
  'first-event': (bench) => withStack(bench, 'first-event', measureFirstEvent),
  accept: (bench) => withStack(bench, 'accept', measureAcceptance),
  burst: (bench) => withStack(bench, 'burst', measureBurst),
  idle: (bench) => withStack(bench, 'idle', measureIdle),
  folder: (bench) => withStack(bench, 'folder', measureWatched),
};

const IDLE_DEPLOYMENTS = 1_000;
const SETTLE_MS = 15_000;
const IDLE_MS = 60_000;
const LISTS = 5;
const SCHEDULES_LIMIT_MS = 5 * 60_000;

interface Opened extends Bench {
  readonly stack: TriggerStack;
  readonly sender: Sender;
}

async function withStack(bench: Bench, name: string, measure: (opened: Opened) => Promise<Figure>): Promise<Figure> {
  await using stack = await startTriggerStack(bench.workDir, name);
  const sender = createSender(stack, AT_ONCE);
  try {
    return await measure({ ...bench, stack, sender });
  } finally {
    sender.close();
  }
}

async function withAccess<T>({ stack }: Opened, use: (access: AccessStore) => Promise<T>): Promise<T> {
  const env = { ...readEnvironment(), stateDir: stack.stateDir };
  const access = await openAccessStore(env, { install: false, warn: () => undefined });
  try {
    return await use(access);
  } finally {
    await access.close();
  }
}

async function measureFirstEvent({ stack, sender, rounds, say }: Opened): Promise<Figure> {
  const dist = join(findPackageRoot(), 'dist', 'bench');
  const worker = [join(dist, 'bare-worker.js'), stack.address, join(dist, 'bare-workflow.js')];
  await using _bare = await startNode(worker, readEnvironment().variables, /ready/);
  const connection = await Connection.connect({ address: stack.address });
  try {
    const arms = [createWebhookArm(stack, sender), createBareStartArm(new Client({ connection }))];
    // The first start compiles the version, and loads what compiles.
    for (const arm of arms) await arm.round();
    const [webhook, bare] = await interleave(arms, rounds, say);
    const ratio = measurePairedRatio(webhook!, bare!, 'p95Ms').median;
    return {
      title: 'From a webhook to the first event',
      method:
        'The embedded stack. A webhook with a signature of GitHub starts a run with one stage and no VM; the first event of the run is that it was admitted. The bare workflow is on the same server, with a worker of its own. 40 starts a round, one after the other, of which 95 of 100 are faster.',
      rows: [webhook!, bare!].map((result) => ({
        what: result.name,
        value: spread(result.rounds.map(({ p95Ms }) => p95Ms)),
        unit: 'ms',
      })),
      goals: [{ what: 'a webhook against the bare workflow, paired', value: ratio, goal: '≤ 1.5', met: ratio <= 1.5 }],
    };
  } finally {
    await connection.close();
  }
}

async function measureAcceptance({ stack, sender, rounds, say }: Opened): Promise<Figure> {
  const insert = await createInsertArm(stack);
  try {
    const arms = [createAcceptArm(sender), insert];
    for (const arm of arms) await arm.round();
    const [accepted, inserted] = await interleave(arms, rounds, say);
    const ratio = measurePairedRatio(accepted!, inserted!, 'aSecond').median;
    return {
      title: 'Accepted deliveries',
      method: `${ACCEPTED} webhooks a round with payloads of 1 KiB, ${AT_ONCE} at once. Each is accepted when its row is committed; a condition then filters it, so that no run starts. The client inserts as many rows into the same database, with as many connections.`,
      rows: [accepted!, inserted!].map((result) => ({
        what: result.name,
        value: spread(result.rounds.map(({ aSecond }) => aSecond)),
        unit: 'a second',
      })),
      goals: [{ what: 'deliveries against rows, paired', value: ratio, goal: '≥ 0.5', met: ratio >= 0.5 }],
    };
  } finally {
    await insert.close();
  }
}

async function measureBurst(opened: Opened): Promise<Figure> {
  const { stack, sender } = opened;
  const burst = await withAccess(opened, async ({ triggers }) => await sendBurst(stack, triggers, sender));
  const growth = burst.endMib / burst.quarterMib;
  const makeRow = (what: string, value: number, unit: string) => ({ what, value: spread([value]), unit });
  return {
    title: 'A burst',
    method: `${EVENTS} webhooks with the key of an order, ${AT_ONCE} at once, each with a run of one stage without a VM. Taken once.`,
    rows: [
      makeRow('until all are accepted', burst.acceptSecs, 's'),
      makeRow('until all runs have started', burst.startSecs, 's'),
      makeRow('memory of the service after a quarter of the starts', burst.quarterMib, 'MiB'),
      makeRow('memory of the service at the end', burst.endMib, 'MiB'),
    ],
    goals: [
      { what: 'events without exactly one run', value: burst.lost, goal: '0', met: burst.lost === 0 },
      {
        what: 'runs before an earlier one of their key',
        value: burst.disordered,
        goal: '0',
        met: burst.disordered === 0,
      },
      { what: 'memory at the end against a quarter', value: growth, goal: '≤ 1.2', met: growth <= 1.2 },
    ],
  };
}

async function measureIdle(opened: Opened): Promise<Figure> {
  const { stack, say } = opened;
  await withAccess(opened, async ({ triggers: { deployments } }) => {
    const version = (await deployments.findVersion('bench', 1))!;
    // No two versions have the same folder.
    for (let count = 1; count < IDLE_DEPLOYMENTS; count += 1) {
      const folder = randomBytes(version.folder.length / 2).toString('hex');
      await deployments.deploy({ ...version, folder, deployment: `idle-${count}` }, { isPaused: false });
    }
  });
  // The service learns of a deployment that the bench has made itself by the change of another one.
  await stack.run(['deployment', 'pause', 'bench']);
  await stack.run(['deployment', 'resume', 'bench']);
  await awaitSchedules(stack.address);
  await sleep(SETTLE_MS);
  const read = (): readonly [number, number] => [processCpuMs(stack.servicePid), stack.readPostgresCpuMs()];
  const before = read();
  await sleep(IDLE_MS);
  const [service, postgres] = read().map((cpuMs, at) => ((cpuMs - before[at]!) * 100) / IDLE_MS) as [number, number];
  say(`  service ${service.toFixed(2)} %, database ${postgres.toFixed(2)} %`);
  const total = service + postgres;
  const lists: number[] = [];
  for (let count = 0; count < LISTS; count += 1) {
    const beganMs = performance.now();
    await stack.run(['schedule', 'list']);
    lists.push((performance.now() - beganMs) / 1_000);
  }
  const list = spread(lists);
  return {
    title: 'An idle service',
    method: `${IDLE_DEPLOYMENTS} deployments with three webhooks and a schedule each, and no event for ${IDLE_MS / 1_000} s. The list is a process of the command line, from its start to its end.`,
    rows: [
      { what: 'CPU of the service', value: spread([service]), unit: '% of a core' },
      { what: 'CPU of all processes of the database', value: spread([postgres]), unit: '% of a core' },
      { what: `\`voidbox schedule list\` of all ${IDLE_DEPLOYMENTS}`, value: list, unit: 's' },
    ],
    goals: [
      { what: 'service and database, in % of a core', value: total, goal: '≤ 1', met: total <= 1 },
      { what: 'the list', value: list.median, goal: '≤ 2 s', met: list.median <= 2 },
    ],
  };
}

async function measureWatched({ stack, workDir, say }: Opened): Promise<Figure> {
  const found = await measureFolder(stack, workDir, say);
  const makeRow = (what: string, value: number, unit: string) => ({ what, value: spread([value]), unit });
  return {
    title: 'A large folder',
    method: `A trigger watches a folder with ${FILES} files that were there before it, and scans it every 10 s. Later one file is added. Taken once.`,
    rows: [
      makeRow('from `deploy` until each file is known', found.firstSecs, 's'),
      makeRow('CPU of the service until then', found.firstServiceCpuSecs, 's'),
      makeRow('CPU of the database until then', found.firstDatabaseCpuSecs, 's'),
      makeRow('memory of the service before', found.beforeMib, 'MiB'),
      makeRow('the most memory of the service', found.peakMib, 'MiB'),
      makeRow('CPU of both without a change', found.idlePercent, '% of a core'),
      makeRow('from a new file to its delivery', found.newFileSecs, 's'),
    ],
    goals: [],
  };
}

/** @throws Error if the server has less schedules after a time */
async function awaitSchedules(address: string): Promise<void> {
  const connection = await Connection.connect({ address });
  try {
    const client = new Client({ connection });
    const endAtMs = Date.now() + SCHEDULES_LIMIT_MS;
    for (;;) {
      let count = 0;
      for await (const _schedule of client.schedule.list()) count += 1;
      if (count >= IDLE_DEPLOYMENTS) return;
      if (Date.now() > endAtMs) throw new Error(`the server has ${count} schedules after ${SCHEDULES_LIMIT_MS} ms`);
      await sleep(1_000);
    }
  } finally {
    await connection.close();
  }
}

await runFigures({
  command: 'bench:triggers',
  title: 'Benchmarks of triggers',
  page: 'benchmarks-triggers.md',
  figures: FIGURES,
  describeFacts: (rounds) => [
    `The embedded stack as processes of this machine; ${rounds} rounds, but the burst, the idle service and the folder once.`,
  ],
  prepare: (bench) => Promise.resolve(bench),
});
