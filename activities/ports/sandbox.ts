/** VMs as activities use them: a backend that launches them, one VM, one command in a VM. */
import type { AnyErrorCode } from '../../domain/errors/error-code.ts';
import type { IsolationLevel, MountMode, SandboxMode, SandboxPlan } from '../../domain/plan/plan.ts';
import type { VmLimits, VmStartKind } from '../../domain/run/event.ts';
import type { VmIdentity } from '../../domain/run/vm-key.ts';
import type { CheckpointMaker, CheckpointRecord } from '../../domain/run/checkpoint.ts';
import type { RetentionNote } from '../../domain/run/retained-vm.ts';
import type { AgentLayer } from './agent-layers.ts';

/** The identity of a VM: two VMs with the same key are never alive at once. */
export type VmKey = VmIdentity;

/**
 * The settings of a VM: the plan's sandbox, with its mounts resolved on this host. It will grow; a backend rejects
 * settings that it cannot provide.
 */
export interface LaunchSpec extends Omit<SandboxPlan, 'mounts' | 'prepared'> {
  readonly mounts: readonly HostMount[];
  /** Command lines of agents that the VM provides at `agentLayerFolder`, each once; absent: none. */
  readonly layers?: readonly AgentLayer[] | undefined;
  /**
   * The absolute path of a checkpoint's folder, with whose disk the VM starts: `/workspace`, the home folder, `/tmp` and
   * the changes of the root. It may be deleted as soon as the launch has returned. Absent: an empty disk. A launch that
   * attaches to a VM does not read it.
   */
  readonly from?: string | undefined;
  /** The VM may be saved with its memory. Only `voidbox-vmm` can do so; absent: it may not. */
  readonly savesMemory?: boolean | undefined;
}

export interface HostMount {
  /** An absolute path. */
  readonly hostPath: string;
  readonly guestPath: string;
  readonly mode: MountMode;
  /** `writable` if a copy back also writes git repositories; absent: it leaves them unchanged. */
  readonly git?: 'writable' | undefined;
}

export interface SandboxBackend {
  /** The name that plans use. The facts of a VM name its VMM. */
  readonly name: SandboxMode;
  readonly isolation: IsolationLevel;
  /**
   * Finds or creates the VM of a key. A second launch with the key attaches and raises the fence: later writes of the
   * earlier holder fail with `fence/stale`.
   * @throws CodedError `vm/lost` if the key's VM once ran and is dead or the key was released, `vm/boot-timeout`,
   * `host/not-ready`, `vm/no-capacity`, `vm/too-large`; `vm/checkpoint-unfit` if the disk of `from` is missing or
   * damaged, is larger than the VM's disk, or belongs to another root image or kind of VMM
   */
  launch(key: VmKey, spec: LaunchSpec, signal: AbortSignal): Promise<Sandbox>;
  /** Ends the key's VM, if there is one, and prevents later launches with the key. Idempotent. */
  release(key: VmKey): Promise<void>;
  /**
   * Returns the notices of the VM's door from a byte offset on (docs/reference/keeper.md, "The door"): the bytes that exist now,
   * at most 256 KiB. It also works for a VM that has ended. Without notices, or without a VM, the result is empty.
   */
  notices(key: VmKey, offset: number): Promise<Uint8Array>;
}

/** The default mode of `writeFile`: every user of the guest may read the file. */
export const GUEST_FILE_MODE = 0o644;
export const OWNERS_FILE_MODE = 0o600;
export type GuestFileMode = typeof GUEST_FILE_MODE | typeof OWNERS_FILE_MODE;

