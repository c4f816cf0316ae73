/** Texts of prepared sandboxes: their list, and one of them. */
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { formatBytes } from '../../../domain/units/bytes.ts';
import { formatAge } from '../../../domain/units/duration.ts';
import type { CheckpointRecord } from '../../../domain/run/checkpoint.ts';
import { describePrepared, type PreparedList, type PreparedSandbox } from '../../../store/prepared-sandboxes.ts';
import type { Style } from '../text/style.ts';
import { renderTable } from '../text/table.ts';

const SHOWN_ID = 12;
const NAME_WIDTH = 'folder'.length;

/** Returns no lines if there are no prepared sandboxes. */
export function renderPreparedList(
  { sandboxes, damaged }: PreparedList,
  { style, width, nowMs }: { readonly style: Style; readonly width: number; readonly nowMs: number },
): readonly string[] {
  if (sandboxes.length + damaged.length === 0) return [];
  const usedBytes = sandboxes.reduce((sum, { record }) => sum + record.usedBytes, 0);
  return [
    ...renderTable(
      ['NAME', 'ID', 'KIND', 'SIZE', 'DISK', 'IMAGE', 'MADE', 'SECRETS'],
      sandboxes.map(({ record }) => [
        record.name ?? '-',
        record.id.slice(0, SHOWN_ID),
        'prepared',
        formatBytes(record.usedBytes),
        `${record.diskMib} MiB`,
        nameImage(record),
        formatAge(nowMs - record.createdAtMs),
        record.withSecrets ? style.yellow('yes') : 'no',
      ]),
      { style, width },
    ),
    ...damaged.map(({ dir, problem }) => style.red(`damaged: ${sanitizeLine(dir)}: ${sanitizeLine(problem)}`)),
    '',
    `${sandboxes.length} prepared ${sandboxes.length === 1 ? 'sandbox' : 'sandboxes'}, ${formatBytes(usedBytes)}`,
  ];
}

function nameImage({ root }: CheckpointRecord): string {
  return sanitizeLine(root === null ? 'base' : root.slice(0, SHOWN_ID));
}

export function renderPrepared({ dir, record }: PreparedSandbox, style: Style, nowMs: number): readonly string[] {
  const rows: readonly (readonly [string, string])[] = [
    ['name', record.name ?? 'none'],
    ['id', record.id],
    ['kind', 'prepared'],
    ['size', formatBytes(record.usedBytes)],
    ['disk', `${record.diskMib} MiB`],
    ['image', sanitizeLine(record.root ?? 'base')],
    ['made', formatAge(nowMs - record.createdAtMs)],
    ...(record.madeBy === undefined
      ? []
      : [['by', `stage ${sanitizeLine(record.madeBy.stage)} of ${sanitizeLine(record.madeBy.run)}`] as const]),
    ['secrets', record.withSecrets ? style.yellow('may be on the disk') : 'no'],
    ['folder', sanitizeLine(dir)],
  ];
  return rows.map(([name, value]) => `${style.dim(name.padEnd(NAME_WIDTH))}  ${value}`);
}

/** A prepared sandbox as `--json` shows it; documented in docs/reference/snapshots.md and kept stable. */
export function toPreparedJson({ record }: PreparedSandbox): object {
  const { v: _, name, madeBy, ...rest } = record;
  return { kind: 'prepared', ...rest, name: name ?? null, madeBy: madeBy ?? null };
}

export function renderMade({ record }: PreparedSandbox, style: Style): string {
  return `${style.green('made')} ${sanitizeLine(describePrepared(record))}: ${formatBytes(record.usedBytes)} of ${record.diskMib} MiB`;
}
