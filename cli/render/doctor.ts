import type { Durability } from '../../setup/environment.ts';
import type { HostReport, PieceReport } from '../../setup/resolve.ts';
import type { VmMemory } from '../../client/vm-memory.ts';
import type { DiskRoom } from '../../store/file/disk-room.ts';
import { formatBytes } from '../../domain/units/bytes.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { describeRoom, MAKE_ROOM } from './disk.ts';
import type { Style } from './style.ts';
import { padEnd } from './width.ts';

export interface TemporalReport {
  readonly kind: 'embedded' | 'own';
  /** Null while the embedded server is not running. */
  readonly address: string | null;
  readonly namespace: string;
  readonly uiUrl: string | null;
  readonly problem: string | null;
}

const SURVIVES: Readonly<Record<Durability, string>> = {
  process: 'runs survive the death of any process, and a power cut with their results',
  power: 'runs survive a power cut with all that they recorded',
};

/** `voidbox doctor`: each piece with what is missing and the line that mends it; then what runs will get. */
export function renderDoctor(
  report: HostReport,
  temporal: TemporalReport,
  folders: {
    readonly cacheDir: string;
    readonly stateDir: string;
    readonly disk: DiskRoom;
    readonly vmMemory: VmMemory;
    readonly durability: Durability;
  },
  style: Style,
): string[] {
  const { system } = report;
  const nameWidth = Math.max(...report.pieces.map((piece) => piece.name.length));
  const versionWidth = Math.max(...report.pieces.map((piece) => (piece.version ?? '').length));
  const ready = report.isReady ? style.green('runs can start') : style.red('runs cannot start');
  return [
    `${sanitizeLine(system.name)}, Linux ${system.kernel}, ${system.cpus} CPUs, ${system.memoryFreeMib} of ${system.memoryTotalMib} MiB free`,
    '',
    style.bold('Pieces'),
    ...report.pieces.flatMap((piece) => renderPiece(piece, { nameWidth, versionWidth }, style)),
    '',
    style.bold('Isolation'),
    `  KVM        ${report.kvm.kind}: ${report.kvm.explanation}`,
    `  runs get   ${report.isolation.level ?? 'nothing'}, accelerator ${report.isolation.accelerator}: ${report.isolation.explanation}`,
    `  kernel     ${report.kernelKind}`,
    `  memory     ${describeMemory(folders.vmMemory)}`,
    ...fixes([report.kvm.remedy, report.isolation.remedy], style),
    '',
    style.bold('Temporal'),
    `  ${renderTemporal(temporal, style)}`,
    '',
    `${style.dim('cache')} ${folders.cacheDir}`,
    `${style.dim('state')} ${folders.stateDir} ${style.dim(`(${formatBytes(folders.disk.availableBytes)} of ${formatBytes(folders.disk.sizeBytes)} free)`)}`,
    `${style.dim('durability')} ${folders.durability} ${style.dim(`(${SURVIVES[folders.durability]})`)}`,
    ...(folders.disk.isLow
      ? [`  ${style.red('✗')} ${describeRoom(folders.disk, folders.stateDir)}`, ...fixes([MAKE_ROOM], style)]
      : []),
    '',
    ready,
  ];
}

/** The machine's memory stands in the first line; a worker in a container may have less. */
function describeMemory({ budgetMib, totalMib, availableMib, limitedBy }: VmMemory): string {
  const source = limitedBy === null ? "the machine's memory" : `the limit of the cgroup ${sanitizeLine(limitedBy)}`;
  return `VMs together may take ${budgetMib} MiB (${totalMib} MiB, ${source}, less a share for the host); ${availableMib} MiB are available`;
}

/** Never cut: the path is what the doctor is asked for. */
function renderPiece(
  piece: PieceReport,
  { nameWidth, versionWidth }: { readonly nameWidth: number; readonly versionWidth: number },
  style: Style,
): string[] {
  const name = padEnd(piece.name, nameWidth);
  if (piece.problem === null) {
    return [
      `  ${style.green('✓')} ${name}  ${padEnd(sanitizeLine(piece.version ?? ''), versionWidth)}  ${style.dim(`${sanitizeLine(piece.path ?? '')} (${piece.from ?? ''})`)}`,
    ];
  }
  return [
    `  ${style.red('✗')} ${name}  ${sanitizeLine(piece.problem)} ${style.dim(`(${piece.purpose})`)}`,
    ...fixes([piece.remedy], style),
  ];
}

function fixes(remedies: readonly (string | null)[], style: Style): string[] {
  const lines = new Set(remedies.filter((remedy) => remedy !== null).flatMap((remedy) => remedy.split('\n')));
  return [...lines].map((line) => `    ${style.cyan('fix:')} ${sanitizeLine(line)}`);
}

function renderTemporal(temporal: TemporalReport, style: Style): string {
  if (temporal.kind === 'own') {
    const where = `your server ${temporal.address ?? ''}, namespace ${temporal.namespace}`;
    return temporal.problem === null
      ? `${style.green('✓')} ${where}`
      : `${style.red('✗')} ${where}: ${sanitizeLine(temporal.problem)}`;
  }
  if (temporal.address === null) return `${style.green('✓')} embedded, not running; the next run starts it`;
  return `${style.green('✓')} embedded, ${temporal.address}, UI ${temporal.uiUrl ?? ''}`;
}
