/** A worker process: its host, its sessions and its Workers around one Temporal connection. */
import type { CpuTemplate, SnapshotFolder } from '../native/index.ts';
import { join } from 'node:path';
import type { LentVariables } from '../activities/ports/lent-variables.ts';
import type { SessionActivities } from '../activities/contract-session.ts';
import { createScheduleActivities } from '../activities/schedules/send-time.ts';
import { createSessionActivities } from '../activities/session/step-session.ts';
import type { WarmCount } from '../domain/plan/warm-shape.ts';
import type { Durability } from '../setup/environment.ts';
import type { FindRootDisk, FindVmExtra } from '../sandbox/micro-vm/backend.ts';
import type { HostPieces } from '../setup/pieces/host-pieces.ts';
import { findPackageRoot } from '../setup/package-root.ts';
import { hostTaskQueue, RUN_TASK_QUEUE, SESSION_TASK_QUEUE, SESSION_WORKFLOW_TYPE } from '../workflows/messages.ts';
import { findBuiltBundle, bundleWorkflows } from './bundle.ts';
import { connectWhenUp, type RunsConnection } from '../client/temporal/connect.ts';
import { sendTime } from '../client/schedules/send-time.ts';
import { isRunning, workflowRun } from '../client/temporal/workflow-run.ts';
import { type Host, type HostOptions, openHost } from './host/host.ts';
import { hostId as readHostId } from './host/host-id.ts';
import { watchDisk } from './host/disk-watch.ts';
import type { Log } from './log.ts';
import { createHostSandboxes } from './host/sandboxes.ts';
import { openSessionStores, openSessionVariables, type SessionStores } from '../store/open-session-stores.ts';
import { openLocalStore } from '../store/open-stores.ts';
import { keepStateFormat } from '../store/state-format.ts';
import type { RunningSkillHost } from './skills/skill-host.ts';
import { createStageSessions } from './skills/stage-sessions.ts';
import { startVariableSweep } from './skills/variable-sweep.ts';
import { serverIdOf, type TemporalAddress } from '../client/temporal/temporal-address.ts';
import { ensureRetention } from './embedded/retention.ts';
import { rejectOnStop } from './stop-signals.ts';
import { installRuntime, type RunningWorkers, startWorkers } from './workers.ts';

/** The time in which the worker waits for a server that starts at the same time, or comes back. */
const SERVER_LIMIT_MS = 60_000;

export interface WorkerProcessOptions {
  readonly target: TemporalAddress;
  readonly stateDir: string;
  /** The `voidbox-vm` binary. */
  readonly keeper: string;
  /** Asked for when the first VM is wanted. @throws CodedError `host/not-ready` */
  readonly pieces: () => Promise<HostPieces>;
  /** Pieces that only some VMs need. @throws CodedError `host/not-ready` */
  readonly extra: FindVmExtra;
  /** Disks of images that users named. @throws CodedError `host/not-ready` */
  readonly disk: FindRootDisk;
  /** How long one boot may take; null is the sandbox's own limit. */
  readonly bootTimeoutMs: number | null;
  /** How long a VM waits while the disk is full; null is the keeper's own limit. */
  readonly diskFullLimitMs: number | null;
  /** The time that a VM lives after its last lease renewal; null: the keeper's own limit. */
  readonly orphanTimeoutMs: number | null;
  /** Snapshots of booted guests; null: each VM boots. */
  readonly snapshots: SnapshotFolder | null;
  readonly cpuTemplate: CpuTemplate;
  /** One's own machine: the spec's folder may be mounted, and the server is the state folder's. */
  readonly embedded: boolean;
  readonly durability: Durability;
  readonly allowedMountRoots: readonly string[];
  /** Repositories of the network that runs of any client may fetch, as HOST/PATH. */
  readonly allowedGit: readonly string[];
  readonly allowedServices: readonly string[];
  /** Whether runs may keep VMs of failed stages for inspection. */
  readonly allowsRetention: boolean;
  /** Whether `voidbox exec` may enter VMs of stages that run. */
  readonly allowsExec: boolean;
  /** The VMs that wait for launches. */
  readonly warm: readonly WarmCount[];
  readonly lentVariables: LentVariables;
  /** Where skills are: entries, folders of skills, or folders of those. With none, sessions are left to other workers. */
  readonly skills: readonly string[];
  /** How long callbacks of skills may take for one turn; null is the default. */
  readonly skillTurnLimitMs: number | null;
  /** For the processes of skills. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly log: Log;
  /** Ends the process's work, and its start at any moment. */
  readonly stop: AbortSignal;
  /** Called once, when the worker polls these task queues. */
  readonly onReady: (hostId: string, taskQueues: readonly string[]) => void;
}

/** Functions that end what the worker has started. */
type Ends = (() => unknown)[];

/** Works until `stop` aborts. @throws when a Worker fails, CodedError `host/state-format`, and the reason of `stop` if it aborts before the Workers poll */
export async function runWorkerProcess(options: WorkerProcessOptions): Promise<void> {
  const ends: Ends = [];
  try {
    await serve(options, ends);
  } finally {
    await endAll(ends);
  }
}

/** Ends the last one first. A failure does not stop the others from ending. */
async function endAll(ends: Ends): Promise<void> {
  const end = ends.pop();
  if (end === undefined) return;
  try {
    await end();
  } finally {
    await endAll(ends);
  }
}

