/**
 * What activities need from the outside: a sandbox, an event store, an artifact store, a clock.
 * Workers fill these in; tests fill in their own.
 */
import type { DataRef, IsolationLevel, MountPlan, SandboxPlan } from '../domain/plan/plan.ts';
import type { NewRunEvent, RunEvent } from '../domain/run/event.ts';
import type { VmIdentity } from '../domain/run/vm-key.ts';

/* ---- sandbox ---- */

/** The identity of a VM: the same key never has two VMs alive. */
export type VmKey = VmIdentity;

/** What a VM is made with: the plan's sandbox, with its mounts as they were found on this host. It grows; a backend refuses what it cannot do. */
export interface LaunchSpec extends Omit<SandboxPlan, 'mounts'> {
  readonly mounts: readonly HostMount[];
}

export interface HostMount {
  /** Absolute. */
  readonly hostPath: string;
  readonly guestPath: string;
  readonly mode: MountPlan['mode'];
}

export interface SandboxBackend {
  readonly name: 'qemu' | 'mock';
  readonly isolation: IsolationLevel;
  /**
   * Find-or-create by key. A second launch with the key attaches and raises the fence: what the earlier
   * holder still writes is refused with `fence/stale`.
   * @throws CodedError `vm/lost` when the key's VM once ran and is dead or the key was released, `vm/boot-timeout`, `host/not-ready`, `vm/no-capacity`, `vm/too-large`
   */
  launch(key: VmKey, spec: LaunchSpec, signal: AbortSignal): Promise<Sandbox>;
  /** Ends the key's VM on every path, alive or not, and keeps one from being launched later. Idempotent. */
  release(key: VmKey): Promise<void>;
}

export interface SandboxFacts {
  readonly isolation: IsolationLevel;
  /** `kvm`, `tcg` or `mock`; an emulation is never called hardware. */
  readonly accelerator: string;
  readonly kernel: string;
  readonly jail: string;
  readonly bootMs: number;
  /** True when launch found the VM alive. */
  readonly attached: boolean;
  /** Tells this VM from an earlier one of its key, whose end is forgotten; null where the backend does not know it. */
  readonly vmLife: string | null;
  /** True when commands had been started in the VM before this handle was made. */
  readonly hadCommands: boolean;
  readonly fence: number;
}

