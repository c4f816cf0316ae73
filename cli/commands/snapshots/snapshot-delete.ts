import { deleteSnapshots, findSnapshot, openSnapshotFolder } from '../../../app/snapshots/find-snapshots.ts';
import { formatBytes } from '../../../domain/units/bytes.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { shortenKey } from '../../render/host/snapshots.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  takesAnyStateFormat: true,
  beforeFirst: 'List snapshots: voidbox snapshot list',
  configure: (command) => {
    command.argument('<key...>', 'keys of snapshots, or unique prefixes');
  },
  async execute(prefixes, options, { env, stdout }) {
    const { dir, snapshots } = await openSnapshotFolder(env);
    // A mistake in one key deletes no snapshot.
    const chosen = [...new Set(prefixes.map((prefix) => findSnapshot(snapshots, prefix)))];
    const deleted = await deleteSnapshots(dir, chosen);
    await stdout.write(
      options.json
        ? `${JSON.stringify({ deleted: deleted.map(({ kind, key, sizeBytes }) => ({ kind, key, sizeBytes })) })}\n`
        : deleted.map(({ key, sizeBytes }) => `deleted ${shortenKey(key)} (${formatBytes(sizeBytes)})\n`).join(''),
    );
    return EXIT.success;
  },
});
