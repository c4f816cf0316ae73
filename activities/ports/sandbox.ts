/** What activities need of VMs: a backend that launches them, one VM, one command in it. */
import type { AnyErrorCode } from '../../domain/errors/error-code.ts';
import type { IsolationLevel, MountMode, SandboxMode, SandboxPlan } from '../../domain/plan/plan.ts';
import type { VmIdentity } from '../../domain/run/vm-key.ts';
import type { RetentionNote } from '../../domain/run/retained-vm.ts';
import type { AgentLayer } from './agent-layers.ts';

/** The identity of a VM: the same key never has two VMs alive. */
export type VmKey = VmIdentity;

/** What a VM is made with: the plan's sandbox, with its mounts as they were found on this host. It grows; a backend refuses what it cannot do. */
export interface LaunchSpec extends Omit<SandboxPlan, 'mounts'> {
  readonly mounts: readonly HostMount[];
  /** Command lines of agents that the VM has at `agentLayerFolder`, each once; absent: none. */
  readonly layers?: readonly AgentLayer[] | undefined;
}

export interface HostMount {
  /** Absolute. */
  readonly hostPath: string;
  readonly guestPath: string;
  readonly mode: MountMode;
  /** Absent: a copy back leaves repositories of git as they are. */
  readonly git?: 'writable' | undefined;
}

export interface SandboxBackend {
  /** As plans call it. */
  readonly name: Exclude<SandboxMode, 'auto'>;
  readonly isolation: IsolationLevel;
  /**
   * Find-or-create by key. A second launch with the key attaches and raises the fence: what the earlier
   * holder still writes is refused with `fence/stale`.
   * @throws CodedError `vm/lost` when the key's VM once ran and is dead or the key was released, `vm/boot-timeout`, `host/not-ready`, `vm/no-capacity`, `vm/too-large`
   */
  launch(key: VmKey, spec: LaunchSpec, signal: AbortSignal): Promise<Sandbox>;
  /** Ends the key's VM on every path, alive or not, and keeps one from being launched later. Idempotent. */
  release(key: VmKey): Promise<void>;
  /**
   * What the door of the key's VM has told from a byte on (docs/reference/keeper.md, "The door"): as much as is there at this moment, at
   * most 256 KiB. Also of a VM that has ended; empty where there is nothing, also of a VM that never was.
   */
  notices(key: VmKey, offset: number): Promise<Uint8Array>;
}

/** What `writeFile` makes where nothing is said: a file that every user of the guest may read. */
export const GUEST_FILE_MODE = 0o644;
export const OWNERS_FILE_MODE = 0o600;
export type GuestFileMode = typeof GUEST_FILE_MODE | typeof OWNERS_FILE_MODE;

export interface SandboxFacts {
  readonly isolation: IsolationLevel;
  /** The VMM that runs the VM: `qemu`, or `mock`. */
  readonly vmm: string;
  /** `kvm`, `tcg` or `mock`; an emulation is never called hardware. */
  readonly accelerator: string;
  readonly kernel: string;
  readonly jail: string;
  readonly bootMs: number;
  /** True when launch found the VM alive. */
  readonly attached: boolean;
  /** Distinguishes this VM from an earlier one of its key, whose end is forgotten. */
  readonly vmLife: string;
  /** True when commands had been started in the VM before this handle was made. */
  readonly hadCommands: boolean;
  readonly fence: number;
}

/** By the host's accounts, in which a guest has no say. Null is what the host does not tell. */
export interface VmUsage {
  /** CPU time of the VM's processes on the host since its boot, emulation included. */
  readonly cpuMs: number | null;
  /** The most memory that these processes had, the guest's within it. */
  readonly memoryPeakMib: number | null;
  /** Room that the VM's disk takes on the host. */
  readonly diskBytes: number | null;
}

