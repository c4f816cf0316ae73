import { findSnapshot, openSnapshotFolder } from '../../../app/snapshots/find-snapshots.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { toSnapshotJson } from '../../render/host/snapshot-json.ts';
import { renderSnapshot } from '../../render/host/snapshots.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  takesAnyStateFormat: true,
  beforeFirst: 'List snapshots: voidbox snapshot list',
  configure: (command) => {
    command.argument('<key>', 'the key of a snapshot, or a unique prefix');
  },
  async execute([prefix = ''], options, { env, stdout, now }) {
    const { dir, snapshots } = await openSnapshotFolder(env);
    const snapshot = findSnapshot(snapshots, prefix);
    await stdout.write(
      options.json
        ? `${JSON.stringify({ ...toSnapshotJson(snapshot), dir, parts: snapshot.record?.parts ?? null })}\n`
        : `${renderSnapshot(snapshot, dir, stdout.style, now().getTime()).join('\n')}\n`,
    );
    return EXIT.success;
  },
});
