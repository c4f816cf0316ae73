import { findEntries, type SnapshotEntry } from '../../../app/snapshots/find-entries.ts';
import { deleteSnapshots } from '../../../app/snapshots/find-snapshots.ts';
import { formatBytes } from '../../../domain/units/bytes.ts';
import { deletePreparedSandbox, describePrepared } from '../../../store/prepared-sandboxes.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { shortenKey } from '../../render/host/snapshots.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  takesAnyStateFormat: true,
  beforeFirst: 'List snapshots: voidbox snapshot list',
  configure: (command) => {
    command.argument('<key...>', 'keys of snapshots, names or ids of prepared sandboxes, or unique prefixes');
  },
  async execute(prefixes, options, { env, stdout }) {
    // A mistake in one key deletes no snapshot.
    const chosen = await findEntries(env, prefixes);
    const snapshots = new Set(chosen.flatMap((kept) => (kept.kind === 'snapshot' ? [kept.snapshot] : [])));
    const [{ dir } = { dir: '' }] = chosen.flatMap((kept) => (kept.kind === 'snapshot' ? [kept] : []));
    const deleted = await deleteSnapshots(dir, [...snapshots]);
    const prepared = new Map(chosen.flatMap((kept) => (kept.kind === 'snapshot' ? [] : [describeDisk(kept)])));
    for (const path of prepared.keys()) await deletePreparedSandbox(path);
    const gone = [
      ...deleted.map(({ kind, key, sizeBytes }) => ({ kind, key, sizeBytes, shown: shortenKey(key) })),
      ...prepared.values(),
    ];
    await stdout.write(
      options.json
        ? `${JSON.stringify({ deleted: gone.map(({ kind, key, sizeBytes }) => ({ kind, key, sizeBytes })) })}\n`
        : gone.map(({ shown, sizeBytes }) => `deleted ${shown} (${formatBytes(sizeBytes)})\n`).join(''),
    );
    return EXIT.success;
  },
});

/** The folder of a prepared sandbox, and what the output shows of it. */
function describeDisk(entry: Exclude<SnapshotEntry, { readonly kind: 'snapshot' }>) {
  const { dir, ...disk } =
    entry.kind === 'damaged' ? entry.damaged : { dir: entry.prepared.dir, ...entry.prepared.record };
  const { id: key, usedBytes: sizeBytes } = disk;
  return [dir, { kind: 'prepared', key, sizeBytes, shown: describePrepared(disk) }] as const;
}