/** A live VM, held under one fence. Every method throws `vm/lost` when it died and `fence/stale` when another took over. */
export interface Sandbox {
  readonly facts: SandboxFacts;
  /** Starts the command once per key: a second call with the key attaches to it. */
  exec(request: ExecRequest, signal: AbortSignal): Promise<Exec>;
  /** Puts a file at an absolute guest path, parents made, owner uid 1000. `bytes` of exactly `sizeBytes`. */
  writeFile(guestPath: string, sizeBytes: number, bytes: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void>;
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
  /** Keeps the VM alive; called from the activity's heartbeat timer. */
  renew(): Promise<void>;
  /** Forgets the VM without stopping it: closes connections, appends nothing. */
  detach(): void;
  /** Ends the VM. Idempotent. */
  stop(): Promise<void>;
}

export interface ExecRequest {
  readonly key: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Bytes for standard input; null is an empty one. Asked for again from an offset after a re-attach. */
  readonly stdin: { readonly sizeBytes: number; open(offset: number): AsyncIterable<Uint8Array> } | null;
  /** From the first start of the key, kept by the keeper across re-attaches. */
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
}

export interface Exec {
  /** True when the key was already known: the command had been started before. */
  readonly attached: boolean;
  /** Bytes of the stream from an offset to its end; ends only when the stream has ended. */
  output(stream: 'stdout' | 'stderr', offset: number, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** Settles when the command has ended and its last byte is readable. */
  wait(signal: AbortSignal): Promise<ExecExit>;
  signal(name: 'SIGTERM' | 'SIGKILL' | 'SIGINT'): Promise<void>;
  /** Everything of this exec is durable elsewhere; the keeper may forget it. */
  acknowledge(): Promise<void>;
}

export interface ExecExit {
  readonly reason: 'exited' | 'timeout' | 'output-limit' | 'cannot-start' | 'killed';
  /** 128+n for a signal; 127 and 126 as a shell says them for `cannot-start`. */
  readonly exitCode: number;
  readonly message: string;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  /** Set when `reason` is `output-limit`: bytes between the first and the last MiB that were thrown away. */
  readonly droppedBytes: number;
}

/* ---- writable mounts ---- */

/** One writable mount of one scope of one run. */
export interface MountKey {
  readonly runId: string;
  readonly scope: string;
  readonly hostPath: string;
  readonly guestPath: string;
  /** True when the host path was admitted without links in it: a folder that is reached through one is another. */
  readonly isResolved: boolean;
}

export interface CopiedBack {
  /** Why nothing, or not all, went back; null when all that changed did. */
  readonly refusal: { readonly code: string; readonly message: string } | null;
  readonly written?: number;
  readonly removed?: number;
}

/** Host folders that VMs write to: captured once for a scope, and written back by comparison. */
export interface WritableMounts {
  /**
   * The folder as it was when the scope's first VM got it, as a tar. The first call reads the host.
   * @throws CodedError `mount/unusable` for a folder that cannot be read or is larger than the VM's disk
   */
  capture(
    key: MountKey,
    limits: { readonly maxBytes: number },
    signal: AbortSignal,
  ): Promise<AsyncIterable<Uint8Array>>;
  /** The VM holds the folder already, from a build that captured nothing: until a copy has gone back, what the VM lacks stays on the host. */
  adopt(key: MountKey, capture: AsyncIterable<Uint8Array>): Promise<void>;
  /**
   * Brings the host to what the guest's tar says: entries that differ from the capture or the last copy. One that
   * changed on the host too refuses the copy. What a copy that died in the middle has done is taken into account.
   * @throws CodedError `stage/bad-output` for what may not come out of a VM, and what the tar's stream throws
   */
  copyBack(key: MountKey, tar: AsyncIterable<Uint8Array>): Promise<CopiedBack>;
  /** The run has ended: what was kept of its mounts is removed. */
  dropRun(runId: string): Promise<void>;
}

/* ---- store ---- */

export interface EventStore {
  /**
   * Appends events whose ids the run does not have yet, in order, and returns how many were new. Output is
   * known by its range: a piece within what is stored is not new, one across its end is a defect of the writer.
   * With a writer, no events at all still record the fence: older drivers are refused from then on.
   * @throws CodedError `fence/stale` when `writer` names an exec that a higher fence has written to
   */
  append(
    runId: string,
    events: readonly NewRunEvent[],
    writer?: { readonly execKey: string; readonly fence: number },
  ): Promise<number>;
  /** The event with this id; null when the run has none. For any event but output, which has no identity by id. Asking for an absent one is cheap. */
  find(runId: string, id: string): Promise<RunEvent | null>;
  /** Events after a cursor, in `seq` order. `output: false` leaves out output pieces, which may be most of the bytes. */
  read(runId: string, after: number, options?: { readonly output?: boolean }): AsyncIterable<RunEvent>;
  /** As `read`, then waits for more until the terminal event or the signal. */
  follow(
    runId: string,
    after: number,
    signal: AbortSignal,
    options?: { readonly output?: boolean },
  ): AsyncIterable<RunEvent>;
  /** How far a stream's stored pieces reach: the byte offset (before redaction) to go on from. */
  outputCursor(runId: string, execKey: string, stream: 'stdout' | 'stderr'): Promise<number>;
  listRuns(): Promise<readonly string[]>;
}

export interface ArtifactStore {
  /** Hashes and stores; the same bytes are stored once. Durable when it settles. */
  put(bytes: AsyncIterable<Uint8Array>, mediaType: string): Promise<DataRef>;
  /** @throws CodedError `store/damaged` when the bytes are absent or do not hash to the ref */
  open(ref: DataRef, offset?: number): AsyncIterable<Uint8Array>;
}

/** Small durable records of a run: its plan, marks of what is prepared, manifest, handed-over variables. */
export interface RunRecords {
  put(runId: string, name: string, value: unknown): Promise<void>;
  get(runId: string, name: string): Promise<unknown>;
  /** Variables that a client handed over for this run; never logged, never in history. */
  hostVariables(runId: string): Promise<Readonly<Record<string, string>>>;
  dropHostVariables(runId: string): Promise<void>;
}
