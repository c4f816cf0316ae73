/**
 * Renews the leases of VMs of open runs. A running stage renews the lease of its VM. Between two stages of a shared VM,
 * while a retry waits, and while no worker holds a stage, this loop does. It renews a lease only after the server has
 * just reported the run as open. Without its server, or without a worker on its host, a VM ends when its lease expires.
 */
import type { Client } from '@temporalio/client';
import type { RunRecords } from '../../activities/ports/run-records.ts';
import type { Leases } from '../../activities/ports/leases.ts';
import type { VmKey } from '../../activities/ports/sandbox.ts';
import { stateOfCommandCall } from '../../client/runs/command-call.ts';
import { describeRun } from '../../client/runs/runs.ts';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import type { HostVm } from './janitor.ts';
import { textOf, type Log } from '../log.ts';
import { skipDamaged } from './open-runs.ts';
import { ownerOf } from './run-owner.ts';

/** The lease that a keeper uses by default. */
const DEFAULT_LEASE_MS = 15 * 60_000;
/** The number of renewals in one lease: three may fail before a VM ends. */
const RENEWALS_IN_A_LEASE = 4;
const LONGEST_INTERVAL_MS = 60_000;

export interface VmLeasesOptions {
  readonly client: Client;
  readonly records: RunRecords;
  /** VMs of another server's runs are ignored; VMs of this server's runs may belong to another host's runs. */
  readonly serverId: string;
  readonly listVms: () => Promise<readonly HostVm[]>;
  readonly leases: Pick<Leases, 'renew'>;
  /** Renews the lease of a living VM. */
  readonly keepAlive: (key: VmKey) => Promise<void>;
  readonly log: Log;
}

/** How often to renew, so that a failure or two cost no VM. */
export function renewalIntervalMs(leaseMs: number | null): number {
  return Math.max(
    1_000,
    Math.min(LONGEST_INTERVAL_MS, Math.floor((leaseMs ?? DEFAULT_LEASE_MS) / RENEWALS_IN_A_LEASE)),
  );
}

/**
 * Renews the memory lease of every living VM of this host, once. A living VM needs its memory whatever the state of its
 * run is, and also while the server does not answer.
 */
export async function countLiving({
  leases,
  listVms,
  log,
}: Pick<VmLeasesOptions, 'leases' | 'listVms' | 'log'>): Promise<void> {
  const living = (await listVms()).filter(({ alive }) => alive);
  const told = living.map(async ({ key, need }) => {
    try {
      await leases.renew(key, need);
    } catch (error) {
      log(
        'warning',
        `run ${key.runId}: the room of its VM ${key.scope}/${key.generation} was not renewed: ${textOf(error)}`,
      );
    }
  });
  await Promise.all(told);
}

/** Renews the keeper leases of VMs of open runs, once. A failure for one VM or run is logged; the others continue. */
export async function renewLeases(options: VmLeasesOptions): Promise<void> {
  const byRun = new Map<string, VmKey[]>();
  for (const { key, alive, retention = null } of await options.listVms()) {
    if (alive && retention === null) byRun.set(key.runId, [...(byRun.get(key.runId) ?? []), key]);
  }
  await Promise.all(
    [...byRun].map(async ([runId, keys]) => {
      try {
        if (await isRunOpen(options, runId)) await Promise.all(keys.map((key) => renew(options, key)));
      } catch (error) {
        options.log(
          'warning',
          `run ${runId}: its VMs are not kept, because it is not known to be running: ${textOf(error)}`,
        );
      }
    }),
  );
}

async function isRunOpen({ client, records, serverId, log }: VmLeasesOptions, runId: string): Promise<boolean> {
  // The owner of a run whose admission cannot be read is unknown, so the run counts as open if this server reports it as
  // running.
  const owner = await skipDamaged(() => ownerOf(records, runId), 'unknown' as const).catch((error: unknown) => {
    if (!isCodedError(error)) throw error;
    log('warning', `run ${runId}: the server decides whether its VMs are kept: ${textOf(error)}`);
    return 'unknown' as const;
  });
  if (owner !== 'unknown' && owner?.serverId !== serverId) return false;
  if (owner !== 'unknown' && owner.command !== undefined)
    return (await stateOfCommandCall(client, owner.command)) === 'pending';
  return (await describeRun(client, runId)).state === 'running';
}

async function renew({ keepAlive, log }: VmLeasesOptions, key: VmKey): Promise<void> {
  try {
    await keepAlive(key);
  } catch (error) {
    // The VM has most likely just been stopped; the next stage of a lost VM reports the loss.
    log(
      'info',
      `run ${key.runId}: the lease of its VM ${key.scope}/${key.generation} was not renewed: ${textOf(error)}`,
    );
  }
}

/** Renews from now on, every `intervalMs`. Returns how to stop it. */
export function keepLeases(options: VmLeasesOptions, intervalMs: number): () => void {
  const fail = (error: unknown): void => options.log('warning', `keeping VMs: ${textOf(error)}`);
  // Apart: a server that does not answer holds up one of them.
  const stops = [
    repeatEvery(intervalMs, () => renewLeases(options).catch(fail)),
    repeatEvery(intervalMs, () => countLiving(options).catch(fail)),
  ];
  return () => stops.forEach((stop) => stop());
}

/** Repeats the work from now on, one round at a time. */
function repeatEvery(intervalMs: number, work: () => Promise<void>): () => void {
  let busy = false;
  const round = (): void => {
    if (busy) return;
    busy = true;
    void work().finally(() => (busy = false));
  };
  round();
  const timer = setInterval(round, intervalMs);
  return () => clearInterval(timer);
}
