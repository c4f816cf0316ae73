/** Composition root of a worker: stores, sandboxes and activities around one Temporal connection. */
import { join } from 'node:path';
import { createAttemptRegistry } from '../activities/attempt-registry.ts';
import type { Placement } from '../activities/contract.ts';
import { createActivities } from '../activities/create-activities.ts';
import { ofThisHost } from '../activities/of-this-host.ts';
import type { ActivityDeps } from '../activities/deps.ts';
import type { PumpDisk } from '../activities/output-pump.ts';
import type { WritableMounts } from '../activities/ports/mounts.ts';
import { createSessionActivities } from '../activities/step-session.ts';
import { createVmPool } from '../activities/vm-pool.ts';
import type { Durability } from '../setup/environment.ts';
import type { HostPieces } from '../setup/host-pieces.ts';
import { packageRoot } from '../setup/package-root.ts';
import { readDiskRoom } from '../store/file/disk-room.ts';
import { mountsDir } from '../store/file/run-folder.ts';
import { openStores, type Stores } from '../store/open-stores.ts';
import { createWritableMounts } from '../sandbox/mounts/writable-mounts.ts';
import { hostTaskQueue, RUN_TASK_QUEUE, SESSION_TASK_QUEUE, SESSION_WORKFLOW_TYPE } from '../workflows/messages.ts';
import { builtBundle, bundleWorkflows } from './bundle.ts';
import { connectWhenUp, type RunsConnection } from '../client/connect.ts';
import { isRunning, workflowRun } from '../client/workflow-run.ts';
import { hostId as readHostId } from './host-id.ts';
import { announceResumed, cleanUp, type JanitorOptions } from './janitor.ts';
import { watchDisk } from './disk-watch.ts';
import { textOf, type Log } from './log.ts';
import { createOpenRuns, type OpenRuns } from './open-runs.ts';
import { restoreLogs } from './restore-log.ts';
import { createHostSandboxes, type HostSandboxes } from './sandboxes.ts';
import { ensureSearchAttributes } from './search-attributes.ts';
import { createOpenedFiles } from '../store/sessions/opened-files.ts';
import { createRecordFiles } from '../store/sessions/record-files.ts';
import { createSkillHost, type RunningSkillHost } from './skills/skill-host.ts';
import { startVariableSweep } from './skills/variable-sweep.ts';
import { checkPlan, compileSpec } from './spec-check.ts';
import { serverIdOf, type TemporalAddress } from '../client/temporal-address.ts';
import { leasesAtStart } from './leases-at-start.ts';
import { keepLeases, renewalIntervalMs } from './vm-leases.ts';
import { installRuntime, startWorkers } from './workers.ts';

/** A server that starts at the same time, or comes back, is waited for. */
const SERVER_LIMIT_MS = 60_000;
const CLEAN_UP_INTERVAL_MS = 20_000;

export interface WorkerProcessOptions {
  readonly target: TemporalAddress;
  readonly stateDir: string;
  /** The `voidbox-vm` binary. */
  readonly keeper: string;
  /** Asked for when the first VM is wanted. @throws CodedError `host/not-ready` */
  readonly pieces: () => Promise<HostPieces>;
  /** How long one boot may take; null is the sandbox's own limit. */
  readonly bootTimeoutMs: number | null;
  /** How long a VM waits while the disk is full; null is the keeper's own limit. */
  readonly diskFullLimitMs: number | null;
  /** How long a VM lives whose lease nobody renews; null is the keeper's own limit. */
  readonly orphanTimeoutMs: number | null;
  /** One's own machine: the spec's folder may be mounted, and the server is the state folder's. */
  readonly embedded: boolean;
  readonly durability: Durability;
  readonly allowedMountRoots: readonly string[];
  /** Where skills are: entries, folders of skills, or folders of those. With none, sessions are left to other workers. */
  readonly skills: readonly string[];
  /** How long callbacks of skills may take for one turn; null is the default. */
  readonly skillTurnLimitMs: number | null;
  /** For the processes of skills. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly log: Log;
  readonly onReady: (hostId: string) => void;
}

/** Works until SIGTERM or SIGINT; rejects when a Worker fails. */
export async function runWorkerProcess(options: WorkerProcessOptions): Promise<void> {
  const { target, stateDir, log } = options;
  installRuntime(log);
  // First: on a full disk it makes room for what follows.
  const disk = watchDisk(stateDir, options.diskFullLimitMs, log);
  const hostId = readHostId(stateDir);
  const runs = await connectWhenUp(target, SERVER_LIMIT_MS);
  const searchAttributes = await ensureSearchAttributes(runs.connection, target.namespace, log);
  const { keeper, pieces, bootTimeoutMs, diskFullLimitMs, orphanTimeoutMs } = options;
  const sandboxes = createHostSandboxes({ keeper, pieces, stateDir, bootTimeoutMs, diskFullLimitMs, orphanTimeoutMs });
  const stores = await openStores(options);
  const mounts = createWritableMounts((runId) => mountsDir(stateDir, runId));
  const openRuns = createOpenRuns({
    events: stores.events,
    index: stores.index,
    records: stores.records,
    serverId: serverId(options),
    hostId,
    log,
    onEnded: (runId) => mounts.dropRun(runId),
  });
  const deps = await composeActivities({
    options,
    hostId,
    searchAttributes,
    sandboxes,
    openRuns,
    stores,
    mounts,
    disk: disk.pump,
  });
  const skills = skillHostOf(options);
  const sessions =
    skills === null
      ? null
      : createSessionActivities({
          skills,
          records: createRecordFiles(stateDir, serverId(options)),
          opened: createOpenedFiles(stateDir, serverId(options)),
          runOf: (workflowId, runId) => workflowRun(runs.client, workflowId, runId),
          workflow: { type: SESSION_WORKFLOW_TYPE, taskQueue: SESSION_TASK_QUEUE },
          searchAttributes,
        });
  const activities = createActivities(deps);
  // Before anything is done for those runs: what follows stands behind it.
  await restoreLogs(
    { client: runs.client, events: openRuns.events, reader: stores.reader, records: stores.records, log },
    await openRuns.list(),
  );
  const workers = await startWorkers({
    target,
    hostId,
    activities,
    sharedActivities: ofThisHost(activities, deps.records, hostId),
    sessions,
    bundle: builtBundle() ?? { code: await bundleWorkflows(join(packageRoot(), 'dist/workflows/index.js')) },
  });
  const stopCleaning = await startJanitor(options, runs, deps, sandboxes, openRuns);
  const stopSweeping = startVariableSweep({
    stateDir,
    serverId: serverId(options),
    isOpen: (session) => isRunning(runs.client, session),
    log,
  });
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => workers.shutdown());
  options.onReady(hostId);
  try {
    await workers.ended;
  } finally {
    stopCleaning();
    disk.stop();
    stopSweeping();
    skills?.close();
    await Promise.allSettled([workers.close(), runs.close()]);
    await stores.close();
  }
}

