/** Finds snapshots and prepared sandboxes of this host by one text: a name, a key, or the beginning of a key or an id. */
import { quote } from '../../domain/units/quote.ts';
import type { Environment } from '../../setup/environment.ts';
import type { Snapshot } from '../../setup/snapshots/snapshot-store.ts';
import {
  type DamagedSandbox,
  describePrepared,
  listPreparedSandboxes,
  type PreparedList,
  type PreparedSandbox,
} from '../../store/prepared-sandboxes.ts';
import { AppError, createUsageError } from '../app-error.ts';
import { findSnapshot, openSnapshotFolder } from './find-snapshots.ts';

export type SnapshotEntry =
  | { readonly kind: 'snapshot'; readonly dir: string; readonly snapshot: Snapshot }
  | { readonly kind: 'prepared'; readonly prepared: PreparedSandbox }
  | { readonly kind: 'damaged'; readonly damaged: DamagedSandbox };

/** @throws AppError `cli/usage` unless each text names exactly one; `cli/no-snapshots` */
export async function findEntries(
  env: Pick<Environment, 'cacheDir' | 'stateDir'>,
  texts: readonly string[],
): Promise<readonly SnapshotEntry[]> {
  const list = listPreparedSandboxes(env.stateDir);
  const named = texts.map((text) => list.sandboxes.findLast(({ record }) => record.name === text) ?? null);
  // A folder of snapshots that cannot be used does not matter for names.
  const report = named.includes(null) ? await openSnapshotFolder(env) : null;
  return texts.map((text, index): SnapshotEntry => {
    const prepared = named[index] ?? null;
    if (prepared !== null) return { kind: 'prepared', prepared };
    const found = findById(list, report?.snapshots ?? [], text);
    return found ?? { kind: 'snapshot', dir: report!.dir, snapshot: findSnapshot(report!.snapshots, text) };
  });
}

/** Null: no prepared sandbox has the beginning of an id. */
function findById(
  { sandboxes, damaged }: PreparedList,
  snapshots: readonly Snapshot[],
  text: string,
): SnapshotEntry | null {
  const matches: readonly { readonly shown: string; readonly entry: SnapshotEntry }[] = [
    ...sandboxes
      .filter(({ record }) => record.id.startsWith(text))
      .map((prepared) => ({
        shown: describePrepared(prepared.record),
        entry: { kind: 'prepared', prepared } as const,
      })),
    ...damaged
      .filter(({ id }) => id.startsWith(text))
      .map((each) => ({
        shown: `${describePrepared(each)} (damaged)`,
        entry: { kind: 'damaged', damaged: each } as const,
      })),
  ];
  if (text === '' || matches.length === 0) return null;
  const keys = snapshots.filter(({ key }) => key.startsWith(text)).map(({ key }) => quote(key));
  if (matches.length === 1 && keys.length === 0) return matches[0]!.entry;
  const names = [...matches.map(({ shown }) => shown), ...keys];
  throw createUsageError(`${quote(text)} is the beginning of ${names.join(', ')}`, 'Write more characters.');
}

/** The prepared sandboxes for a list, also if the folder of snapshots cannot be used. */
export function listPrepared({ stateDir }: Pick<Environment, 'stateDir'>): PreparedList {
  try {
    return listPreparedSandboxes(stateDir);
  } catch (error) {
    throw new AppError('environment', 'store/io', (error as Error).message);
  }
}
