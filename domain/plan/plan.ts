/**
 * A Plan is what a run carries out: every name resolved, every default filled, JSON-safe, and free of
 * values that belong to one host. It is made by `compilePlan` in `domain/spec` and never edited.
 * Arrays stand in the order of the spec; everything that depends on order uses that order.
 */

/** The Plan format that this build reads and writes. A change of meaning is a new number and an ADR. */
export const PLAN_VERSION = 1;

/** Limits that the compiler enforces; the workflow and the activities rely on them. */
export const PLAN_LIMITS = {
  /** Inline values (input, carried state) above this travel as a DataRef. */
  inlineBytes: 2 * 1024,
  /** As it is recorded, without what equals a default: `planBytes` in `wire.ts`. */
  planBytes: 16 * 1024 * 1024,
  /** A larger one travels to admission as a DataRef: Temporal carries 2 MiB, and keeps it in history. */
  inlinePlanBytes: 512 * 1024,
  /** Of what the workflow holds of it, names, edges and limits: `machineBytes` in `pipeline/machine-plan.ts`. */
  machineBytes: 512 * 1024,
  stages: 2_000,
  /** Named outputs of all stages together: each is a ref in carried state. */
  outputs: 2_000,
  mountsPerScope: 16,
  nameLength: 64,
} as const;

export const PLAN_KINDS = ['workflow', 'pipeline'] as const;
export type PlanKind = (typeof PLAN_KINDS)[number];

export interface Plan {
  readonly version: typeof PLAN_VERSION;
  readonly kind: PlanKind;
  readonly name: string;
  readonly stages: readonly StagePlan[];
  readonly scopes: readonly ScopePlan[];
  /** What the run's result is. */
  readonly output: OutputPlan;
  /** Most stages that run at the same time; free memory on the host may lower it. */
  readonly maxParallel: number;
  /** Host variables that some stage reads; the client hands them to the worker outside of history. */
  readonly hostVariables: readonly string[];
}

export type OutputPlan =
  /** The standard output (or output file) of one stage, as it is. */
  | { readonly kind: 'stage'; readonly stage: string }
  /** A JSON array `[{"name","output"}]` of the outputs of several stages, in this order. */
  | { readonly kind: 'merge'; readonly stages: readonly string[] };

/** One piece of work, in a VM where it needs one. */
export interface StagePlan {
  /** Unique in the plan; `[A-Za-z0-9._-]{1,64}`. */
  readonly id: string;
  /** The VM that the work happens in; null for work that takes none, which takes no slot of `maxParallel` either. */
  readonly scope: string | null;
  /** What has to have happened before this stage starts: every edge holds. */
  readonly after: readonly EdgePlan[];
  readonly work: WorkPlan;
  /** What lies in the stage's `/workspace/input.json`. */
  readonly input: InputPlan;
  /** Folders or files of earlier stages, put into the guest before the command starts. */
  readonly inputs: readonly StageInputPlan[];
  /** Folders or files that later stages may take. */
  readonly outputs: readonly StageOutputPlan[];
  /** Guest path whose bytes are the stage's output instead of its standard output; absent is an error code at the stage's end. */
  readonly outputFile: string | null;
  /** Absolute time for one attempt, counted by the keeper where the work is a command. */
  readonly timeoutMs: number;
  readonly retry: RetryPlan;
  /** Most bytes of standard output and error together; more fails the stage with `stage/output-limit`. */
  readonly maxOutputBytes: number;
}

/** An edge from an earlier stage. Data is taken over `success` edges alone. */
export interface EdgePlan {
  readonly stage: string;
  readonly on: EdgeCondition;
}

/**
 * `success`: it succeeded, or was passed over because its condition did not hold. `end`: it ended, however it did.
 * `failure`: it failed; once it cannot fail any more, the stage that waits for this is skipped.
 */
export type EdgeCondition = 'success' | 'end' | 'failure';

/**
 * What a stage does. Code that looks at `kind` does so in a switch without a default, and most of it stands in `work.ts`,
 * so that the compiler names each place that a new kind has to touch.
 */
export type WorkPlan = CommandWork;

/** A program in the stage's VM. */
export interface CommandWork {
  readonly kind: 'command';
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: readonly EnvPlan[];
  readonly stdin: StdinPlan;
}

export interface EnvPlan {
  readonly name: string;
  readonly value: EnvValue;
}

/** `fromHost` names a variable that the stage activity resolves; its value never enters history. */
export type EnvValue =
  | { readonly kind: 'literal'; readonly text: string }
  | { readonly kind: 'from-host'; readonly fromHost: string };

export type StdinPlan = { readonly kind: 'none' } | { readonly kind: 'stage-output'; readonly stage: string };

export type InputPlan =
  | { readonly kind: 'none' }
  /** The run's `--input`. */
  | { readonly kind: 'run-input' }
  /** The output of one stage, as it is. */
  | { readonly kind: 'carry'; readonly stage: string }
  /** A JSON array `[{"name","output"}]` of the outputs of a fan-out's boxes, in spec order. */
  | { readonly kind: 'merge'; readonly stages: readonly string[] };

export interface StageInputPlan {
  readonly fromStage: string;
  readonly output: string;
  readonly guestPath: string;
}

export interface StageOutputPlan {
  readonly name: string;
  readonly guestPath: string;
}

export interface RetryPlan {
  /** Attempts in all that the author allows for a failed command; 1 is no retry. Lost VMs are counted apart. */
  readonly maxAttempts: number;
  readonly backoffMs: number;
}

/** Attempts that a stage gets after a lost VM, a lost host or a failed boot, counted apart from the author's. */
export const LOST_VM_ATTEMPTS = 3;

/** A VM that one or more stages happen in. */
export interface ScopePlan {
  readonly id: string;
  /** Stages of the scope, in spec order. A scope of one stage is owned by that stage's activity. */
  readonly stages: readonly string[];
  readonly sandbox: SandboxPlan;
}

/** `microvm` > `process` > `none`; a run records which one it got. */
export const ISOLATION_LEVELS = ['microvm', 'process', 'none'] as const;
export type IsolationLevel = (typeof ISOLATION_LEVELS)[number];

/** `auto` takes the best real backend; `mock` is never chosen unless it is written. */
export const SANDBOX_MODES = ['auto', 'qemu', 'mock'] as const;
export type SandboxMode = (typeof SANDBOX_MODES)[number];

/** `ro` is live and read-only; `rw` is copied in before the stage and back after its success. */
export const MOUNT_MODES = ['ro', 'rw'] as const;
export type MountMode = (typeof MOUNT_MODES)[number];

export interface SandboxPlan {
  readonly mode: SandboxMode;
  /** The weakest isolation that is accepted. */
  readonly isolation: IsolationLevel;
  readonly memoryMib: number;
  readonly vcpus: number;
  readonly diskMib: number;
  readonly mounts: readonly MountPlan[];
}

export interface MountPlan {
  readonly source: MountSource;
  readonly guestPath: string;
  readonly mode: MountMode;
}

/** Admission finds the folder on the host that runs the VM, and checks it against the worker's policy. */
export type MountSource =
  /** An absolute path on that host. */
  | { readonly kind: 'host'; readonly path: string }
  /** A path from the spec's folder, which the client hands over beside the plan; `.` is the folder itself. */
  | { readonly kind: 'spec-folder'; readonly path: string };

/** Data too large for history: bytes in the content-addressed artifact store. */
export interface DataRef {
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly mediaType: string;
}