function skillHostOf(options: WorkerProcessOptions): RunningSkillHost | null {
  const { skills, skillTurnLimitMs, stateDir, variables, log } = options;
  if (skills.length === 0) return null;
  return createSkillHost({
    paths: skills,
    stateDir,
    serverId: serverId(options),
    env: variables,
    ownVariables: !options.embedded,
    log,
    ...(skillTurnLimitMs === null ? {} : { turnLimitMs: skillTurnLimitMs }),
  });
}

interface Composed {
  readonly options: WorkerProcessOptions;
  readonly hostId: string;
  readonly searchAttributes: readonly string[];
  readonly sandboxes: HostSandboxes;
  readonly openRuns: OpenRuns;
  readonly stores: Stores;
  readonly mounts: WritableMounts;
  readonly disk: PumpDisk;
}

async function composeActivities({
  options,
  hostId,
  searchAttributes,
  sandboxes,
  openRuns,
  stores,
  mounts,
  disk,
}: Composed): Promise<ActivityDeps> {
  const { stateDir } = options;
  const placement: Placement = {
    hostId,
    // The embedded server has this host alone. What a worker puts on the queue that it works on comes back with the server's
    // answer (eager start) instead of through another queue.
    hostQueue: options.embedded ? RUN_TASK_QUEUE : hostTaskQueue(hostId),
  };
  return {
    ...stores,
    events: openRuns.events,
    mounts,
    backendFor: sandboxes.backendFor,
    leases: await leasesAtStart({
      placement,
      overheadMib: await sandboxes.vmOverheadMib(),
      living: await sandboxes.sweep(),
      disk: () => readDiskRoom(stateDir),
    }),
    disk,
    attempts: createAttemptRegistry(),
    vms: createVmPool(),
    placement,
    serverId: serverId(options),
    searchAttributes,
    mountPolicy: { allowedRoots: options.allowedMountRoots, specFolder: options.embedded },
    compileSpec,
    checkPlan,
    now: Date.now,
  };
}

function serverId({ embedded, target }: WorkerProcessOptions): string {
  return serverIdOf(embedded ? null : target);
}

/** Says what is taken up again, then keeps the VMs of open runs and cleans up now and then. Returns how to stop it. */
async function startJanitor(
  options: WorkerProcessOptions,
  runs: RunsConnection,
  deps: ActivityDeps,
  sandboxes: HostSandboxes,
  openRuns: OpenRuns,
): Promise<() => void> {
  const { log, orphanTimeoutMs } = options;
  const common = {
    client: runs.client,
    records: deps.records,
    hostVariables: deps.hostVariables,
    serverId: serverId(options),
    hostId: deps.placement.hostId,
    listVms: sandboxes.sweep,
    log,
  };
  // First: leases have run on while no worker was here.
  const stopKeeping = keepLeases(
    { ...common, leases: deps.leases, keepAlive: sandboxes.keepAlive },
    renewalIntervalMs(orphanTimeoutMs),
  );
  const janitor: JanitorOptions = {
    ...common,
    openRuns,
    dropMounts: (runId) => deps.mounts.dropRun(runId),
    release: async (key) => {
      await sandboxes.release(key);
      deps.vms.drop(key);
      await deps.leases.release(key);
    },
  };
  const open = await openRuns.list();
  if (open.length > 0) {
    log('info', `takes up ${open.length} unfinished runs: ${open.join(', ')}`);
    await announceResumed(deps.events, open, `worker-${process.pid}-${Date.now()}`);
  }
  let busy = false;
  const round = (): void => {
    if (busy) return;
    busy = true;
    cleanUp(janitor)
      .catch((error: unknown) => log('warning', `clean-up: ${textOf(error)}`))
      .finally(() => (busy = false));
  };
  round();
  const timer = setInterval(round, CLEAN_UP_INTERVAL_MS);
  return () => {
    clearInterval(timer);
    stopKeeping();
  };
}
