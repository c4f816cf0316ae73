/** Tests whether a folder can be written by writing a file, because permissions do not show read-only or full disks. */
import { randomUUID } from 'node:crypto';
import { statSync } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type OwnFolder, refuseForeignFolder } from './own-folder.ts';
import { SetupError } from '../setup-error.ts';

/** The size of a block: a full disk may still have room for the name of an empty file. */
const PROBE_BYTES = 4096;

export interface FolderReport {
  readonly path: string;
  readonly problem: string | null;
  /** The remedy; null if there is no problem. */
  readonly remedy: string | null;
}

/** Reports whether another user may change the folder's content. */
export function reportForeign(folder: OwnFolder): FolderReport {
  try {
    refuseForeignFolder(folder);
    return { path: folder.path, problem: null, remedy: null };
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    return { path: folder.path, problem: error.message.replace(/^T(.*)\.$/s, 't$1'), remedy: error.remedy };
  }
}

/** Writes, syncs and removes a file in the folder, or in its nearest existing parent. Makes no folder. */
export async function inspectFolder({ path, what, variable }: OwnFolder): Promise<FolderReport> {
  const report = reportForeign({ path, what, variable });
  if (report.problem !== null) return report;
  try {
    await writeAndRemove(nearestFolder(path));
    return { path, problem: null, remedy: null };
  } catch (error) {
    return {
      path,
      problem: `the ${what} ${path} cannot be written: ${(error as Error).message}`,
      remedy: `${isFull(error) ? 'Free space on that disk' : 'Fix its permissions or its disk'}, or name another folder: export ${variable}=…`,
    };
  }
}

function isFull(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException).code ?? '');
}

function nearestFolder(path: string): string {
  let isFolder: boolean;
  try {
    isFolder = statSync(path).isDirectory();
  } catch (error) {
    const isThere = !['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '');
    if (isThere || dirname(path) === path) throw error;
    return nearestFolder(dirname(path));
  }
  if (!isFolder) throw new Error(`${path} is not a folder`);
  return path;
}

async function writeAndRemove(folder: string): Promise<void> {
  const file = join(folder, `.voidbox-probe-${process.pid}-${randomUUID()}`);
  // Exclusive creation follows no link, which others could plant in a folder that they may write.
  const handle = await open(file, 'wx', 0o600);
  try {
    await handle.write(Buffer.alloc(PROBE_BYTES));
    await handle.sync();
  } finally {
    await handle.close();
    await rm(file);
  }
}