/** A live VM, held under one fence. Every method throws `vm/lost` when it died and `fence/stale` when another took over. */
export interface Sandbox {
  readonly facts: SandboxFacts;
  /** Starts the command once per key: a second call with the key attaches to it. */
  exec(request: ExecRequest, signal: AbortSignal): Promise<Exec>;
  /**
   * The commands that this VM knows: started, and not acknowledged. It settles after the answer to each `exec` of this handle, so it
   * lists the command of an `exec` whose signal was aborted before the answer, too.
   */
  execs(): Promise<readonly ExecState[]>;
  /** Attaches to a command that `execs` lists, without its request. */
  attachExec(key: string): Exec;
  /**
   * Puts a file at an absolute guest path, parents made, owner uid 1000. `bytes` of exactly `sizeBytes`. Of the guest's system
   * only `GUEST_CREDENTIALS` takes files, for which the owner's mode is.
   */
  writeFile(
    guestPath: string,
    sizeBytes: number,
    bytes: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
    mode?: GuestFileMode,
  ): Promise<void>;
  /** Null when the path is no regular file. */
  readFile(
    guestPath: string,
    signal: AbortSignal,
  ): Promise<{ readonly sizeBytes: number; readonly bytes: AsyncIterable<Uint8Array> } | null>;
  /** Unpacks a tar stream below a guest folder, made if absent. */
  putTar(guestPath: string, bytes: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void>;
  /** A checked tar stream of a guest path (a folder's content, or one file); null when it does not exist. */
  getTar(guestPath: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array> | null>;
  /** As `getTar`, of a folder only: null when something else or nothing is there. */
  getFolder(guestPath: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array> | null>;
  /** The resources of the host that the VM has used so far. */
  usage(): Promise<VmUsage>;
  /**
   * From now on the VM ends by itself after this time; no renewal extends it. A second call changes nothing.
   * @returns the milliseconds that it has; null if its backend retains no VMs
   */
  retain(forMs: number, note: Omit<RetentionNote, 'env'>): Promise<number | null>;
  /** Keeps the VM alive; called from the activity's heartbeat timer. */
  renew(): Promise<void>;
  /** Forgets the VM without stopping it: closes connections, appends nothing. */
  detach(): void;
  /** Ends the VM. Idempotent. */
  stop(): Promise<void>;
}

export interface ExecState {
  readonly key: string;
  readonly isRunning: boolean;
}

export interface ExecRequest {
  readonly key: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /**
   * Bytes for standard input; null is an empty one. Asked for again from an offset after a re-attach. A size of null is
   * known only at its end: such a source is asked for once, from 0, and is not sent again.
   */
  readonly stdin: { readonly sizeBytes: number | null; open(offset: number): AsyncIterable<Uint8Array> } | null;
  /** From the first start of the key, kept by the keeper across re-attaches. */
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
}

export interface OutputOffsets {
  readonly stdout: number;
  readonly stderr: number;
}

export interface OutputPiece {
  readonly stream: 'stdout' | 'stderr';
  readonly bytes: Uint8Array;
}

export interface Exec {
  /** True when the key was already known: the command had been started before. */
  readonly attached: boolean;
  /** Bytes of the stream from an offset to its end; ends only when the stream has ended. */
  output(stream: 'stdout' | 'stderr', offset: number, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /**
   * Bytes of both streams from these offsets to their ends, in the order in which they came. Absent from a backend that does not
   * know the order.
   */
  outputs?(from: OutputOffsets, signal: AbortSignal): AsyncIterable<OutputPiece>;
  /** Settles when the command has ended and its last byte is readable. */
  wait(signal: AbortSignal): Promise<ExecExit>;
  /** Sends a signal, which says nothing of why the command ends. */
  signal(name: 'SIGTERM' | 'SIGKILL' | 'SIGINT'): Promise<void>;
  /**
   * Ends the command for a cause: SIGTERM, and SIGKILL after `graceMs`. The first cause counts, also for a process that takes over.
   * A command that has ended keeps its end.
   */
  end(cause: StopCause, graceMs: number): Promise<void>;
  /**
   * Runs `copy` while every process of the command stands still, for `limitMs` at most. False where nothing was frozen, because
   * the command has ended or the backend freezes none, and where the command went on before `copy` had settled.
   * @throws what `copy` throws
   */
  whileFrozen(limitMs: number, copy: () => Promise<void>, signal: AbortSignal): Promise<boolean>;
  /** Everything of this exec is durable elsewhere; the keeper may forget it. */
  acknowledge(): Promise<void>;
}

/** Why Voidbox ends a command before the command's own end. */
export type StopCause =
  | { readonly kind: 'cancel' }
  | {
      readonly kind: 'failure';
      readonly code: AnyErrorCode;
      /** The reason for ending an agent; continues "the agent of stage …". */
      readonly words: string;
    };

export interface ExecExit {
  readonly reason: 'exited' | 'timeout' | 'output-limit' | 'cannot-start' | 'killed';
  /** 128+n for a signal; 127 and 126 as a shell says them for `cannot-start`. */
  readonly exitCode: number;
  /** The signal that ended the command's own process; null: it exited, or its backend does not know. */
  readonly signal: number | null;
  /** The cause of the `end` whose signal preceded the known end of the command; null: no signal did. */
  readonly cause: StopCause | null;
  readonly message: string;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  /** Set when `reason` is `output-limit`: bytes between the first and the last MiB that were thrown away. */
  readonly droppedBytes: number;
}
