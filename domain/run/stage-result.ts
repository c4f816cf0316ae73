/** How an attempt of a stage ended. */
import type { AnyErrorCode } from '../errors/error-code.ts';
import type { DataRef, IsolationLevel, LlmProvider } from '../plan/plan.ts';
import type { InstancePath } from './instance.ts';

/** An outcome that the plan foresees. Failures of the infrastructure are errors instead. */
export interface StageResult {
  readonly stage: string;
  readonly instance: InstancePath;
  readonly attempt: number;
  /** The exec key of the attempt's first command, which identifies its events and its log. */
  readonly execKey: string;
  /** `passed`: the stage's own condition did not hold, and it did no work. */
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
  /** Null for work without a VM. */
  readonly vm: VmFacts | null;
  /** How long the attempt's own VM took to boot. Absent: the attempt had no VM of its own, or a mock. */
  readonly bootMs?: number | undefined;
  /**
   * Measured use, by names with units; a reader shows the names that it knows. Names with the prefix `vm` cover the
   * whole VM from its boot to the end of the stage, including other stages in the same VM.
   */
  readonly usage: Readonly<Record<string, number>>;
  /** Null for work without a command. */
  readonly command: CommandResult | null;
  /** For a stage whose agent was started; absent: no agent was started. `usage` contains its use. */
  readonly agent?: AgentResult | undefined;
}

export interface AgentResult {
  readonly provider: LlmProvider;
  /** Null if the agent's stream did not contain it; the session too. */
  readonly model: string | null;
  readonly sessionId: string | null;
  /** Whether the mock agent played the agent. */
  readonly played: boolean;
  /** The agent's stream, redacted: JSON, one value per line. */
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
