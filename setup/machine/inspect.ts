/**
 * The report of `voidbox doctor`: every piece, the hardware, and the isolation of runs. It fetches and changes nothing.
 */
import { availableParallelism, freemem, release, totalmem } from 'node:os';
import type { Environment } from '../environment.ts';
import { createPackagesError } from '../pieces/distribution-packages.ts';
import { inspectKvm, inspectLimits, type KvmReport, type UnlimitedReport } from './hardware.ts';
import type { FoundPiece, KernelKind, Piece, PieceName, SetupContext } from '../pieces/piece.ts';
import { isOptionalPiece, PIECES } from '../pieces/pieces.ts';
import { makeContext, pieceSource } from '../pieces/context.ts';
import { freeSpaceAt, type FreeSpace } from '../cache/free-space.ts';
import { roomForBytes, findSpaceProblem } from './preflight.ts';
import { findCargo, MINIMUM_RUST, findRustBlocker } from '../pieces/rust-toolchain.ts';
import { SetupError } from '../setup-error.ts';
import type { OwnFolder } from '../cache/own-folder.ts';
import { inspectFolder, reportForeign, type FolderReport } from '../cache/write-probe.ts';

export interface PieceReport {
  readonly name: PieceName;
  readonly purpose: string;
  /** The variable that names the piece's path. */
  readonly variable: string | null;
  /** Null if it is missing. */
  readonly path: string | null;
  readonly version: string | null;
  /** The name of a variable, `PATH` or `cache`. */
  readonly from: string | null;
  readonly problem: string | null;
  /** The command to type; null if nothing is missing. */
  readonly remedy: string | null;
  /** Whether only some runs need it, and get it when they start; other runs start without it. */
  readonly isOptional: boolean;
}

export interface IsolationReport {
  /** The isolation of runs, or null while pieces are missing. */
  readonly level: 'microvm' | null;
  readonly accelerator: 'kvm' | 'tcg';
  readonly explanation: string;
  /** The way to better isolation or speed, or null. */
  readonly remedy: string | null;
}

export interface HostReport {
  readonly system: {
    readonly name: string;
    readonly kernel: string;
    readonly cpus: number;
    readonly memoryTotalMib: number;
    readonly memoryFreeMib: number;
  };
  readonly kernelKind: KernelKind;
  readonly pieces: readonly PieceReport[];
  readonly kvm: KvmReport;
  readonly isolation: IsolationReport;
  /** Null while the keeper is missing. */
  readonly unlimited: UnlimitedReport | null;
  readonly rust: RustReport;
  readonly cache: CacheReport;
  /** True if runs can start now. */
  readonly isReady: boolean;
}

/** The compiler of the keeper and the guest agent. */
export interface RustReport {
  /** False if both are built, or named by variables: then the other fields are not determined. */
  readonly isNeeded: boolean;
  readonly minimumVersion: string;
  /** The path of cargo. */
  readonly path: string | null;
  readonly version: string | null;
  readonly problem: string | null;
  readonly remedy: string | null;
}

/** The cache folder. If no piece is missing, it need not be writable. */
export interface CacheReport extends FreeSpace, FolderReport {
  /** The most space that the missing pieces need on its disk; 0 if no piece is missing. */
  readonly neededBytes: number;
}

const MIB = 1_048_576;

