import { listPrepared } from '../../../app/snapshots/find-entries.ts';
import { openSnapshotFolder } from '../../../app/snapshots/find-snapshots.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { renderPreparedList, toDamagedJson, toPreparedJson } from '../../render/host/prepared-sandboxes.ts';
import { renderSnapshotList } from '../../render/host/snapshots.ts';
import { toSnapshotJson } from '../../render/host/snapshot-json.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  takesAnyStateFormat: true,
  configure: () => undefined,
  async execute(_args, options, { env, stdout, stderr, advise, now }) {
    const prepared = listPrepared(env);
    const report = await openSnapshotFolder(env);
    const maxMib = env.snapshots?.maxMib ?? null;
    if (options.json) {
      const { dir, snapshots, omitted } = report;
      await stdout.write(
        `${JSON.stringify({ dir, isOn: env.snapshots !== null, maxMib, snapshots: snapshots.map(toSnapshotJson), omitted, prepared: prepared.sandboxes.map(toPreparedJson), damagedPrepared: prepared.damaged.map(toDamagedJson) })}\n`,
      );
      return EXIT.success;
    }
    const layout = { style: stdout.style, width: stdout.width(), nowMs: now().getTime() };
    const lines = renderSnapshotList(report, { ...layout, maxMib });
    const kept = renderPreparedList(prepared, layout);
    await stdout.write(`${[...lines, ...(kept.length === 0 ? [] : ['', ...kept])].join('\n')}\n`);
    if (env.snapshots === null) await stderr.write('Snapshots are off (VOIDBOX_SNAPSHOTS=off): each VM boots.\n');
    else if (report.snapshots.some(({ state }) => state !== 'usable'))
      await stderr.write(advise('Delete snapshots from which no VM can start: voidbox prune\n'));
    return EXIT.success;
  },
});
