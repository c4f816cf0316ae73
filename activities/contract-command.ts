/** The contract of single commands for workflows of other projects: names, arguments and results. Types only. */
import type { DataRef, IsolationLevel, MountMode, SandboxMode } from '../domain/plan/plan.ts';
import type { StageFailure } from '../domain/run/stage-result.ts';

/** A command in a micro-VM of its own. */
export interface CommandRequest {
  /** A path in the guest, or a name on its PATH. No shell: `program: 'sh', args: ['-c', '…']` is one. */
  readonly program: string;
  readonly args?: readonly string[];
  /** Values are in history, so they must not be secret. */
  readonly env?: Readonly<Record<string, string>>;
  /** Names of variables that the worker lends. The command finds them in its environment; they are redacted in what it prints. */
  readonly secrets?: readonly string[];
  /** Default: `/workspace`. */
  readonly cwd?: string;
  /** Text for standard input, at most 256 KiB. It is in history. */
  readonly stdin?: string;
  readonly sandbox?: CommandSandbox;
  /** Default: an hour. At most a week. */
  readonly timeoutMs?: number;
  /** Name of the run's only stage: letters, digits, `.`, `_`, `-`. Default: the program's name. */
  readonly name?: string;
}

export interface CommandSandbox {
  /** `mock` runs nothing for real and must be asked for. */
  readonly mode?: SandboxMode;
  readonly isolation?: IsolationLevel;
  /** Default: 512. */
  readonly memoryMib?: number;
  readonly vcpus?: number;
  readonly diskMib?: number;
  /** Host folders that the worker's policy allows. Default: none. */
  readonly mounts?: readonly CommandMount[];
}

export interface CommandMount {
  /** An absolute path on the worker's host. */
  readonly host: string;
  readonly guest: string;
  /** Default: `ro`. */
  readonly mode?: MountMode;
  /** `writable`: `rw` copies `.git` and bare repositories back, too. `protected` if it is absent. */
  readonly git?: 'protected' | 'writable';
}

/** How a command ended. An exit code other than 0 and a timeout are results, not errors. */
export interface CommandOutcome {
  /** The run of its own that its log is in: `voidbox logs RUN` on the worker's host. */
  readonly runId: string;
  readonly outcome: 'succeeded' | 'failed';
  /** 128+n for a signal; null when the command never ran. */
  readonly exitCode: number | null;
  /** Of a command that succeeded: the first 2 KiB of its standard output as text. */
  readonly stdout: string;
  /** There is more of it: `output` has all, on the worker's host. */
  readonly isStdoutCut: boolean;
  /** All of its standard output, in the artifact store of the worker's host; null when it failed. */
  readonly output: DataRef | null;
  /** Why it failed, with the last lines of standard error; null when it succeeded. */
  readonly failure: StageFailure | null;
  readonly durationMs: number;
}

/** What `placeCommand` is told: the command, and the id of the activity that will run it. */
export interface PlaceRequest extends CommandRequest {
  readonly activityId: string;
}

export interface CommandPlacement {
  readonly runId: string;
  /** Of the host that has the command's records, and will have its VM. */
  readonly taskQueue: string;
}

/** What `readOutput` is told: an output of a run, by its ref. */
export interface ReadRequest {
  readonly runId: string;
  readonly output: DataRef;
}

export interface OutputText {
  /** The first 2 KiB. */
  readonly text: string;
  readonly isCut: boolean;
}

export interface CommandActivities {
  /** Admits a command under the worker's policy and says which host runs it. */
  placeCommand(request: PlaceRequest): Promise<CommandPlacement>;
  /**
   * Runs a command once, whatever becomes of its worker: a later attempt attaches to the command where it is. Without
   * `placeCommand` before it, it is admitted by the worker that takes it.
   */
  runCommand(request: CommandRequest): Promise<CommandOutcome>;
  /** The beginning of an output. A host that does not have the run gives the call back for the one that has it. */
  readOutput(request: ReadRequest): Promise<OutputText>;
}
