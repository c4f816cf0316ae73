/**
 * Opens what a worker needs on its host, in any process: stores, sandboxes and activities for a client of its server.
 * It also watches runs and VMs while it is open. A worker process of Voidbox opens one, and so does the plugin for
 * other workers.
 */
import type { Client, ConnectionLike } from '@temporalio/client';
import { createAttemptRegistry } from '../../activities/attempt/registry.ts';
import type { Activities } from '../../activities/contract.ts';
import { createActivities } from '../../activities/create-activities.ts';
import type { ActivityDeps, MountPolicy } from '../../activities/deps.ts';
import type { ServicePolicy } from '../../activities/admission/service-policy.ts';
import { guardByHost } from '../../activities/calls/host-guard.ts';
import type { PumpDisk } from '../../activities/ports/pump-disk.ts';
import type { RunReader } from '../../activities/ports/run-reader.ts';
import type { StageSessions } from '../../activities/ports/stage-sessions.ts';
import type { LentVariables } from '../../activities/ports/lent-variables.ts';
import { createVmPool } from '../../activities/vm/pool.ts';
import { createStepCheckpoints } from '../../sandbox/checkpoints/step-checkpoints.ts';
import { createWritableMounts } from '../../sandbox/mounts/writable-mounts.ts';
import { createAnyStarters, createMarkedStarters } from '../../activities/admission/starters.ts';
import { parentOf } from '../../client/temporal/workflow-run.ts';
import type { Durability } from '../../setup/environment.ts';
import { readDiskRoom } from '../../store/disk-room.ts';
import { findCheckpoints, listCheckpointFolders, mountsDir } from '../../store/state-folder.ts';
import { openStores } from '../../store/open-stores.ts';
import { announceResumed, cleanUp, type JanitorOptions } from './janitor.ts';
import { leasesAtStart } from './leases-at-start.ts';
import { textOf, type Log } from '../log.ts';
import { createOpenRuns, type OpenRuns } from './open-runs.ts';
import { createConditionThreads } from '../../conditions/threads.ts';
import { isPortClosed } from './port-probe.ts';
import { createAgentSkillFetcher } from '../skills/fetch-skill.ts';
import { createPreparedSandboxes } from './prepared-sandboxes.ts';
import { createGitRepositories, type GitRepositoriesOptions } from '../checkout/git-repositories.ts';
import { createRetainedVms, createRetentionWatch } from './retained-vms.ts';
import { endSessionsOf } from '../skills/run-sessions.ts';
import { restoreLogs } from './restore-log.ts';
import type { HostSandboxes } from './sandboxes.ts';
import { ensureSearchAttributes, type SearchAttributeServices } from '../search-attributes.ts';
import { checkPlan, compileSpec } from '../spec-check.ts';
import { keepLeases, renewalIntervalMs } from './vm-leases.ts';

const CLEAN_UP_INTERVAL_MS = 20_000;

export interface HostOptions {
  readonly client: Client;
  readonly connection: ConnectionLike & SearchAttributeServices;
  readonly stateDir: string;
  readonly hostId: string;
  /** The queue of activities that use this host. */
  readonly hostQueue: string;
  /** Identifies the server in the records of its runs. */
  readonly serverId: string;
  readonly sandboxes: HostSandboxes;
  readonly mountPolicy: MountPolicy;
  /** `marked`: only a mark in the state folder proves the owner. `any`: only tokens and deployments are distinguished. */
  readonly starters: 'marked' | 'any';
  readonly servicePolicy: ServicePolicy;
  /** Whether runs may keep VMs of failed stages for inspection. */
  readonly allowsRetention: boolean;
  readonly durability: Durability;
  readonly lentVariables: LentVariables;
  /** Where git is, and whose ignore rules and credentials it has. */
  readonly git: Pick<GitRepositoriesOptions, 'path' | 'home' | 'configHome'>;
  readonly disk: PumpDisk;
  /** The time that a VM lives after its last lease renewal; null: the keeper's own limit. */
  readonly orphanTimeoutMs: number | null;
  /** Absent: this worker has no skills. */
  readonly stageSessions?: StageSessions;
  readonly log: Log;
}

export interface Host {
  readonly deps: ActivityDeps;
  readonly activities: Activities;
  /** For the queue that hosts share; see `guardByHost`. */
  readonly sharedActivities: Activities;
  /**
   * Announces resumed runs, then renews the VMs of open runs and cleans up from time to time. Returns a function that
   * stops it.
   */
  care(): Promise<() => Promise<void>>;
  /** Call it after the last activity has ended. */
  close(): Promise<void>;
}

