/** The shapes of the keeper's local API (docs/reference/keeper.md), and the checks that parse its answers. */
import { CodedError, isCodedError } from '../domain/errors/coded-error.ts';
import type { EgressPlan } from '../domain/plan/egress.ts';
import type { VmLimits } from '../domain/run/event.ts';
import { endsVm } from '../domain/errors/error-code.ts';
import { errorCodeOfKeeper } from './keeper-code.ts';
import { opWords } from './op-words.ts';

export const API_VERSION = 1;

/** The limit of a Unix socket's path in bytes. */
export const SOCKET_PATH_BYTES = 107;

/** The longest request line that the keeper reads, newline included. */
export const REQUEST_LINE_BYTES = 1024 * 1024;

/** The longest answer line that a client reads; no keeper sends a longer one. */
export const ANSWER_LINE_BYTES = 2 * 1024 * 1024;

/** Texts of an answer may quote the guest, so they are cut at this length. */
const MESSAGE_CHARACTERS = 2_000;

export type Answer = Readonly<Record<string, unknown>>;

export type VmState = 'new' | 'running' | 'lost' | 'stopped';
export type ExitReason = 'exited' | 'timeout' | 'output-limit' | 'cannot-start' | 'killed';
export type SignalName = 'SIGTERM' | 'SIGKILL' | 'SIGINT';
export type OutputStream = 'stdout' | 'stderr';

/** Bytes of one stream, which may come between bytes of the other. */
export interface OutputPiece {
  readonly stream: OutputStream;
  readonly bytes: Uint8Array;
}

/** The VMM of a VM with its own settings: one member for each VMM. */
export type VmmSettings = QemuSettings | NativeVmmSettings;

export interface QemuSettings {
  readonly name: 'qemu';
  /** `qemu-system-x86_64`. */
  readonly program: string;
  readonly accelerator: 'kvm' | 'tcg';
  readonly bwrap: string;
  readonly mke2fs?: string;
}

/** `voidbox-vmm`, which has no accelerator but hardware KVM. */
export interface NativeVmmSettings {
  readonly name: 'vmm';
  readonly program: string;
  /** `voidbox-folders`, which serves the mounts. */
  readonly folders: string;
  readonly mke2fs?: string;
  /** Absent: `host`. */
  readonly cpu?: CpuTemplate;
  /** The root disk is memory that VMs share; the guest's kernel has the drivers. Absent: it is a block device. */
  readonly pmem?: boolean;
}

/** The features of the host's CPU that a guest of `voidbox-vmm` sees: all, or those that most CPUs have. */
export type CpuTemplate = 'host' | 'portable';

export interface LaunchConfig {
  /** `run/scope/generation`. */
  readonly vmKey: string;
  readonly memoryMib: number;
  readonly vcpus: number;
  readonly diskMib: number;
  readonly kernel: { readonly path: string; readonly kind: 'debian' | 'voidbox' };
  readonly initramfs: string;
  readonly vmm: VmmSettings;
  /** A read-only ext4 disk that is the guest's root; absent: the initramfs is the root. */
  readonly rootDisk?: string;
  /** Read-only mounts; writable mounts are copied in and out as tars. */
  readonly mounts: readonly { readonly hostPath: string; readonly guestPath: string }[];
  /** The hosts and services that the guest may reach; absent: none. */
  readonly egress?: EgressPlan;
  /** The disk with which the VM starts, a copy of this file; absent: an empty disk. */
  readonly from?: {
    readonly disk: string;
    /** The full saves with which the VM continues, the base first; absent: its guest boots. */
    readonly chain?: readonly SavedLink[];
  };
  readonly orphanTimeoutMs?: number;
  readonly bootTimeoutMs?: number;
  readonly guestSilenceMs?: number;
  readonly consoleMaxBytes?: number;
  readonly spoolMaxBytes?: number;
  /** The time that the VM waits while the host's disk is full. */
  readonly diskFullTimeoutMs?: number;
  /** The limit for all VMs of the folder; above it, the launch fails with `vm/no-capacity`. */
  readonly budget?: {
    readonly memoryMib: number;
    /** The memory that this VM uses in addition to its guest's memory. */
    readonly overheadMib: number;
  };
  /** The folder of snapshots of booted guests, which all keepers share; absent: each VM boots. */
  readonly snapshots?: SnapshotFolder;
  /** Removes the run directory when the VM is stopped, because its key is never launched again. */
  readonly discard?: boolean;
  /** The VM waits for a launch that takes it. */
  readonly waits?: boolean;
  /** The running VM may be saved in full; only `voidbox-vmm` can do so. */
  readonly fullSaves?: boolean;
  /** A note for clients, which read it from the run directory. */
  readonly note?: Readonly<Record<string, unknown>>;
}

