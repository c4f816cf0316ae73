import { durabilityOf } from '../../setup/environment.ts';
import { inspectHost } from '../../setup/resolve.ts';
import { readDiskRoom } from '../../store/file/disk-room.ts';
import { findDamagedRuns } from '../../store/inspect.ts';
import { readStack } from '../../client/embedded/stack.ts';
import { readVmMemory } from '../../client/vm-memory.ts';
import { defineCommand } from '../command.ts';
import type { CliContext } from '../context.ts';
import { EXIT } from '../exit-code.ts';
import { renderDamagedRuns } from '../render/damaged-runs.ts';
import { renderDoctor, type TemporalReport } from '../render/doctor.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: () => undefined,
  async execute(_args, options, context) {
    const { cacheDir, stateDir } = context.env;
    const [report, temporal, damaged] = await Promise.all([
      inspectHost(context.env),
      inspectTemporal(context),
      findDamagedRuns(stateDir),
    ]);
    const disk = readDiskRoom(stateDir);
    const stack = context.env.temporalConfigured ? null : await readStack(context.env);
    const vmMemory = readVmMemory(stack?.workerPid ?? null);
    const durability = durabilityOf(context.env, temporal.kind);
    const isReady = report.isReady && !disk.isLow;
    if (options.json) {
      const damagedRuns = damaged.map(({ runId, folder, problem }) => ({
        runId,
        folder: folder.path,
        problem: problem.message,
      }));
      await context.stdout.write(
        `${JSON.stringify({ ...report, isReady, disk, vmMemory, temporal, durability, cacheDir, stateDir, damagedRuns })}\n`,
      );
    } else {
      const lines = [
        ...renderDoctor(
          { ...report, isReady },
          temporal,
          { cacheDir, stateDir, disk, vmMemory, durability },
          context.stdout.style,
        ),
        ...renderDamagedRuns(damaged, context),
      ];
      await context.stdout.write(`${lines.join('\n')}\n`);
    }
    return isReady && temporal.problem === null ? EXIT.success : EXIT.environment;
  },
});

/** Which server runs would use, and whether one's own answers; the embedded one is started on demand. */
async function inspectTemporal({ env }: CliContext): Promise<TemporalReport> {
  // Loaded only where they are needed: without a server of one's own the doctor needs no Temporal SDK.
  const configured = env.temporalConfigured
    ? (await import('../../client/temporal-address.ts')).configuredAddress(env)
    : null;
  if (configured === null) {
    const stack = await readStack(env);
    return {
      kind: 'embedded',
      address: stack?.address ?? null,
      namespace: stack?.namespace ?? 'default',
      uiUrl: stack?.uiUrl ?? null,
      problem: null,
    };
  }
  const own = { kind: 'own', address: configured.address, namespace: configured.namespace, uiUrl: null } as const;
  const { connectRuns } = await import('../../client/connect.ts');
  try {
    const connection = await connectRuns(configured);
    await connection.close();
    return { ...own, problem: null };
  } catch (error) {
    return { ...own, problem: `${configured.address} does not answer: ${(error as Error).message}` };
  }
}
