import type { DamagedRun } from '../../../activities/ports/run-inspector.ts';
import { durabilityOf, snapshotFolder } from '../../../setup/environment.ts';
import { readSnapshotFolder } from '../../../setup/snapshots/snapshot-store.ts';
import { inspectHost } from '../../../setup/resolve.ts';
import { type FolderReport, inspectFolder } from '../../../setup/cache/write-probe.ts';
import { listPrepared } from '../../../app/snapshots/find-entries.ts';
import { type PreparedList, sumPrepared } from '../../../store/prepared-sandboxes.ts';
import { readDiskRoom } from '../../../store/disk-room.ts';
import { remedyOf } from '../../../domain/errors/error-code.ts';
import { findStateFormatProblem } from '../../../store/state-format.ts';
import { readStack } from '../../../client/embedded/stack.ts';
import { countWaitingVms } from '../../../client/vms/warm-vms.ts';
import { readVmMemory } from '../../../client/vms/vm-memory.ts';
import { defineCommand } from '../../command.ts';
import type { CliContext } from '../../context.ts';
import { EXIT } from '../../exit-code.ts';
import { renderDamagedRuns } from '../../render/runs/damaged-runs.ts';
import { RUN_TASK_QUEUE } from '../../../workflows/messages.ts';
import type { PreparedOfHost } from '../../render/host/prepared-sandboxes.ts';
import { type SnapshotsOfHost, sumSizes } from '../../render/host/snapshots.ts';
import { renderDoctor, type TemporalReport } from '../../render/host/doctor.ts';

/** In a folder that cannot be used. */
const NONE_PREPARED: PreparedList = { sandboxes: [], damaged: [] };

export const command = defineCommand<{ readonly json?: boolean }>({
  takesAnyStateFormat: true,
  configure: () => undefined,
  async execute(_args, options, context) {
    const { cacheDir, stateDir } = context.env;
    const [found, temporal, folder] = await Promise.all([
      inspectHost(context.env),
      inspectTemporal(context),
      inspectFolder({ path: stateDir, what: 'state folder', variable: 'VOIDBOX_STATE_DIR' }),
    ]);
    const format = findStateFormatProblem(stateDir);
    const state = folder.problem === null && format !== null ? reportOtherFormat(folder, format) : folder;
    // In a folder of another format, other files are valid, so check none.
    const runs = format === null ? findDamaged(context) : Promise.resolve([]);
    const damaged = await runs.catch((error: unknown) => {
      // If a file has the path of the state folder, the doctor reports that instead.
      if (state.problem === null) throw error;
      return [];
    });
    const disk = readDiskRoom(stateDir);
    const stack = context.env.temporalConfigured ? null : await readStack(context.env);
    const vmMemory = readVmMemory(stack?.workerPid ?? null);
    const durability = durabilityOf(context.env, temporal.kind);
    const snapshots = {
      report: await inspectSnapshots(context.env),
      maxMib: context.env.snapshots?.maxMib ?? null,
    };
    const prepared = {
      list: state.problem === null ? listPrepared(context.env) : NONE_PREPARED,
      maxMib: context.env.preparedMaxMib,
    };
    const waiting = await countWaitingVms(stateDir);
    const pieces = found.pieces.map((piece) => ({ ...piece, remedy: piece.remedy && context.advise(piece.remedy) }));
    const report = { ...found, pieces };
    const isReady = report.isReady && !disk.isLow && state.problem === null;
    if (options.json) {
      const damagedRuns = damaged.map(({ runId, place, problem }) => ({
        runId,
        folder: place,
        problem: problem.message,
      }));
      await context.stdout.write(
        `${JSON.stringify({ ...report, isReady, state, disk, vmMemory, temporal, durability, cacheDir, stateDir, damagedRuns, snapshots: toSnapshotsJson(snapshots), prepared: toPreparedJson(prepared), waiting })}\n`,
      );
    } else {
      const lines = [
        ...renderDoctor(
          { ...report, isReady },
          temporal,
          { state, disk, vmMemory, durability, snapshots, prepared, waiting },
          { ...context.stdout.style, advise: context.advise },
        ),
        ...renderDamagedRuns(damaged, context),
      ];
      await context.stdout.write(`${lines.join('\n')}\n`);
    }
    return isReady && temporal.problem === null ? EXIT.success : EXIT.environment;
  },
});

async function inspectSnapshots(env: CliContext['env']): Promise<SnapshotsOfHost['report']> {
  const dir = snapshotFolder(env);
  return await readSnapshotFolder(dir).catch((error: unknown) => ({
    dir,
    problem: `${dir} cannot be read: ${(error as Error).message}`,
    remedy: null,
    snapshots: [],
  }));
}

function toSnapshotsJson({ report: { dir, problem, remedy, snapshots }, maxMib }: SnapshotsOfHost): object {
  return {
    dir,
    isOn: maxMib !== null,
    maxMib,
    problem,
    remedy,
    count: snapshots.length,
    sizeBytes: sumSizes(snapshots),
    uselessCount: snapshots.filter(({ state }) => state !== 'usable').length,
  };
}

function toPreparedJson({ list, maxMib }: PreparedOfHost): object {
  const { sandboxes, damaged } = list;
  return { maxMib, count: sandboxes.length, sizeBytes: sumPrepared(list), damagedCount: damaged.length };
}

function reportOtherFormat({ path }: FolderReport, problem: string): FolderReport {
  return { path, problem, remedy: remedyOf('host/state-format') };
}

/** Which server runs would use, and whether your own one takes them; the embedded one is started on demand. */
async function inspectTemporal({ env }: CliContext): Promise<TemporalReport> {
  if (env.temporalConfigured) return await inspectOwnServer(env);
  const stack = await readStack(env);
  return {
    kind: 'embedded',
    address: stack?.address ?? null,
    namespace: stack?.namespace ?? 'default',
    uiUrl: stack?.uiUrl ?? null,
    problem: null,
    remedy: null,
    hasWorker: null,
  };
}

/**
 * Checks the server as `run` does. Loaded only here: without your own Temporal server the doctor needs no Temporal SDK.
 */
async function inspectOwnServer(env: CliContext['env']): Promise<TemporalReport> {
  const { readConfiguredAddress } = await import('../../../client/temporal/temporal-address.ts');
  const { connectOwnServer, refusalOf } = await import('../../../client/temporal/server-problem.ts');
  const { QUIET_MS, readLastPollTime } = await import('../../../client/temporal/pollers.ts');
  const none = { kind: 'own', address: null, namespace: 'default', uiUrl: null, hasWorker: null } as const;
  let own: Omit<TemporalReport, 'problem' | 'remedy'> = none;
  try {
    const target = readConfiguredAddress(env);
    if (target === null) throw new Error('the environment names no server');
    own = { ...none, address: target.address, namespace: target.namespace };
    const { client } = await connectOwnServer(target, env);
    try {
      const polledMs = await readLastPollTime(client, RUN_TASK_QUEUE);
      const hasWorker = polledMs !== null && Date.now() - polledMs < QUIET_MS;
      return { ...own, problem: null, remedy: null, hasWorker };
    } catch (error) {
      throw refusalOf(error, target, env) ?? error;
    }
  } catch (error) {
    const { message, remedy } = error as Error & { readonly remedy?: string | null };
    return { ...own, problem: message, remedy: remedy ?? null };
  }
}

async function findDamaged(context: CliContext): Promise<readonly DamagedRun[]> {
  return await (await context.stores()).inspector.findDamaged();
}
