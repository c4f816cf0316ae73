/** The contract of single commands for workflows of other projects: names, arguments and results. Types only. */
import type { DataRef, IsolationLevel, MountMode, SandboxMode } from '../domain/plan/plan.ts';
import type { StageFailure } from '../domain/run/stage-result.ts';

/** A command in a micro-VM of its own. */
export interface CommandRequest {
  /**
   * A path in the guest, or a name on its PATH. No shell interprets it; for a shell, use `program: 'sh', args: ['-c',
   * '…']`.
   */
  readonly program: string;
  readonly args?: readonly string[];
  /** Values are in history, so they must not be secret. */
  readonly env?: Readonly<Record<string, string>>;
  /**
   * Names of variables that the worker lends. The command gets them in its environment; Voidbox redacts their values in
   * its output.
   */
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
  /** `mock` runs no real command, and applies only if it is set explicitly. */
  readonly mode?: SandboxMode;
  readonly isolation?: IsolationLevel;
  /** Default: 512. */
  readonly memoryMib?: number;
  readonly vcpus?: number;
  readonly diskMib?: number;
  /** `none`: the VM boots, and no snapshot is made of it. Default: it starts from a snapshot if its host has one. */
  readonly snapshot?: 'none';
  /** Host folders that the worker's policy allows. Default: none. */
  readonly mounts?: readonly CommandMount[];
}

export interface CommandMount {
  /** An absolute path on the worker's host. */
  readonly host: string;
  readonly guest: string;
  /** Default: `ro`. */
  readonly mode?: MountMode;
  /**
   * `writable`: for a mount with mode `rw`, Voidbox also copies changes of `.git` and of bare repositories back to the
   * host. Default: `protected`.
   */
  readonly git?: 'protected' | 'writable';
}

/** How a command ended. An exit code other than 0 and a timeout are results, not errors. */
export interface CommandOutcome {
  /** The id of the command's own run, which contains its log: `voidbox logs RUN` on the worker's host. */
  readonly runId: string;
  readonly outcome: 'succeeded' | 'failed';
  /** 128+n for a signal n; null if the command never ran. */
  readonly exitCode: number | null;
  /** The first 2 KiB of standard output as text, if the command succeeded. */
  readonly stdout: string;
  /** True if standard output is longer than `stdout`. `output` is complete, on the worker's host. */
  readonly isStdoutCut: boolean;
  /** The complete standard output, in the artifact store of the worker's host; null if the command failed. */
  readonly output: DataRef | null;
  /** The cause of the failure, with the last lines of standard error; null if the command succeeded. */
  readonly failure: StageFailure | null;
  readonly durationMs: number;
}

/** The argument of `placeCommand`: the command, and the id of the activity that will run it. */
export interface PlaceRequest extends CommandRequest {
  readonly activityId: string;
}

export interface CommandPlacement {
  readonly runId: string;
  /** The task queue of the host that stores the command's records and will run its VM. */
  readonly taskQueue: string;
}

/** The argument of `readOutput`: an output of a run, by its ref. */
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
  /** Admits a command under the worker's policy and returns the host that runs it. */
  placeCommand(request: PlaceRequest): Promise<CommandPlacement>;
  /**
   * Runs a command once, also if its worker dies: a later attempt attaches to the running command. Without an earlier
   * `placeCommand`, the worker that executes the call admits the command.
   */
  runCommand(request: CommandRequest): Promise<CommandOutcome>;
  /**
   * Reads the beginning of an output. A host that does not have the run fails the call, so that the host that has it
   * can execute it.
   */
  readOutput(request: ReadRequest): Promise<OutputText>;
}