/** Throws a SetupError only if Voidbox cannot run at all; every other problem is in the report. */
export async function inspectHost(
  env: Environment,
  freeSpace: (path: string) => FreeSpace = freeSpaceAt,
): Promise<HostReport> {
  const context = await makeContext(env, undefined);
  const need = pieceSource(context, false);
  const pieces = await Promise.all(PIECES.map((piece) => inspectPiece(context, piece, need)));
  const keeper = pieces.find((piece) => piece.name === 'keeper')?.path ?? null;
  const [kvm, unlimited] = await Promise.all([inspectKvm(context, keeper), inspectLimits(context, keeper)]);
  const isOwn = reportForeign(cacheOf(env)).problem === null;
  const isReady = isOwn && pieces.every((piece) => piece.problem === null || mayBeMissing(piece, pieces));
  // A wrong piece that a variable names is not fetched, because the variable takes precedence.
  const missing = pieces
    .filter((piece) => piece.problem !== null && !mayBeMissing(piece, pieces))
    .map(({ name }) => name)
    .filter((name) => env.piecePaths[name] === undefined);
  return {
    system: {
      name: context.system.name,
      kernel: release(),
      cpus: availableParallelism(),
      memoryTotalMib: Math.round(totalmem() / MIB),
      memoryFreeMib: Math.round(freemem() / MIB),
    },
    kernelKind: context.kernelKind,
    pieces,
    kvm,
    isolation: describeIsolation(kvm, isReady),
    unlimited,
    rust: await inspectRust(context, missing),
    cache: await inspectCache(env, missing, freeSpace(env.cacheDir)),
    isReady,
  };
}

/** The agent and busybox may be missing if the image exists without them. */
function mayBeMissing({ name, isOptional }: PieceReport, pieces: readonly PieceReport[]): boolean {
  if (isOptional) return true;
  return (
    (name === 'agent' || name === 'busybox') &&
    pieces.some((piece) => piece.name === 'initramfs' && piece.problem === null)
  );
}

async function inspectPiece(
  context: SetupContext,
  piece: Piece,
  need: (name: PieceName) => Promise<FoundPiece>,
): Promise<PieceReport> {
  const isOptional = isOptionalPiece(piece.name);
  const report = { name: piece.name, purpose: piece.purpose, variable: piece.variable, isOptional };
  try {
    const found = await need(piece.name);
    return { ...report, path: found.path, version: found.version, from: found.from, problem: null, remedy: null };
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    const missing = piece.packages === null ? error : createPackagesError(context, [piece]);
    return {
      ...report,
      path: null,
      version: null,
      from: null,
      problem: error.message,
      remedy: error.remedy ?? missing.remedy,
    };
  }
}

async function inspectRust(context: SetupContext, missing: readonly PieceName[]): Promise<RustReport> {
  const isNeeded = missing.includes('keeper') || missing.includes('agent');
  const none = { isNeeded, minimumVersion: MINIMUM_RUST, path: null, version: null, problem: null, remedy: null };
  if (!isNeeded) return none;
  const blocker = await findRustBlocker(context);
  if (blocker !== null) return { ...none, problem: blocker.message, remedy: blocker.remedy };
  return { ...none, ...(await findCargo(context)) };
}

function cacheOf({ cacheDir }: Environment): OwnFolder {
  return { path: cacheDir, what: 'cache folder', variable: 'VOIDBOX_CACHE_DIR' };
}

async function inspectCache(env: Environment, missing: readonly PieceName[], free: FreeSpace): Promise<CacheReport> {
  const path = env.cacheDir;
  const report = { ...free, neededBytes: roomForBytes(missing), path, problem: null, remedy: null };
  const cache = cacheOf(env);
  // If no piece is missing, the folder need not be writable, but no other user may write to it.
  if (missing.length === 0) return { ...report, ...reportForeign(cache) };
  const folder = await inspectFolder(cache);
  const space = folder.problem === null ? findSpaceProblem(path, missing, free.availableBytes) : null;
  return { ...report, ...(space === null ? folder : { problem: space.message, remedy: space.remedy }) };
}

function describeIsolation(kvm: KvmReport, isReady: boolean): IsolationReport {
  const accelerator = kvm.kind === 'hardware' ? 'kvm' : 'tcg';
  const how =
    accelerator === 'kvm'
      ? "micro-VMs on the CPU's virtualization, QEMU jailed by bubblewrap; mode: vmm can run"
      : 'micro-VMs emulated by QEMU (TCG, slower; no hardware isolation), QEMU jailed by bubblewrap; mode: vmm cannot run';
  return {
    level: isReady ? 'microvm' : null,
    accelerator,
    explanation: isReady
      ? how
      : 'no run can start until the missing pieces are installed; nothing weaker is used instead',
    remedy: kvm.remedy,
  };
}
