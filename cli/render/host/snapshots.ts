/** Texts of snapshots: their list, one of them, what a command did with them. */
import type { BaseReport } from '../../../app/snapshots/make-bases.ts';
import type { BaseSize } from '../../../app/snapshots/base-sizes.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { formatBytes } from '../../../domain/units/bytes.ts';
import { formatAge, formatDurationMs } from '../../../domain/units/duration.ts';
import type { Snapshot, SnapshotFolderReport } from '../../../setup/snapshots/snapshot-store.ts';
import type { PrunedSnapshots } from '../../../app/snapshots/prune-snapshots.ts';
import type { AdvisingStyle, Style } from '../text/style.ts';
import { renderTable } from '../text/table.ts';

export interface SnapshotsOfHost {
  readonly report: Pick<SnapshotFolderReport, 'dir' | 'problem' | 'remedy' | 'snapshots'>;
  /** Null: snapshots are off. */
  readonly maxMib: number | null;
}

/** Enough of a key to name it. */
const SHOWN_KEY = 12;

export function shortenKey(key: string): string {
  return sanitizeLine(/^[0-9a-f]{64}$/.test(key) ? key.slice(0, SHOWN_KEY) : key);
}

export function sumSizes(snapshots: readonly Snapshot[]): number {
  return snapshots.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}

export function renderSnapshotList(
  { snapshots, omitted }: SnapshotFolderReport,
  {
    style,
    width,
    nowMs,
    maxMib,
  }: { readonly style: Style; readonly width: number; readonly nowMs: number; readonly maxMib: number | null },
): readonly string[] {
  if (snapshots.length === 0) return ['no snapshots'];
  const limit = maxMib === null ? '' : `; the limit is ${formatBytes(maxMib * 1_048_576)}`;
  return [
    ...renderTable(
      ['KEY', 'KIND', 'SIZE', 'VM', 'MADE', 'USED', 'STATE'],
      snapshots.map((snapshot) => [
        shortenKey(snapshot.key),
        snapshot.kind,
        formatBytes(snapshot.sizeBytes),
        describeVm(snapshot),
        snapshot.record === null ? '-' : formatAge(nowMs - snapshot.record.createdAtMs),
        snapshot.usedAtMs === null ? '-' : formatAge(nowMs - snapshot.usedAtMs),
        describeState(snapshot, style),
      ]),
      { style, width },
    ),
    '',
    `${snapshots.length} ${snapshots.length === 1 ? 'snapshot' : 'snapshots'}, ${formatBytes(sumSizes(snapshots))}${limit}`,
    ...(omitted === 0 ? [] : [`${omitted} more entries of the folder are not listed`]),
  ];
}

function describeVm({ record }: Snapshot): string {
  if (record === null) return '-';
  const { vmm, memoryMib, vcpus, rootDiskBytes, hasMounts } = record;
  return [
    `${memoryMib} MiB`,
    ...(vcpus === null ? [] : [describeVcpus(vcpus)]),
    ...(rootDiskBytes === null ? [] : [`image of ${formatBytes(rootDiskBytes)}`]),
    ...(hasMounts ? ['mounts'] : []),
    ...(vmm === null ? [] : [sanitizeLine(vmm)]),
  ].join(', ');
}

function describeVcpus(vcpus: number): string {
  return vcpus === 1 ? '1 vCPU' : `${vcpus} vCPUs`;
}

export function describeState({ state, problem, lastStartFailed }: Snapshot, style: Style): string {
  switch (state) {
    case 'usable':
      return lastStartFailed ? style.yellow('usable, the last start failed') : style.green('usable');
    case 'earlier-boot':
      return style.dim('of an earlier boot of the host');
    case 'replaced':
      return style.dim('of a VMM, kernel or initramfs that was replaced');
    case 'damaged':
      return style.red(`damaged: ${sanitizeLine(problem ?? '')}`);
  }
}