export async function openHost(options: HostOptions): Promise<Host> {
  const { client, connection, stateDir, hostId, serverId, log } = options;
  const searchAttributes = await ensureSearchAttributes(connection, client.options.namespace, log);
  const stores = await openStores(options);
  const mounts = createWritableMounts((runId) => mountsDir(stateDir, runId));
  const checkpoints = createStepCheckpoints({
    folderOf: (runId) => findCheckpoints(stateDir, runId),
    listFolders: () => listCheckpointFolders(stateDir),
    readRoom: () => readDiskRoom(stateDir),
  });
  const { events, index, records } = stores;
  const openRuns = createOpenRuns({
    events,
    index,
    records,
    serverId,
    hostId,
    log,
    onEnded: async (runId) => {
      await mounts.dropRun(runId);
      await checkpoints.endRun(runId);
    },
  });
  const placement = { hostId, hostQueue: options.hostQueue };
  const { sandboxes } = options;
  const threads = createConditionThreads();
  const deps: ActivityDeps = {
    ...stores,
    events: openRuns.events,
    mounts,
    prepared: createPreparedSandboxes(stateDir),
    checkpoints,
    repositories: createGitRepositories({ artifacts: stores.artifacts, stateDir, ...options.git }),
    backendFor: sandboxes.backendFor,
    leases: await leasesAtStart({
      placement,
      overheadMib: await sandboxes.vmOverheadMib(),
      living: await sandboxes.sweep(),
      disk: () => readDiskRoom(stateDir),
    }),
    lentVariables: options.lentVariables,
    disk: options.disk,
    attempts: createAttemptRegistry(),
    vms: createVmPool(),
    placement,
    serverId,
    searchAttributes,
    mountPolicy: options.mountPolicy,
    starters: options.starters === 'any' ? createAnyStarters(stores.marks) : createMarkedStarters(stores.marks),
    servicePolicy: options.servicePolicy,
    allowsRetention: options.allowsRetention,
    retainedVms: createRetainedVms(sandboxes.sweep, sandboxes.release),
    fetchSkill: createAgentSkillFetcher(),
    isPortClosed,
    ...(options.stageSessions === undefined ? {} : { stageSessions: options.stageSessions }),
    evaluate: threads.evaluate,
    evaluateTexts: threads.evaluateTexts,
    checkOutput: threads.checkOutput,
    parentOf: (workflowId, executionId) => parentOf(client, workflowId, executionId),
    compileSpec,
    checkPlan,
    now: Date.now,
  };
  // Restore the logs before any work on those runs, because new events must follow the restored ones.
  if (stores.local?.canLoseEvents === true)
    await restoreLogs(
      { client, events: openRuns.events, reader: stores.reader, records, marks: stores.marks, log },
      await openRuns.list(),
    );
  const activities = createActivities(deps);
  return {
    deps,
    activities,
    sharedActivities: guardByHost(activities, records, hostId),
    care: () => startCare(options, deps, openRuns, stores.reader),
    close: () => stores.close(),
  };
}

async function startCare(
  { client, hostId, serverId, sandboxes, orphanTimeoutMs, log }: HostOptions,
  deps: ActivityDeps,
  openRuns: OpenRuns,
  reader: RunReader,
): Promise<() => Promise<void>> {
  const common = {
    client,
    records: deps.records,
    hostVariables: deps.hostVariables,
    serverId,
    hostId,
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
    dropMounts: async (runId) => {
      await deps.mounts.dropRun(runId);
      await deps.checkpoints?.endRun(runId);
    },
    endSessions: (runId) => endSessionsOf({ client, reader }, runId),
    release: async (key) => {
      await sandboxes.release(key);
      deps.vms.drop(key);
      await deps.leases.release(key);
    },
  };
  const open = await openRuns.list();
  if (open.length > 0) {
    log('info', `resumes ${open.length} unfinished runs: ${open.join(', ')}`);
    await announceResumed(deps.events, { runIds: open, by: `worker-${process.pid}-${Date.now()}`, log });
  }
  const giveBackRoom = createRetentionWatch(deps.retainedVms ?? { list: async () => [] }, deps.leases);
  let busy = false;
  const round = (): void => {
    if (busy) return;
    busy = true;
    cleanUp(janitor)
      .then(giveBackRoom)
      .then(() => deps.checkpoints?.makeRoom())
      .catch((error: unknown) => log('warning', `clean-up: ${textOf(error)}`))
      .finally(() => (busy = false));
  };
  round();
  sandboxes.warm?.start();
  const timer = setInterval(round, CLEAN_UP_INTERVAL_MS);
  return async () => {
    clearInterval(timer);
    stopKeeping();
    await sandboxes.warm?.close();
  };
}
