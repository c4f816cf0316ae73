/** Makes the snapshots from which the VMs of a plan start, before the first run. It needs no Temporal server. */
import { openStateFolder } from '../../client/vms/state-folder.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { createBaseMaker, type BaseResult, type BaseSize } from '../../sandbox-api/base-snapshots.ts';
import { throwNotReady } from '../../sandbox-api/sources.ts';
import type { Environment } from '../../setup/environment.ts';
import { findImageDisk } from '../../setup/images/image-disk.ts';
import { resolveOptionalPieces, resolveVmPieces } from '../../setup/resolve.ts';
import { AppError } from '../app-error.ts';

export interface BaseReport {
  readonly size: BaseSize;
  readonly result: BaseResult;
}

/** @throws AppError `cli/no-snapshots` if snapshots are off */
export async function makeBases(
  sizes: readonly BaseSize[],
  env: Environment,
  options: {
    readonly signal: AbortSignal;
    readonly onProgress: (line: string) => void;
    readonly onStart: (size: BaseSize, index: number) => Promise<void>;
    readonly onReport: (report: BaseReport) => Promise<void>;
  },
): Promise<readonly BaseReport[]> {
  const { snapshots } = env;
  if (snapshots === null) throw createOffError();
  if (sizes.length === 0) return [];
  openStateFolder(env.stateDir);
  const install = { install: true, onProgress: options.onProgress };
  const maker = createBaseMaker({
    env: { ...env, snapshots },
    pieces: await resolveVmPieces(env, install),
    extra: async (name) => (await resolveOptionalPieces(env, [name], install).catch(throwNotReady)).get(name)!,
    disk: async (sha256) => {
      const found = await findImageDisk(env, sha256);
      if (found !== null) return found;
      throw new CodedError('host/not-ready', `the disk of the image ${sha256} is not in the cache ${env.cacheDir}`);
    },
  });
  const reports: BaseReport[] = [];
  for (const [index, size] of sizes.entries()) {
    await options.onStart(size, index);
    const report = { size, result: await maker.make(size, options.signal) };
    await options.onReport(report);
    reports.push(report);
  }
  return reports;
}

function createOffError(): AppError {
  return new AppError(
    'environment',
    'cli/no-snapshots',
    'snapshots are off (VOIDBOX_SNAPSHOTS=off): each VM boots',
    'Switch them on: unset VOIDBOX_SNAPSHOTS',
  );
}
