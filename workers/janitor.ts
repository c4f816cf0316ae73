/**
 * Ends what no workflow will end any more: VMs of runs whose workflow was terminated or whose server is
 * gone, and the terminal events that such runs lack. A VM of a run that goes on is never touched.
 */
import type { Client } from '@temporalio/client';
import type { EventStore, RunRecords, VmKey } from '../activities/ports.ts';
import { isCodedError } from '../domain/errors/coded-error.ts';
import { describeRun, repairRun } from './client/runs.ts';
import { textOf, type Log } from './log.ts';

export interface HostVm {
  readonly key: VmKey;
  readonly alive: boolean;
  readonly memoryMib: number;
}

export interface JanitorOptions {
  readonly client: Client;
  readonly events: EventStore;
  readonly records: RunRecords;
  /** Runs of another server are left alone. */
  readonly serverId: string;
  /** Run directories on this host; those that nobody needs are removed with it. */
  readonly listVms: () => Promise<readonly HostVm[]>;
  readonly release: (key: VmKey) => Promise<void>;
  readonly log: Log;
}

/** One round. Failures about one run are logged and do not keep others from being looked at. */
export async function cleanUp(options: JanitorOptions): Promise<void> {
  const { log } = options;
  const live = (await options.listVms()).filter((vm) => vm.alive);
  const runIds = new Set([...live.map(({ key }) => key.runId), ...(await unfinished(options))]);
  for (const runId of runIds) {
    try {
      await cleanUpRun(
        options,
        runId,
        live.filter(({ key }) => key.runId === runId),
      );
    } catch (error) {
      log('warning', `could not look after run ${runId}: ${textOf(error)}`);
    }
  }
}

async function cleanUpRun({ client, events, records, serverId, release, log }: JanitorOptions, runId: string, vms: readonly HostVm[]): Promise<void> {
  // Of a run whose admission cannot be read any server may be the one: this server's word ends its VMs when it says that the run has ended.
  const server = await unlessDamaged(() => serverOf(records, runId), 'damaged' as const);
  if (server !== serverId && server !== 'damaged') return;
  const { state } = await describeRun(client, runId);
  if (state === 'running' || (server === 'damaged' && state === 'missing')) return;
  for (const { key } of vms) {
    log('info', `run ${runId} is ${state}: ending its VM ${key.scope}/${key.generation}`);
    await release(key);
  }
  if (server === 'damaged') return;
  const mended = await repairRun(client, events, runId, { missingIsGone: true });
  if (mended === null) return;
  await records.dropHostVariables(runId);
  log('info', `run ${runId} ended without its last event (${state}); it is written now`);
}

/** Runs of this server that were admitted here and have no terminal event. */
export async function unfinished({ events, records, serverId }: Pick<JanitorOptions, 'events' | 'records' | 'serverId'>): Promise<readonly string[]> {
  const open: string[] = [];
  for (const runId of await events.listRuns()) {
    // A damaged run is told of by `runs` and `doctor`; here it must not keep others from being looked after.
    const isOpen = await unlessDamaged(async () => (await serverOf(records, runId)) === serverId && !(await isFinished(events, runId)), false);
    if (isOpen) open.push(runId);
  }
  return open;
}

async function unlessDamaged<T>(work: () => Promise<T>, otherwise: T): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (isCodedError(error)) return otherwise;
    throw error;
  }
}

/** Null for a run that was not admitted here. */
async function serverOf(records: RunRecords, runId: string): Promise<string | null> {
  const admission = (await records.get(runId, 'admission')) as { readonly serverId?: unknown } | null | undefined;
  return typeof admission?.serverId === 'string' ? admission.serverId : null;
}

async function isFinished(events: EventStore, runId: string): Promise<boolean> {
  for await (const { body } of events.read(runId, 0, { output: false })) if (body.type === 'run-finished') return true;
  return false;
}

/** Tells the readers of each unfinished run that this worker has taken it up. */
export async function announceResumed(events: EventStore, runIds: readonly string[], by: string, now: () => number = Date.now): Promise<void> {
  for (const runId of runIds) await unlessDamaged(() => events.append(runId, [{ id: `run/resumed/${by}`, atMs: now(), body: { type: 'run-resumed', by } }]), 0);
}