/** Renders a snapshot with all parts of its key. */
export function renderSnapshot(snapshot: Snapshot, dir: string, style: Style, nowMs: number): readonly string[] {
  const { record } = snapshot;
  const rows: readonly (readonly [string, string])[] = [
    ['key', sanitizeLine(snapshot.key)],
    ['kind', snapshot.kind],
    ['state', describeState(snapshot, style)],
    ['size', formatBytes(snapshot.sizeBytes)],
    ['folder', sanitizeLine(`${dir}/${snapshot.key}`)],
    ...(snapshot.usedAtMs === null ? [] : [['used', formatAge(nowMs - snapshot.usedAtMs)] as const]),
    ...(record === null
      ? []
      : [
          ['made', formatAge(nowMs - record.createdAtMs)] as const,
          ['VM', describeVm(snapshot)] as const,
          ...Object.entries(record.parts)
            .filter(([name]) => name !== 'arguments')
            .map(([name, value]) => [name, value === null ? 'none' : describeValue(value)] as const),
        ]),
  ];
  const args = record?.parts['arguments'];
  return [
    ...rows.map(([name, value]) => `${style.dim(sanitizeLine(name).padEnd(NAME_WIDTH))}  ${value}`),
    ...(Array.isArray(args) ? [style.dim('arguments'), ...args.map((each) => `  ${describeValue(each)}`)] : []),
  ];
}

const NAME_WIDTH = 'rootDiskBytes'.length;

function describeValue(value: unknown): string {
  return sanitizeLine(typeof value === 'string' ? value : JSON.stringify(value));
}

/** @param verb `deleted` or `would delete` */
export function renderPrunedSnapshots({ removed, problem, remedy }: PrunedSnapshots, verb: string): readonly string[] {
  if (problem !== null)
    return [`snapshots stayed: ${sanitizeLine(remedy === null ? problem : `${problem}; fix: ${remedy}`)}`];
  if (removed.length === 0) return [];
  const what = removed.length === 1 ? '1 snapshot' : `${removed.length} snapshots`;
  return [
    `${verb} ${what} from which no VM can start (${formatBytes(sumSizes(removed))}): ${removed.map(({ key }) => shortenKey(key)).join(', ')}`,
  ];
}

/** The line of `doctor`. A problem is no reason why runs cannot start: VMs boot. */
export function renderSnapshotsOfHost({ report, maxMib }: SnapshotsOfHost, style: AdvisingStyle): readonly string[] {
  const name = 'snapshots ';
  if (maxMib === null) return [`  ${style.dim(`- ${name}off (VOIDBOX_SNAPSHOTS=off): each VM boots`)}`];
  if (report.problem !== null)
    return [
      `  ${style.yellow('!')} ${name}each VM boots: ${sanitizeLine(report.problem)}`,
      ...(report.remedy === null ? [] : [`    ${style.cyan('fix:')} ${sanitizeLine(report.remedy)}`]),
    ];
  const { snapshots } = report;
  const useless = snapshots.filter(({ state }) => state !== 'usable');
  const limit = formatBytes(maxMib * 1_048_576);
  return [
    `  ${style.green('✓')} ${name}${snapshots.length} ${style.dim(`(${formatBytes(sumSizes(snapshots))} of at most ${limit}, in ${sanitizeLine(report.dir)})`)}`,
    ...(useless.length === 0
      ? []
      : [
          `  ${style.yellow('!')} ${name}no VM can start from ${useless.length} of them: damaged, of an earlier boot of the host, or of replaced files`,
          `    ${style.cyan('fix:')} ${style.advise('voidbox prune')}`,
        ]),
  ];
}

/** Describes a size as a spec names it. */
export function describeSize({ memoryMib, vcpus, image, hasMounts, mode }: BaseSize): string {
  const root = image === undefined ? 'base' : image.kind === 'dev' ? 'dev' : image.sha256.slice(0, SHOWN_KEY);
  return `${memoryMib} MiB, ${describeVcpus(vcpus)}, image ${root}${hasMounts ? ', read-only mounts' : ''}${mode === 'auto' ? '' : `, VMM ${mode}`}`;
}

export function renderBase({ size, result }: BaseReport, sizeBytes: number | null, style: Style): string {
  const shown = describeSize(size);
  if (result.outcome === 'failed') return `${style.red('no snapshot')} for ${shown}: ${sanitizeLine(result.reason)}`;
  const bytes = sizeBytes === null ? '' : `, ${formatBytes(sizeBytes)}`;
  const start = formatDurationMs(result.startMs);
  return result.outcome === 'exists'
    ? `${style.green('exists')} ${shortenKey(result.key)} for ${shown}${bytes}: a VM starts in ${start}`
    : `${style.green('made')} ${shortenKey(result.key)} for ${shown}${bytes}: a VM booted in ${formatDurationMs(result.bootMs)} and starts in ${start}`;
}
