import type { Durability } from '../../../setup/environment.ts';
import type { FreeSpace } from '../../../setup/cache/free-space.ts';
import type { CacheReport, HostReport, PieceReport, RustReport } from '../../../setup/resolve.ts';
import type { FolderReport } from '../../../setup/cache/write-probe.ts';
import type { WaitingVms } from '../../../client/vms/warm-vms.ts';
import type { VmMemory } from '../../../client/vms/vm-memory.ts';
import type { DiskRoom } from '../../../activities/ports/local-store.ts';
import { formatBytes } from '../../../domain/units/bytes.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { type PreparedOfHost, renderPreparedOfHost } from './prepared-sandboxes.ts';
import { renderSnapshotsOfHost, type SnapshotsOfHost } from './snapshots.ts';
import { describeRoom, MAKE_ROOM } from './disk.ts';
import type { AdvisingStyle } from '../text/style.ts';
import { padEnd } from '../text/width.ts';

export interface TemporalReport {
  readonly kind: 'embedded' | 'own';
  /** Null while the embedded server is not running. */
  readonly address: string | null;
  readonly namespace: string;
  readonly uiUrl: string | null;
  readonly problem: string | null;
  /** The change that repairs the problem; null if there is no problem. */
  readonly remedy: string | null;
  /**
   * Whether a worker of your own Temporal server polls for runs; null if that is unknown, and for the embedded server.
   */
  readonly hasWorker: boolean | null;
}

const SURVIVES: Readonly<Record<Durability, string>> = {
  process: 'runs survive the death of any process; a power cut may cost the last seconds of output',
  power: 'runs survive a power cut with everything that they recorded',
};

/** `voidbox doctor`: each piece with what is missing and the command that gets it; then what runs will get. */
export function renderDoctor(
  report: HostReport,
  temporal: TemporalReport,
  folders: {
    readonly state: FolderReport;
    readonly disk: DiskRoom;
    readonly vmMemory: VmMemory;
    /** VMs that wait for stages; absent: none. */
    readonly waiting?: readonly WaitingVms[];
    readonly durability: Durability;
    readonly snapshots: SnapshotsOfHost;
    readonly prepared: PreparedOfHost;
  },
  style: AdvisingStyle,
): string[] {
  const { system } = report;
  const isolationRemedy = report.isolation.remedy;
  const nameWidth = Math.max(...report.pieces.map((piece) => piece.name.length));
  const versionWidth = Math.max(...report.pieces.map((piece) => (piece.version ?? '').length));
  const ready = !report.isReady
    ? style.red('runs cannot start')
    : temporal.problem === null
      ? style.green('runs can start')
      : style.red('runs cannot start: there is no Temporal server for them');
  return [
    `${sanitizeLine(system.name)}, Linux ${system.kernel}, ${system.cpus} CPUs, ${system.memoryFreeMib} of ${system.memoryTotalMib} MiB free`,
    '',
    style.bold('Pieces'),
    ...report.pieces.flatMap((piece) => renderPiece(piece, { nameWidth, versionWidth }, style)),
    ...renderRust(report.rust, { nameWidth, versionWidth }, style),
    '',
    style.bold('Isolation'),
    `  KVM        ${report.kvm.kind}: ${report.kvm.explanation}`,
    ...fixes([report.kvm.remedy], style),
    `  runs get   ${report.isolation.level ?? 'nothing'}, accelerator ${report.isolation.accelerator}: ${report.isolation.explanation}`,
    ...fixes([isolationRemedy === report.kvm.remedy ? null : isolationRemedy], style),
    `  kernel     ${report.kernelKind}`,
    `  memory     ${describeMemory(folders.vmMemory)}`,
    ...describeWaiting(folders.waiting ?? []),
    ...describeLimits(report.unlimited),
    '',
    style.bold('Temporal'),
    `  ${renderTemporal(temporal, style)}`,
    ...fixes([temporal.remedy], style),
    ...renderWorkers(temporal, style),
    '',
    style.bold('Folders'),
    ...renderCache(report.cache, style),
    ...renderState(folders.state, folders.disk, style),
    ...renderSnapshotsOfHost(folders.snapshots, style),
    ...renderPreparedOfHost(folders.prepared, style),
    `  durability ${folders.durability} ${style.dim(`(${SURVIVES[folders.durability]})`)}`,
    '',
    ready,
  ];
}

/** Describes the memory for VMs. The first line shows the machine's memory; a worker in a container may have less. */
function describeMemory({ budgetMib, totalMib, availableMib, limitedBy }: VmMemory): string {
  const source = limitedBy === null ? "the machine's memory" : `the limit of the cgroup ${sanitizeLine(limitedBy)}`;
  return `VMs together may take ${budgetMib} MiB (${totalMib} MiB, ${source}, less a share for the host); ${availableMib} MiB are available`;
}

function describeWaiting(waiting: readonly WaitingVms[]): string[] {
  if (waiting.length === 0) return [];
  const shapes = waiting.map(({ shape, count }) => `${sanitizeLine(shape)}=${count}`);
  return [`  pool       VMs that wait for stages: ${shapes.join(', ')}`];
}