/** The folder of a new checkpoint, and the content of its record beyond the properties of the VM. */
export interface CheckpointTarget {
  /**
   * The absolute path of the checkpoint's folder. It must not exist; the folder that contains it must. It appears with
   * its whole content (`checkpoint.json`, `disk`, mode 0700 and 0600) or not at all. Remove it with
   * `deleteCheckpoint`.
   */
  readonly dir: string;
  /** The id of the record; absent: a random one. */
  readonly id?: string | undefined;
  readonly name?: string | undefined;
  /** Whether the VM got a secret or a credential. */
  readonly withSecrets: boolean;
  readonly madeBy?: CheckpointMaker | undefined;
  /**
   * The memory that is saved too: all of it, or what changed since the VM's last checkpoint with memory or since the one
   * from which it continues. The VM needs `savesMemory`. Absent: the disk only.
   */
  readonly memory?: 'all' | 'changed' | undefined;
  /** The time for which the guest's file system may be frozen; `FREEZE_LIMIT_MS` by default, and at most. */
  readonly freezeLimitMs?: number | undefined;
}

export interface SandboxFacts {
  readonly isolation: IsolationLevel;
  /** The VMM that runs the VM: `qemu`, `vmm` or `mock`. */
  readonly vmm: string;
  /** `kvm`, `tcg` or `mock`. An emulation is never reported as hardware. */
  readonly accelerator: string;
  readonly kernel: string;
  readonly jail: string;
  /** Absent: not known. */
  readonly limits?: VmLimits;
  readonly bootMs: number;
  /** `snapshot`: the VM began as a copy of a guest that had booted. */
  readonly start: VmStartKind;
  /** The key of that snapshot. */
  readonly snapshot: string | null;
  /** Whether the VM waited in a pool; absent: it did not. */
  readonly pooled?: boolean;
  /** The reason why a snapshot was not used or not made. */
  readonly startNote: string | null;
  /** True if the launch found a living VM. */
  readonly attached: boolean;
  /** Distinguishes this VM from an earlier VM of its key whose end is no longer recorded. */
  readonly vmLife: string;
  /** True if the VM had started commands before this handle was created. */
  readonly hadCommands: boolean;
  readonly fence: number;
}

/**
 * Resource use by the host's accounts, which a guest cannot influence. Null means that the host does not report the
 * value.
 */
export interface VmUsage {
  /** CPU time of the VM's processes on the host since its boot, emulation included, in milliseconds. */
  readonly cpuMs: number | null;
  /** The highest memory use of these processes, which includes the guest's memory. */
  readonly memoryPeakMib: number | null;
  /** The room that the VM's disk uses on the host. */
  readonly diskBytes: number | null;
}

/**
 * A live VM, held under one fence. Every method throws `vm/lost` if the VM has died, and `fence/stale` if another
 * holder has taken over.
 */
