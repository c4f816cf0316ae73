/** Finds snapshots of this host by a prefix of their key, and deletes them. */
import { type Environment, snapshotFolder } from '../../setup/environment.ts';
import {
  deleteSnapshot,
  readSnapshotFolder,
  type Snapshot,
  type SnapshotFolderReport,
} from '../../setup/snapshots/snapshot-store.ts';
import { quote } from '../../domain/units/quote.ts';
import { AppError, createUsageError } from '../app-error.ts';

const SHOWN_MATCHES = 10;

/** @throws AppError `cli/no-snapshots` for a folder that keepers do not use */
export async function openSnapshotFolder(env: Pick<Environment, 'cacheDir'>): Promise<SnapshotFolderReport> {
  const dir = snapshotFolder(env);
  const report = await readSnapshotFolder(dir).catch((error: unknown) => {
    throw new AppError('environment', 'cli/no-snapshots', `${dir} cannot be read: ${(error as Error).message}`);
  });
  if (report.problem === null) return report;
  throw new AppError(
    'environment',
    'cli/no-snapshots',
    `no VM starts from a snapshot: ${report.problem}`,
    report.remedy,
  );
}

/** @throws AppError `cli/usage` for an empty prefix, for no match and for several matches */
export function findSnapshot(snapshots: readonly Snapshot[], prefix: string): Snapshot {
  const list = 'List them: voidbox snapshot list';
  if (prefix === '') throw createUsageError('the key of a snapshot is empty', list);
  const exact = snapshots.find(({ key }) => key === prefix);
  if (exact !== undefined) return exact;
  const matches = snapshots.filter(({ key }) => key.startsWith(prefix));
  const [match] = matches;
  if (match === undefined) throw createUsageError(`no snapshot has a key that begins with ${quote(prefix)}`, list);
  if (matches.length === 1) return match;
  const keys = matches.map(({ key }) => key).sort();
  const shown = keys.slice(0, SHOWN_MATCHES).map((key) => quote(key));
  const more = matches.length > SHOWN_MATCHES ? ` and ${matches.length - SHOWN_MATCHES} more` : '';
  throw createUsageError(
    `${matches.length} snapshots have keys that begin with ${quote(prefix)}: ${shown.join(', ')}${more}`,
    'Write more characters of the key.',
  );
}

/** @returns those that existed. @throws AppError `cli/no-snapshots` if one cannot be deleted */
export async function deleteSnapshots(dir: string, chosen: readonly Snapshot[]): Promise<readonly Snapshot[]> {
  const deleted: Snapshot[] = [];
  for (const snapshot of chosen) {
    const existed = await deleteSnapshot(dir, snapshot.key).catch((error: unknown) => {
      throw new AppError(
        'environment',
        'cli/no-snapshots',
        `the snapshot ${quote(snapshot.key)} cannot be deleted: ${(error as Error).message}`,
      );
    });
    if (existed) deleted.push(snapshot);
  }
  return deleted;
}