/** The files of one full save without its disk. */
export interface SavedLink {
  readonly id: string;
  readonly state: string;
  readonly memory: string;
}

export interface SnapshotFolder {
  /** An absolute path. Only its user may read the folder. */
  readonly dir: string;
  /** The limit of all snapshots of the folder together. */
  readonly maxMib: number;
}

/** `stdinBytes` of a command whose input has no known length; `exec.stdin.end` reports the length later. */
export const OPEN_STDIN_BYTES = Number.MAX_SAFE_INTEGER;

/** The VM is paused because the host's disk is full, and its deadlines are paused too. */
export interface FullDisk {
  readonly forMs: number;
  /** After this time the keeper ends the VM with `host/disk-full`. */
  readonly limitMs: number;
  readonly availableBytes: number;
  /** With this many free bytes the VM continues. */
  readonly neededBytes: number;
}

/**
 * The ops that came after the first release, in the order of the keeper's own list. A keeper lives as long as its VM,
 * so its build may be older than its client. The client sends such an op only to a keeper whose `status` lists it.
 */
export const FEATURES: readonly string[] = ['checkpoint', 'checkpoint.full', 'take'];

/** The status of a VM, as its keeper reports it. */
export interface VmStatus {
  readonly state: 'booting' | 'waiting' | 'ready' | 'stopping';
  readonly vmKey: string;
  readonly fence: number;
  readonly bootMs: number;
  /** The time at which the keeper started. */
  readonly startedAtMs: number;
  /** The number of VMs that were started until one answered. */
  readonly boots: number;
  readonly start: VmStart;
  readonly vmm: string;
  readonly accelerator: string;
  readonly kernel: string;
  readonly jail: string;
  readonly memoryMib: number;
  /** Null: the keeper is of a build without them. */
  readonly limits: VmLimits | null;
  readonly leaseLeftMs: number;
  readonly execs: readonly { readonly execKey: string; readonly state: string }[];
  /** Null while the disk has room. */
  readonly diskFull: FullDisk | null;
  /**
   * The ops of the keeper that came after the first release; a later build may list ops that this build does not know.
   */
  readonly features: readonly string[];
}

/** A full save of a VM. */
export interface FullSave {
  /** The name of the state: 32 hexadecimal digits. */
  readonly id: string;
  /** The state to which a diff refers; null for a base. */
  readonly parent: string | null;
  readonly usedBytes: number;
}

/** How a VM began. */
export interface VmStart {
  /** `snapshot`: as a copy of a guest that had booted. */
  readonly kind: 'cold' | 'snapshot';
  /** The key of the snapshot from which the VM began. */
  readonly key: string | null;
  /** The reason why a snapshot was not used or not made. */
  readonly note: string | null;
  /** When the guest that waited got `Start`; null if it did not wait, or if its keeper is of an earlier build. */
  readonly sentAtMs: number | null;
  /** Whether the VM waited in the pool. */
  readonly pooled: boolean;
}

/** The host's resources that a VM has used so far, measured by the host; null if the host does not report a figure. */
export interface VmUsage {
  readonly cpuMs: number | null;
  readonly memoryPeakMib: number | null;
  readonly diskBytes: number | null;
}

export interface ExecStart {
  readonly execKey: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly uid: number;
  readonly gid: number;
  /** Null means an empty standard input. */
  readonly stdinBytes: number | null;
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
}

