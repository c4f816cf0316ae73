/** How an attempt of a stage ended. */
import type { AnyErrorCode } from '../errors/error-code.ts';
import type { DataRef, IsolationLevel, LlmProvider } from '../plan/plan.ts';
import type { InstancePath } from './instance.ts';

/** An expected outcome, never a broken world. */
export interface StageResult {
  readonly stage: string;
  readonly instance: InstancePath;
  readonly attempt: number;
  /** Of the attempt's first command; what events and the log are keyed by. */
  readonly execKey: string;
  /** `passed`: the stage's own condition did not hold, and nothing was done. */
  readonly outcome: 'succeeded' | 'failed' | 'cancelled' | 'passed';
  /** Absent when `outcome` is `succeeded` or `passed`. */
  readonly failure: StageFailure | null;
  readonly durationMs: number;
  /** The stage's output: its output file if the plan names one, else its standard output. */
  readonly output: DataRef | null;
  /** Named outputs as tar streams, for stages that take them. */
  readonly outputs: Readonly<Record<string, DataRef>>;
  /**
   * The outputs of a failed or interrupted attempt, by name. People may read them; no stage does. Named outputs as in
   * `outputs`, and the changes of an agent as `PARTIAL_OUTPUTS` names them. Absent: there are no such outputs.
   */
  readonly partial?: Readonly<Record<string, DataRef>> | undefined;
  /** Null for work that needed none. */
  readonly vm: VmFacts | null;
  /** How long the attempt's own VM took to boot. Absent: the attempt had no VM of its own, or a mock. */
  readonly bootMs?: number | undefined;
  /**
   * What it took, by names with their units; a reader shows those that it knows. Those that begin with `vm` are of
   * its whole VM from the boot to the stage's end, other stages of the same VM within them.
   */
  readonly usage: Readonly<Record<string, number>>;
  /** Null for work of another kind. */
  readonly command: CommandResult | null;
  /** Of a stage with an agent that was started; absent: it has none. What it took stands in `usage`. */
  readonly agent?: AgentResult | undefined;
}

export interface AgentResult {
  readonly provider: LlmProvider;
  /** Null, as the session: its stream did not say. */
  readonly model: string | null;
  readonly sessionId: string | null;
  /** The mock agent played it. */
  readonly played: boolean;
  /** Its stream as it came, redacted: JSON, one value a line. */
  readonly transcript: DataRef;
}

export interface StageFailure {
  readonly code: AnyErrorCode;
  readonly message: string;
  /** Last lines of standard error, redacted, at most 2 KiB. */
  readonly stderrTail: string;
}

export interface VmFacts {
  readonly backend: string;
  /** The VMM that ran the VM; `''` when the attempt ended before its VM was there. */
  readonly vmm: string;
  readonly isolation: IsolationLevel;
  /** `''` when the attempt ended before its VM was there. */
  readonly accelerator: string;
}

export interface CommandResult {
  /** 128+n for a signal; null when the command never ran. */
  readonly exitCode: number | null;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
}
