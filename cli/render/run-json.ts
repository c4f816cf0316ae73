import type { StageFailure } from '../../domain/run/stage-result.ts';
import type { RunView } from '../../store/projection.ts';

/** What `--json` says about a run. Stable: fields are added, never renamed or removed. */
export interface RunJson {
  readonly runId: string;
  readonly name: string;
  readonly kind: string;
  readonly state: RunView['state'];
  readonly host: string;
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
  readonly stages: readonly StageJson[];
  readonly failedStage: string | null;
  readonly failure: StageFailure | null;
  readonly output: { readonly sha256: string; readonly sizeBytes: number; readonly mediaType: string } | null;
  /** What of the run's files is not what was written; the other fields are what could be read. */
  readonly damage: string | null;
}

export interface StageJson {
  readonly id: string;
  readonly state: string;
  readonly attempt: number;
  readonly exitCode: number | null;
  readonly durationMs: number | null;
  readonly isolation: string | null;
  readonly accelerator: string | null;
  readonly failure: StageFailure | null;
  readonly usage: Readonly<Record<string, number>>;
}

export function toRunJson(view: RunView): RunJson {
  return {
    runId: view.runId,
    name: view.name,
    kind: view.kind,
    state: view.state,
    host: view.hostId,
    startedAt: isoOrNull(view.startedAtMs),
    finishedAt: isoOrNull(view.finishedAtMs),
    stages: view.stages.map(({ id, state, attempt, exitCode, durationMs, isolation, accelerator, failure, usage }) => ({
      id,
      state,
      attempt,
      exitCode,
      durationMs,
      isolation,
      accelerator,
      failure,
      usage,
    })),
    failedStage: view.outcome?.failedStage ?? null,
    failure: view.outcome?.failure ?? null,
    output: view.outcome?.output ?? null,
    damage: view.damage,
  };
}

function isoOrNull(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