export interface ExecEnd {
  readonly reason: ExitReason;
  readonly exitCode: number;
  /** The signal that ended the command itself; null if no signal did. */
  readonly signal: number | null;
  /** The object of the `exec.end` that preceded the command's end; null if no client sent one. */
  readonly cause: Answer | null;
  readonly message: string;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  readonly droppedBytes: number;
}

/**
 * Converts an answer's `error` field to an error. A plain Error is a bug of this client: the keeper does not understand
 * a request, or the exec was never started.
 */
export function errorOfAnswer(error: unknown, what: string): Error {
  const { code, message } = isRecord(error) ? error : { code: undefined, message: undefined };
  const text = `${opWords(what)}: ${cutText(typeof message === 'string' ? message : 'the keeper gave no reason')}`;
  if (typeof code !== 'string') return new CodedError('vm/lost', text);
  const known = errorCodeOfKeeper(code);
  if (known === null) return new Error(`${text} (${cutText(code)})`);
  const why =
    code === 'api/version' ? ' (the VM was started by another build of voidbox and cannot be driven by this one)' : '';
  return new CodedError(known, `${text}${why}`);
}

/** Returns true for an error that means that the VM cannot be used any longer. */
export function isVmGone(error: unknown): boolean {
  return isCodedError(error) && endsVm(error.code);
}

export function cutText(text: string): string {
  const clean = text.replace(/[^\P{Cc}\t\n]/gu, '\ufffd');
  return clean.length > MESSAGE_CHARACTERS ? `${clean.slice(0, MESSAGE_CHARACTERS)} …` : clean;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function readCount(answer: Answer, field: string, op: string): number {
  const value = answer[field];
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) throw badAnswer(op, field, value);
  return value;
}

function readCountOrNull(answer: Answer, field: string, op: string): number | null {
  return answer[field] === null ? null : readCount(answer, field, op);
}

function readList<T>(answer: Answer, field: string, op: string, isItem: (item: unknown) => item is T): readonly T[] {
  const list: unknown = answer[field];
  if (!Array.isArray(list) || !list.every(isItem)) throw badAnswer(op, field, list);
  return list;
}

export function readText(answer: Answer, field: string, op: string): string {
  const value = answer[field];
  if (typeof value !== 'string') throw badAnswer(op, field, value);
  return cutText(value);
}

function badAnswer(op: string, field: string, value: unknown): CodedError {
  return new CodedError(
    'vm/protocol',
    `${opWords(op)}: the answer of the VM's keeper has ${field} = ${cutText(JSON.stringify(value) ?? 'nothing')}`,
  );
}

const VM_STATUS_STATES: ReadonlySet<string> = new Set(['booting', 'waiting', 'ready', 'stopping']);

export function readVmStatus(answer: Answer): VmStatus {
  const state = readText(answer, 'state', 'status');
  if (!VM_STATUS_STATES.has(state)) throw badAnswer('status', 'state', state);
  const execs = readList(answer, 'execs', 'status', isRecord);
  const features = readList(answer, 'features', 'status', (name) => typeof name === 'string');
  return {
    state: state as VmStatus['state'],
    vmKey: readText(answer, 'vmKey', 'status'),
    fence: readCount(answer, 'fence', 'status'),
    // The field is null until the guest has answered.
    bootMs: readCountOrNull(answer, 'bootMs', 'status') ?? 0,
    startedAtMs: readCount(answer, 'startedAtMs', 'status'),
    boots: readCount(answer, 'boots', 'status'),
    start: readStart(answer),
    vmm: readVmm(answer),
    accelerator: readText(answer, 'accelerator', 'status'),
    kernel: readText(answer, 'kernel', 'status'),
    jail: readText(answer, 'jail', 'status'),
    memoryMib: readCount(answer, 'memoryMib', 'status'),
    limits: readLimits(answer),
    leaseLeftMs: readCount(answer, 'leaseLeftMs', 'status'),
    execs: execs.map((exec) => ({
      execKey: readText(exec, 'execKey', 'status'),
      state: readText(exec, 'state', 'status'),
    })),
    features,
    diskFull: readFullDisk(answer),
  };
}

