import { findEntries } from '../../../app/snapshots/find-entries.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { renderDamaged, renderPrepared, toDamagedJson, toPreparedJson } from '../../render/host/prepared-sandboxes.ts';
import { toSnapshotJson } from '../../render/host/snapshot-json.ts';
import { renderSnapshot } from '../../render/host/snapshots.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  takesAnyStateFormat: true,
  beforeFirst: 'List snapshots: voidbox snapshot list',
  configure: (command) => {
    command.argument('<key>', 'the key of a snapshot, the name or id of a prepared sandbox, or a unique prefix');
  },
  async execute([prefix = ''], options, { env, stdout, now }) {
    const [kept] = await findEntries(env, [prefix]);
    if (kept!.kind === 'damaged') {
      const { damaged } = kept!;
      await stdout.write(
        options.json
          ? `${JSON.stringify({ kind: 'prepared', ...toDamagedJson(damaged), dir: damaged.dir })}\n`
          : `${renderDamaged(damaged, stdout.style).join('\n')}\n`,
      );
      return EXIT.success;
    }
    if (kept!.kind === 'prepared') {
      const { prepared } = kept!;
      await stdout.write(
        options.json
          ? `${JSON.stringify({ ...toPreparedJson(prepared), dir: prepared.dir })}\n`
          : `${renderPrepared(prepared, stdout.style, now().getTime()).join('\n')}\n`,
      );
      return EXIT.success;
    }
    const { dir, snapshot } = kept!;
    await stdout.write(
      options.json
        ? `${JSON.stringify({ ...toSnapshotJson(snapshot), dir, parts: snapshot.record?.parts ?? null })}\n`
        : `${renderSnapshot(snapshot, dir, stdout.style, now().getTime()).join('\n')}\n`,
    );
    return EXIT.success;
  },
});
