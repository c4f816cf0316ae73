/** Texts of prepared sandboxes: their list, and one of them. */
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { formatBytes } from '../../../domain/units/bytes.ts';
import { formatAge } from '../../../domain/units/duration.ts';
import { CHECKPOINT_LINKS, type CheckpointRecord } from '../../../domain/run/checkpoint.ts';
import type { PrunedSandboxes } from '../../../app/snapshots/prune-prepared.ts';
import {
  type DamagedSandbox,
  describePrepared,
  listNames,
  type PreparedList,
  type PreparedSandbox,
  sumPrepared,
} from '../../../store/prepared-sandboxes.ts';
import type { AdvisingStyle, Style } from '../text/style.ts';
import { renderTable } from '../text/table.ts';

const SHOWN_ID = 12;
const NAME_WIDTH = 'folder'.length;

/** Returns no lines if there are no prepared sandboxes. */
export function renderPreparedList(
  { sandboxes, damaged }: PreparedList,
  { style, width, nowMs }: { readonly style: Style; readonly width: number; readonly nowMs: number },
): readonly string[] {
  if (sandboxes.length + damaged.length === 0) return [];
  return [
    ...renderTable(
      ['NAME', 'ID', 'KIND', 'SIZE', 'DISK', 'IMAGE', 'MADE', 'SECRETS'],
      sandboxes.map(({ record }) => [
        record.name ?? '-',
        record.id.slice(0, SHOWN_ID),
        describeKind(record),
        formatBytes(record.usedBytes),
        `${record.diskMib} MiB`,
        nameImage(record),
        formatAge(nowMs - record.createdAtMs),
        record.withSecrets ? style.yellow('yes') : 'no',
      ]),
      { style, width },
    ),
    ...damaged.map(({ id, problem }) => style.red(`damaged: ${id.slice(0, SHOWN_ID)}: ${sanitizeLine(problem)}`)),
    '',
    `${countPrepared(sandboxes.length)}, ${formatBytes(sumPrepared({ sandboxes, damaged: [] }))}`,
  ];
}

function countPrepared(count: number): string {
  return count === 1 ? '1 prepared sandbox' : `${count} prepared sandboxes`;
}

function describeKind({ memory }: CheckpointRecord): string {
  return memory === undefined ? 'prepared' : 'with memory';
}

function listMemory({ memory }: CheckpointRecord): readonly (readonly [string, string])[] {
  if (memory === undefined) return [];
  const { memoryMib, vcpus, links } = memory;
  return [
    [
      'memory',
      `${memoryMib} MiB, ${vcpus} vCPU${vcpus === 1 ? '' : 's'}, ${links.length} of ${CHECKPOINT_LINKS} links`,
    ],
  ];
}

function nameImage({ root }: CheckpointRecord): string {
  return sanitizeLine(root === null ? 'base' : root.slice(0, SHOWN_ID));
}

export function renderPrepared({ dir, record }: PreparedSandbox, style: Style, nowMs: number): readonly string[] {
  const rows: readonly (readonly [string, string])[] = [
    ['name', record.name ?? 'none'],
    ['id', record.id],
    ['kind', describeKind(record)],
    ...listMemory(record),
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

export function renderDamaged({ id, dir, usedBytes, problem }: DamagedSandbox, style: Style): readonly string[] {
  const rows: readonly (readonly [string, string])[] = [
    ['id', id],
    ['kind', 'prepared'],
    ['state', style.red(`damaged: ${sanitizeLine(problem)}`)],
    ['size', formatBytes(usedBytes)],
    ['folder', sanitizeLine(dir)],
  ];
  return rows.map(([name, value]) => `${style.dim(name.padEnd(NAME_WIDTH))}  ${value}`);
}

/** A damaged prepared sandbox as `--json` shows it; documented in docs/reference/cli.md and kept stable. */
export function toDamagedJson({ id, usedBytes, problem }: DamagedSandbox): object {
  return { id, usedBytes, problem };
}

export function renderMade({ record }: PreparedSandbox, style: Style): string {
  return `${style.green('made')} ${sanitizeLine(describePrepared(record))}: ${formatBytes(record.usedBytes)} of ${record.diskMib} MiB`;
}

export function renderMerged(before: CheckpointRecord, { record }: PreparedSandbox, style: Style): string {
  const links = before.memory?.links.length ?? 1;
  const name = sanitizeLine(describePrepared(record));
  if (links === 1) return `${name} has one link, so there is nothing to merge`;
  const sizes = `${formatBytes(record.usedBytes)} instead of ${formatBytes(before.usedBytes)}`;
  return `${style.green('merged')} ${name}: ${links} links are one, ${sizes}`;
}

/** The prepared sandboxes of a state folder, for `doctor`. */
export interface PreparedOfHost {
  readonly list: PreparedList;
  readonly maxMib: number;
}

/** The lines of `doctor`. */
export function renderPreparedOfHost({ list, maxMib }: PreparedOfHost, style: AdvisingStyle): readonly string[] {
  const { sandboxes, damaged } = list;
  const usedBytes = sumPrepared(list);
  const maxBytes = maxMib * 1_048_576;
  const line = `prepared   ${sandboxes.length} ${style.dim(`(${formatBytes(usedBytes)} of at most ${formatBytes(maxBytes)})`)}`;
  const fix = (remedy: string): string => `    ${style.cyan('fix:')} ${remedy}`;
  return [
    ...(usedBytes < maxBytes
      ? [`  ${style.green('✓')} ${line}`]
      : [
          `  ${style.yellow('!')} ${line}: there is no room for another prepared sandbox`,
          fix(`${style.advise('voidbox snapshot delete ID')}, or raise VOIDBOX_PREPARED_MAX_MB`),
        ]),
    ...damaged.flatMap(({ id, dir, problem }) => [
      `  ${style.yellow('!')} prepared   no VM can start from ${sanitizeLine(dir)}: ${sanitizeLine(problem)}`,
      fix(style.advise(`voidbox snapshot delete ${id.slice(0, SHOWN_ID)}`)),
    ]),
  ];
}

/** The lines of `prune`. @param verb `deleted` or `would delete` */
export function renderPrunedPrepared({ kept, removed }: PrunedSandboxes, verb: string): readonly string[] {
  const { sandboxes } = kept;
  const bytes = removed.reduce((sum, { usedBytes }) => sum + usedBytes, 0);
  const folders = removed.length === 1 ? '1 folder' : `${removed.length} folders`;
  return [
    ...(removed.length === 0
      ? []
      : [`${verb} ${folders} of prepared sandboxes that no process makes any longer (${formatBytes(bytes)})`]),
    ...(sandboxes.length === 0
      ? []
      : [
          `${countPrepared(sandboxes.length)} (${formatBytes(sumPrepared(kept))}) ${sandboxes.length === 1 ? 'stays' : 'stay'}: ${sanitizeLine(listNames(sandboxes))}`,
        ]),
  ];
}