/** The limits of a VM by control groups, beside those of its guest. */
function describeLimits(unlimited: HostReport['unlimited']): readonly string[] {
  if (unlimited === null) return [];
  const { cpu, memory } = unlimited;
  if (cpu === null && memory === null) return ['  limits     control groups limit the CPU and the memory of a VM'];
  const reasons = cpu === memory ? { 'CPU and memory': cpu } : { CPU: cpu, memory };
  return Object.entries(reasons).map(([what, reason]) =>
    reason === null
      ? `  limits     control groups limit the ${what} of a VM`
      : `  limits     no control group limits the ${what} of a VM: ${sanitizeLine(reason)}`,
  );
}

/** Renders a piece. The path is never cut, because users run the doctor to see it. */
function renderPiece(
  piece: PieceReport,
  { nameWidth, versionWidth }: { readonly nameWidth: number; readonly versionWidth: number },
  style: AdvisingStyle,
): string[] {
  const name = padEnd(piece.name, nameWidth);
  if (piece.problem === null) {
    return [
      `  ${style.green('✓')} ${name}  ${padEnd(sanitizeLine(piece.version ?? ''), versionWidth)}  ${style.dim(`${sanitizeLine(piece.path ?? '')} (${piece.from ?? ''})`)}`,
    ];
  }
  if (piece.isOptional) {
    const when = piece.name === 'postgres' ? 'the first token fetches it' : 'only runs that need it fetch it';
    const how = `${when}. Fetch it now: ${sanitizeLine(style.advise(piece.remedy ?? ''))}`;
    return [`  ${style.dim(`- ${name}  not here (${piece.purpose}): ${how}`)}`];
  }
  return [
    `  ${style.red('✗')} ${name}  ${sanitizeLine(piece.problem)} ${style.dim(`(${piece.purpose})`)}`,
    ...fixes([piece.remedy], style),
  ];
}

/** No piece: runs do not use it. */
function renderRust(
  rust: RustReport,
  { nameWidth, versionWidth }: { readonly nameWidth: number; readonly versionWidth: number },
  style: AdvisingStyle,
): string[] {
  const name = padEnd('rust', nameWidth);
  if (!rust.isNeeded) return [`  ${style.dim(`- ${name}  not needed: the keeper and the agent are built`)}`];
  if (rust.problem !== null)
    return [`  ${style.red('✗')} ${name}  ${sanitizeLine(rust.problem)}`, ...fixes([rust.remedy], style)];
  const why = `compiles the keeper and the agent; ${rust.minimumVersion} or newer`;
  return [
    `  ${style.green('✓')} ${name}  ${padEnd(sanitizeLine(rust.version ?? ''), versionWidth)}  ${style.dim(`${sanitizeLine(rust.path ?? '')} (${why})`)}`,
  ];
}

function renderCache(cache: CacheReport, style: AdvisingStyle): string[] {
  const rest =
    cache.neededBytes === 0
      ? 'all pieces are there'
      : `the missing pieces take up to ${formatBytes(cache.neededBytes)}`;
  return renderFolder('cache', cache, `${describeFree(cache)}; ${rest}`, style);
}

function renderState(state: FolderReport, disk: DiskRoom, style: AdvisingStyle): string[] {
  const rest = `VMs start with ${formatBytes(disk.floorBytes)} or more`;
  const low = { path: state.path, problem: describeRoom(disk, state.path), remedy: MAKE_ROOM };
  const shown = state.problem === null && disk.isLow ? low : state;
  return renderFolder('state', shown, `${describeFree(disk)}; ${rest}`, style);
}

function describeFree({ availableBytes, sizeBytes }: FreeSpace): string {
  return `${formatBytes(availableBytes)} of ${formatBytes(sizeBytes)} free`;
}

function renderFolder(
  name: string,
  { path, problem, remedy }: FolderReport,
  details: string,
  style: AdvisingStyle,
): string[] {
  if (problem === null) return [`  ${style.green('✓')} ${name}  ${sanitizeLine(path)} ${style.dim(`(${details})`)}`];
  return [`  ${style.red('✗')} ${name}  ${sanitizeLine(problem)}`, ...fixes([remedy], style)];
}

function fixes(remedies: readonly (string | null)[], style: AdvisingStyle): string[] {
  const lines = new Set(remedies.filter((remedy) => remedy !== null).flatMap((remedy) => remedy.split('\n')));
  return [...lines].map((line) => `    ${style.cyan('fix:')} ${sanitizeLine(style.advise(line))}`);
}

/** A server without a worker is no fault of this machine: runs wait. */
function renderWorkers({ hasWorker }: TemporalReport, style: AdvisingStyle): string[] {
  if (hasWorker === null) return [];
  return hasWorker
    ? [`  ${style.green('✓')} a worker takes runs`]
    : [
        `  ${style.yellow('!')} no worker has asked for runs in the last 5 minutes: runs wait for one`,
        ...fixes(['On each host that runs VMs: voidbox worker'], style),
      ];
}

function renderTemporal(temporal: TemporalReport, style: AdvisingStyle): string {
  if (temporal.kind === 'own') {
    const where =
      temporal.address === null
        ? 'your server'
        : `your server ${temporal.address}, namespace ${sanitizeLine(temporal.namespace)}`;
    return temporal.problem === null
      ? `${style.green('✓')} ${where}`
      : `${style.red('✗')} ${where}: ${sanitizeLine(temporal.problem)}`;
  }
  if (temporal.address === null) return `${style.green('✓')} embedded, not running; the next run starts it`;
  return `${style.green('✓')} embedded, ${temporal.address}, UI ${temporal.uiUrl ?? ''}`;
}
