/**
 * Ends what no workflow will end: VMs of runs whose workflow was terminated or whose server is gone, and the sessions
 * that their stages drove. It also writes the terminal events that such runs lack. It never touches a VM of an open
 * run, nor a VM that is kept for inspection, which its keeper ends.
 */
import type { Client } from '@temporalio/client';
import type { CommandCaller } from '../../activities/admission/admission-record.ts';
import type { EventLog } from '../../activities/ports/event-log.ts';
import type { HostVariables } from '../../activities/ports/host-variables.ts';
import type { RunRecords } from '../../activities/ports/run-records.ts';
import type { VmNeed } from '../../activities/ports/leases.ts';
import type { VmKey } from '../../activities/ports/sandbox.ts';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import type { Retention } from '../../domain/run/retained-vm.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { stateOfCommandCall } from '../../client/runs/command-call.ts';
import { describeRun, repairRun } from '../../client/runs/runs.ts';
import { textOf, type Log } from '../log.ts';
import { skipDamaged, type OpenRuns } from './open-runs.ts';
import { ownerOf, isOwner } from './run-owner.ts';

export interface HostVm {
  readonly key: VmKey;
  readonly alive: boolean;
  readonly need: VmNeed;
  /** Set if the VM is kept for inspection; its keeper ends it in time. Absent or null: not kept. */
  readonly retention?: Retention | null;
}

export interface JanitorOptions {
  readonly client: Client;
  readonly openRuns: OpenRuns;
  readonly records: RunRecords;
  readonly hostVariables: HostVariables;
  /** Runs of another server are ignored. Runs of another host are left to that host, except for VMs on this one. */
  readonly serverId: string;
  readonly hostId: string;
  /** Lists run directories on this host, and removes those that are no longer needed. */
  readonly listVms: () => Promise<readonly HostVm[]>;
  readonly release: (key: VmKey) => Promise<void>;
  /** Removes what was kept of a run's writable mounts. */
  readonly dropMounts: (runId: string) => Promise<void>;
  /**
   * Asks the sessions that stages of a run drove to end.
   * @returns the sessions that were open
   */
  readonly endSessions: (runId: string) => Promise<readonly string[]>;
  readonly log: Log;
}

/** One round. Failures about one run are logged and do not keep others from being looked at. */
export async function cleanUp(options: JanitorOptions): Promise<void> {
  const { log } = options;
  const live = (await options.listVms()).filter((vm) => vm.alive && (vm.retention ?? null) === null);
  const runIds = new Set([...live.map(({ key }) => key.runId), ...(await options.openRuns.list())]);
  for (const runId of runIds) {
    try {
      await cleanUpRun(
        options,
        runId,
        live.filter(({ key }) => key.runId === runId),
      );
    } catch (error) {
      log('warning', `could not maintain run ${runId}: ${textOf(error)}`);
    }
  }
}

async function cleanUpRun(options: JanitorOptions, runId: string, vms: readonly HostVm[]): Promise<void> {
  const { client, openRuns, records, hostVariables, serverId, release, dropMounts, log } = options;
  // If a run's admission cannot be read, it may belong to any server. Its VMs end if this server reports that the run
  // has ended.
  const owner = await skipDamaged(() => ownerOf(records, runId), 'damaged' as const);
  if (owner !== 'damaged' && owner?.serverId !== serverId) return;
  if (owner !== 'damaged' && owner.command !== undefined)
    return await cleanUpCommand(options, runId, owner.command, vms);
  const { state } = await describeRun(client, runId);
  if (state === 'running' || (owner === 'damaged' && state === 'missing')) return;
  // Write the events before the VMs end: as long as one lives, a later round repeats a round that fails here.
  if (owner !== 'damaged' && isOwner(options, owner))
    for (const session of await skipDamaged(() => options.endSessions(runId), []))
      log('info', `run ${runId} is ${state}: ending its session ${session}`);
  for (const { key } of vms) {
    log('info', `run ${runId} is ${state}: ending its VM ${key.scope}/${key.generation}`);
    await release(key);
  }
  if (owner === 'damaged') return;
  if (!isOwner(options, owner)) {
    await dropMounts(runId);
    return await hostVariables.drop(runId);
  }
  const repaired = await repairRun(client, openRuns.events, runId, { missingIsGone: true }).catch((error: unknown) => {
    // The run has ended and its damaged log accepts no last event, so nothing is left to do.
    if (isCodedError(error) && error.code === 'store/damaged') return null;
    throw error;
  });
  // Drop the mounts after the VMs, because no stage copies changes back any longer.
  await dropMounts(runId);
  await hostVariables.drop(runId);
  if (repaired === null) return openRuns.ended(runId);
  log('info', `run ${runId} ended without its last event (${state}); it is written now`);
}

/** No workflow writes the end of a command's run where its activity could not. */
async function cleanUpCommand(
  { client, openRuns, release, dropMounts, log }: JanitorOptions,
  runId: string,
  command: CommandCaller,
  vms: readonly HostVm[],
): Promise<void> {
  const state = await stateOfCommandCall(client, command);
  // Between its admission and its start it has no VM.
  if (state === 'pending' || (state === 'absent' && vms.length === 0)) return;
  const reason = `the workflow ${sanitizeLine(command.workflowId)} no longer waits for it`;
  for (const { key } of vms) {
    log('info', `command ${runId}: ${reason}: ending its VM ${key.scope}/${key.generation}`);
    await release(key);
  }
  await openRuns.events.append(runId, [endOfCommand(reason)]).catch((error: unknown) => {
    if (!(isCodedError(error) && error.code === 'store/damaged')) throw error;
  });
  await dropMounts(runId);
  openRuns.ended(runId);
}

function endOfCommand(message: string): NewRunEvent {
  const failure = { code: 'run/terminated', message, stderrTail: '' } as const;
  return {
    id: EVENT_ID.runFinished,
    atMs: Date.now(),
    body: { type: 'run-finished', outcome: { state: 'terminated', failedStage: null, failure, output: null } },
  };
}

export interface Announcement {
  readonly runIds: readonly string[];
  /** The worker that resumes the runs. */
  readonly by: string;
  readonly log: Log;
  readonly now?: () => number;
}

/**
 * Writes an event to each unfinished run, which reports that this worker has resumed it. A log that does not accept the
 * event is reported, and the worker starts.
 */
export async function announceResumed(
  events: Pick<EventLog, 'append'>,
  { runIds, by, log, now = Date.now }: Announcement,
): Promise<void> {
  for (const runId of runIds)
    try {
      await skipDamaged(
        () => events.append(runId, [{ id: EVENT_ID.runResumed(by), atMs: now(), body: { type: 'run-resumed', by } }]),
        0,
      );
    } catch (error) {
      if (!isCodedError(error)) throw error;
      log('warning', `run ${runId}: its log does not accept that this worker has resumed it: ${textOf(error)}`);
    }
}