/** A keeper without this field is of a build whose only VMM was QEMU, and its VM still runs. */
function readVmm(status: Answer): string {
  return status['vmm'] === undefined ? 'qemu' : readText(status, 'vmm', 'status');
}

/** A keeper without this field is of a build without control groups, and its VM still runs. */
function readLimits(status: Answer): VmLimits | null {
  const limits = status['limits'];
  if (limits === undefined) return null;
  if (!isRecord(limits)) throw badAnswer('status', 'limits', limits);
  return {
    cpus: readCountOrNull(limits, 'cpus', 'status'),
    memoryMib: readCountOrNull(limits, 'memoryMib', 'status'),
    note: limits['note'] === null ? null : cutText(readText(limits, 'note', 'status')),
  };
}

const COLD_START: VmStart = { kind: 'cold', key: null, note: null, sentAtMs: null, pooled: false };

/** A keeper without this field is of a build without snapshots, and its VM still runs. */
function readStart(status: Answer): VmStart {
  const start = status['start'];
  if (start === undefined) return COLD_START;
  if (!isRecord(start) || (start['kind'] !== 'cold' && start['kind'] !== 'snapshot'))
    throw badAnswer('status', 'start', start);
  return {
    kind: start['kind'],
    key: start['key'] === null ? null : readText(start, 'key', 'status'),
    note: start['note'] === null ? null : readText(start, 'note', 'status'),
    sentAtMs: start['sentAtMs'] === undefined ? null : readCountOrNull(start, 'sentAtMs', 'status'),
    pooled: start['pooled'] === true,
  };
}

export function readFullDisk(status: Answer): FullDisk | null {
  const full = status['diskFull'];
  if (full === null) return null;
  if (!isRecord(full)) throw badAnswer('status', 'diskFull', full);
  return {
    forMs: readCount(full, 'forMs', 'status'),
    limitMs: readCount(full, 'limitMs', 'status'),
    availableBytes: readCount(full, 'availableBytes', 'status'),
    neededBytes: readCount(full, 'neededBytes', 'status'),
  };
}

export function readFullSave(answer: Answer): FullSave {
  return {
    id: readText(answer, 'id', 'checkpoint.full'),
    parent: answer['parent'] === null ? null : readText(answer, 'parent', 'checkpoint.full'),
    usedBytes: readCount(answer, 'usedBytes', 'checkpoint.full'),
  };
}

export function readVmUsage(answer: Answer): VmUsage {
  return {
    cpuMs: readCountOrNull(answer, 'cpuMs', 'usage'),
    memoryPeakMib: readCountOrNull(answer, 'memoryPeakMib', 'usage'),
    diskBytes: readCountOrNull(answer, 'diskBytes', 'usage'),
  };
}

const EXIT_REASONS: ReadonlySet<string> = new Set<ExitReason>([
  'exited',
  'timeout',
  'output-limit',
  'cannot-start',
  'killed',
]);

export function readExecEnd(answer: Answer): ExecEnd {
  const op = 'exec.wait';
  const reason = readText(answer, 'reason', op);
  if (!EXIT_REASONS.has(reason)) throw badAnswer(op, 'reason', reason);
  const cause = answer['cause'];
  if (cause !== null && !isRecord(cause)) throw badAnswer(op, 'cause', cause);
  return {
    reason: reason as ExitReason,
    exitCode: readCount(answer, 'exitCode', op),
    signal: readCountOrNull(answer, 'signal', op),
    cause,
    message: answer['message'] === null ? '' : readText(answer, 'message', op),
    startedAtMs: readCount(answer, 'startedAtMs', op),
    endedAtMs: readCount(answer, 'endedAtMs', op),
    stdoutBytes: readCount(answer, 'stdoutBytes', op),
    stderrBytes: readCount(answer, 'stderrBytes', op),
    droppedBytes: readCount(answer, 'droppedBytes', op),
  };
}
