/** How an attempt of a stage ended, and what earlier builds wrote of it. */
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
  /** How long the VM took to boot that this attempt had for itself. Absent: it had none, or a mock, or an earlier build ran it. */
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
  /** Of which backend. Unknown (`''`) in results of the first builds. */
  readonly backend: string;
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

/** As the first builds wrote it into logs and histories. */
export interface EarlierStageResult extends CommandResult, Omit<VmFacts, 'backend'> {
  readonly stage: string;
  readonly execKey: string;
  readonly outcome: 'succeeded' | 'failed' | 'cancelled';
  readonly failure: StageFailure | null;
  readonly durationMs: number;
  readonly output: DataRef | null;
  readonly outputs: Readonly<Record<string, DataRef>>;
}

export type StoredStageResult = StageResult | EarlierStageResult;

/** What was read from a log or a history, as this build says it. */
export function toStageResult(stored: StoredStageResult): StageResult {
  if ('vm' in stored) return stored;
  const {
    stage,
    execKey,
    outcome,
    failure,
    durationMs,
    output,
    outputs,
    isolation,
    accelerator,
    exitCode,
    stdoutBytes,
    stderrBytes,
  } = stored;
  return {
    stage,
    // Their keys end in the attempt, and none was of an item.
    instance: [],
    attempt: Number(execKey.slice(execKey.lastIndexOf('/') + 1)),
    execKey,
    outcome,
    failure,
    durationMs,
    output,
    outputs,
    vm: { backend: '', isolation, accelerator },
    usage: {},
    command: { exitCode, stdoutBytes, stderrBytes },
  };
}