export interface Sandbox {
  readonly facts: SandboxFacts;
  /** Starts the command once per key: a second call with the key attaches to the running command. */
  exec(request: ExecRequest, signal: AbortSignal): Promise<Exec>;
  /**
   * Returns the commands that were started in this VM and not acknowledged. It waits for the answer to each `exec` of
   * this handle. The list therefore includes the command of an `exec` whose signal was aborted before the answer.
   */
  execs(): Promise<readonly ExecState[]>;
  /** Attaches to a command that `execs` lists, without its request. */
  attachExec(key: string): Exec;
  /**
   * Writes a file at an absolute guest path, with owner uid 1000, and creates its parent folders. `bytes` must yield
   * exactly `sizeBytes`. In the guest's system folders only `GUEST_CREDENTIALS` accepts files; they use the mode for
   * owners.
   */
  writeFile(
    guestPath: string,
    sizeBytes: number,
    bytes: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
    mode?: GuestFileMode,
  ): Promise<void>;
  /** Returns null if the path is not a regular file. */
  readFile(
    guestPath: string,
    signal: AbortSignal,
  ): Promise<{ readonly sizeBytes: number; readonly bytes: AsyncIterable<Uint8Array> } | null>;
  /** Unpacks a tar stream into a guest folder, and creates the folder if it does not exist. */
  putTar(guestPath: string, bytes: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void>;
  /**
   * Returns a checked tar stream of a guest path (the content of a folder, or one file); null if the path does not
   * exist.
   */
  getTar(guestPath: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array> | null>;
  /** Does the same for folders only: returns null if the path is not a folder or does not exist. */
  getFolder(guestPath: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array> | null>;
  /** Returns the resources of the host that the VM has used so far. */
  usage(): Promise<VmUsage>;
  /**
   * Saves the VM's disk. The guest's file system is frozen while the disk is copied, and the VM then continues. Memory,
   * `/dev/shm` and processes are not saved. With `memory`, the VM is paused instead, and memory and `/dev/shm` are
   * saved. Files in `GUEST_CREDENTIALS` are then gone, also in the VM that continues.
   * @throws CodedError `vm/busy` if a command runs in the VM or starts before the copy is complete, or if another
   * checkpoint of the VM is made; `vm/checkpoint-failed`
   * if the guest did not freeze its file system, or continued before the copy was complete; `store/io` if the host
   * cannot write the copy or `dir` exists
   */
  checkpoint(target: CheckpointTarget, signal: AbortSignal): Promise<CheckpointRecord>;
  /**
   * From now on the VM ends automatically after this time, and no renewal extends it. A second call changes nothing.
   * @returns the remaining milliseconds; null if its backend retains no VMs
   */
  retain(forMs: number, note: Omit<RetentionNote, 'env'>): Promise<number | null>;
  /** Keeps the VM alive. The activity's heartbeat timer calls it. */
  renew(): Promise<void>;
  /** Releases the handle without stopping the VM: closes connections and appends nothing. */
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
   * Bytes for standard input; null for an empty input. After a re-attach the source is opened again from an offset. If
   * the size is null, only the end of the stream shows it. Such a source is opened once, from 0, and is not sent again.
   */
  readonly stdin: { readonly sizeBytes: number | null; open(offset: number): AsyncIterable<Uint8Array> } | null;
  /** Counts from the first start of the key. The keeper keeps the start across re-attaches. */
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
  /** True if the key was already known, because the command had been started before. */
  readonly attached: boolean;
  /** Yields the bytes of the stream from an offset. The iteration ends only when the stream has ended. */
  output(stream: 'stdout' | 'stderr', offset: number, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /**
   * Yields the bytes of both streams from these offsets to their ends, in their order of arrival. Absent if the backend
   * does not know the order.
   */
  outputs?(from: OutputOffsets, signal: AbortSignal): AsyncIterable<OutputPiece>;
  /** Resolves when the command has ended and its last byte is readable. */
  wait(signal: AbortSignal): Promise<ExecExit>;
  /** Sends a signal. The signal does not set the cause of the command's end. */
  signal(name: 'SIGTERM' | 'SIGKILL' | 'SIGINT'): Promise<void>;
  /**
   * Ends the command for a cause: SIGTERM, and SIGKILL after `graceMs`. The first cause counts, also for a process that
   * takes over. A command that has ended keeps its result.
   */
  end(cause: StopCause, graceMs: number): Promise<void>;
  /**
   * Runs `copy` while every process of the command is frozen, for at most `limitMs`. Returns false if nothing was
   * frozen, because the command has ended or the backend cannot freeze. Returns false also if the command continued
   * before `copy` had settled.
   * @throws the error of `copy`
   */
  whileFrozen(limitMs: number, copy: () => Promise<void>, signal: AbortSignal): Promise<boolean>;
  /** Tells the keeper that everything of this exec is durable elsewhere, so that the keeper may forget it. */
  acknowledge(): Promise<void>;
}

/** The reason why Voidbox ends a command early. */
export type StopCause =
  | { readonly kind: 'cancel' }
  | {
      readonly kind: 'failure';
      readonly code: AnyErrorCode;
      /** The reason for ending an agent, as the continuation of "the agent of stage …". */
      readonly words: string;
    };

export interface ExecExit {
  readonly reason: 'exited' | 'timeout' | 'output-limit' | 'cannot-start' | 'killed';
  /** 128+n for a signal n; for `cannot-start` 127 or 126, as in a shell. */
  readonly exitCode: number;
  /** The signal that ended the command's own process; null if it exited, or if the backend does not know. */
  readonly signal: number | null;
  /** The cause of the `end` whose signal preceded the known end of the command; null without such a signal. */
  readonly cause: StopCause | null;
  readonly message: string;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  /** Set if `reason` is `output-limit`: the number of discarded bytes between the first and the last MiB. */
  readonly droppedBytes: number;
}
