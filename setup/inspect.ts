/** What `voidbox doctor` shows: every piece, the hardware, the isolation that runs get. Nothing is fetched or changed. */
import { availableParallelism, freemem, release, totalmem } from 'node:os';
import type { Environment } from './environment.ts';
import { missingPackages } from './distribution-packages.ts';
import { inspectKvm, type KvmReport } from './hardware.ts';
import type { FoundPiece, KernelKind, Piece, PieceName, SetupContext } from './piece.ts';
import { PIECES } from './pieces.ts';
import { makeContext, pieceSource } from './context.ts';
import { SetupError } from './setup-error.ts';

export interface PieceReport {
  readonly name: PieceName;
  readonly purpose: string;
  /** The variable that names it outright. */
  readonly variable: string | null;
  /** Null when it is missing. */
  readonly path: string | null;
  readonly version: string | null;
  /** A variable's name, `PATH` or `cache`. */
  readonly from: string | null;
  readonly problem: string | null;
  /** What to type; null when nothing is missing. */
  readonly remedy: string | null;
}

export interface IsolationReport {
  /** What runs get, or null while pieces are missing. */
  readonly level: 'microvm' | null;
  readonly accelerator: 'kvm' | 'tcg';
  readonly explanation: string;
  /** How to get better, or null. */
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
  /** True when runs can start now. */
  readonly isReady: boolean;
}

const MIB = 1_048_576;

/** A SetupError only where Voidbox can't run at all; everything else is in the report. */
export async function inspectHost(env: Environment): Promise<HostReport> {
  const context = await makeContext(env, undefined);
  const need = pieceSource(context, false);
  const pieces = await Promise.all(PIECES.map((piece) => inspectPiece(context, piece, need)));
  const kvm = await inspectKvm(context, pieces.find((piece) => piece.name === 'keeper')?.path ?? null);
  const isReady = pieces.every((piece) => piece.problem === null || isOnlyForImage(piece.name, pieces));
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
    isReady,
  };
}

/** The agent and busybox are not missed where the image is there without them. */
function isOnlyForImage(name: PieceName, pieces: readonly PieceReport[]): boolean {
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
  const report = { name: piece.name, purpose: piece.purpose, variable: piece.variable };
  try {
    const found = await need(piece.name);
    return { ...report, path: found.path, version: found.version, from: found.from, problem: null, remedy: null };
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    const missing = piece.packages === null ? error : missingPackages(context, [piece]);
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

function describeIsolation(kvm: KvmReport, isReady: boolean): IsolationReport {
  const accelerator = kvm.kind === 'hardware' ? 'kvm' : 'tcg';
  const how =
    accelerator === 'kvm'
      ? "micro-VMs on the CPU's virtualization, QEMU jailed by bubblewrap"
      : 'micro-VMs emulated by QEMU (TCG, slower; no hardware isolation), QEMU jailed by bubblewrap';
  return {
    level: isReady ? 'microvm' : null,
    accelerator,
    explanation: isReady ? how : 'no run can start until the missing pieces are here; nothing weaker is used instead',
    remedy: kvm.remedy,
  };
}