async function serve(options: WorkerProcessOptions, ends: Ends): Promise<void> {
  const { target, stateDir, log, stop } = options;
  keepStateFormat(stateDir);
  installRuntime(log);
  // Next: on a full disk it makes room for what follows.
  const disk = watchDisk(openLocalStore(options), options.diskFullLimitMs, log);
  ends.push(() => disk.stop());
  const hostId = readHostId(stateDir);
  const runs = await connectWhenUp(target, SERVER_LIMIT_MS, stop);
  ends.push(() => runs.close().catch(() => undefined));
  if (options.embedded) await rejectOnStop(stop, ensureRetention(runs.connection, target.namespace, log));
  const skills = await openSkills(options);
  ends.push(() => skills?.host.close());
  const opening = openHost({ ...buildHostOptions(options, hostId, runs, skills), disk: disk.pump });
  const host = await rejectOnStop(stop, opening);
  ends.push(() => host.close());
  const sessions = skills === null ? null : bindSessionActivities(skills, runs, host);
  const bundle = findBuiltBundle() ?? {
    code: await bundleWorkflows(join(findPackageRoot(), 'dist/workflows/index.js')),
  };
  stop.throwIfAborted();
  const { activities, sharedActivities } = host;
  const schedules = createScheduleActivities({ send: async (...call) => await sendTime(stateDir, ...call) });
  const workers = await startWorkers({ target, hostId, activities, sharedActivities, schedules, sessions, bundle });
  endWorkersAtStop(workers, stop, ends);
  if (!stop.aborted) ends.push(await host.care());
  if (!stop.aborted) {
    const isOpen = (session: string): Promise<boolean> => isRunning(runs.client, session);
    const variables = openSessionVariables(options);
    ends.push(startVariableSweep({ variables, serverId: serverId(options), isOpen, log }));
    const queues = [RUN_TASK_QUEUE, hostTaskQueue(hostId), ...(sessions === null ? [] : [SESSION_TASK_QUEUE])];
    options.onReady(hostId, queues);
  }
  await workers.ended;
}

/** They poll from here on: what they take is released before anything that it uses ends. */
function endWorkersAtStop(workers: RunningWorkers, stop: AbortSignal, ends: Ends): void {
  stop.addEventListener('abort', () => workers.shutdown());
  if (stop.aborted) workers.shutdown();
  ends.push(async () => {
    workers.shutdown();
    await workers.ended.catch(() => undefined);
    await workers.close().catch(() => undefined);
  });
}

/** The meaning of the options of the process for its host. */
function buildHostOptions(
  options: WorkerProcessOptions,
  hostId: string,
  { client, connection }: RunsConnection,
  skills: OpenSkills | null,
): Omit<HostOptions, 'disk'> {
  const { stateDir, log, embedded } = options;
  return {
    client,
    connection,
    stateDir,
    hostId,
    // The embedded server has only this host. If a worker puts a task on a queue that it polls itself, the server's
    // answer contains the task (eager start), instead of a second queue.
    hostQueue: embedded ? RUN_TASK_QUEUE : hostTaskQueue(hostId),
    serverId: serverId(options),
    // The people who start runs on the embedded stack own its state folder.
    sandboxes: createHostSandboxes({ ...options, allowsExec: embedded || options.allowsExec }),
    mountPolicy: { allowedRoots: options.allowedMountRoots, allowedGit: options.allowedGit },
    starters: embedded ? 'marked' : 'any',
    // A user who may start runs there is a user of this machine, and can reach its loopback anyway.
    servicePolicy: embedded ? 'any' : options.allowedServices,
    // A user who starts runs on the embedded stack owns the machine, and its memory is what kept VMs use.
    allowsRetention: embedded || options.allowsRetention,
    durability: options.durability,
    lentVariables: options.lentVariables,
    git: {
      path: options.variables['PATH'] || '/usr/bin:/bin',
      home: options.variables['HOME'] || null,
      configHome: options.variables['XDG_CONFIG_HOME'] || null,
    },
    orphanTimeoutMs: options.orphanTimeoutMs,
    ...(skills === null ? {} : { stageSessions: createStageSessions({ client, stateDir, skills: skills.host, log }) }),
    log,
  };
}

interface OpenSkills {
  readonly host: RunningSkillHost;
  readonly stores: SessionStores;
}

/** Null: this worker has no skills. */
async function openSkills(options: WorkerProcessOptions): Promise<OpenSkills | null> {
  if (options.skills.length === 0) return null;
  const stores = openSessionStores(options, serverId(options));
  return { host: await openSkillHost(options, stores), stores };
}

function bindSessionActivities(
  { host: skills, stores: { records, opened } }: OpenSkills,
  { client }: RunsConnection,
  { deps }: Host,
): SessionActivities {
  return createSessionActivities({
    skills,
    records,
    opened,
    runOf: (workflowId, runId) => workflowRun(client, workflowId, runId),
    workflow: { type: SESSION_WORKFLOW_TYPE, taskQueue: SESSION_TASK_QUEUE },
    searchAttributes: deps.searchAttributes,
  });
}

/** @throws Error if the sessions' data is not on a disk of this host, where processes of skills need it */
async function openSkillHost(
  options: WorkerProcessOptions,
  { observed, variables: handedOver, local }: SessionStores,
): Promise<RunningSkillHost> {
  const { skills, skillTurnLimitMs, stateDir, variables, log } = options;
  if (local === null) throw new Error('step machines run only on a store whose data is on a disk of this host');
  // With the bundler of skills, which most workers never need.
  const { createSkillHost } = await import('./skills/skill-host.ts');
  return createSkillHost({
    paths: skills,
    stateDir,
    sessions: { observed, variables: handedOver, local },
    serverId: serverId(options),
    env: variables,
    ownVariables: !options.embedded,
    log,
    ...(skillTurnLimitMs === null ? {} : { turnLimitMs: skillTurnLimitMs }),
  });
}

function serverId({ embedded, target }: WorkerProcessOptions): string {
  return serverIdOf(embedded ? null : target);
}
