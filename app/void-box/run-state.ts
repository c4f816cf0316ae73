/** The state of a run as clients of Void-Box's API read it. Pure. */
import type { RunView, StageState as ViewState, StageView } from '../../store/run-view.ts';
import { startOfRun } from '../../store/run-view.ts';
import { computeGroups } from '../../domain/void-box/event-parts.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import type { VoidBoxEvent } from '../../domain/void-box/event.ts';
import { POLICY_DEFAULTS, type RunPolicy } from '../../domain/void-box/policy.ts';
import { mustLeaveResult, RESULT_NAME, type ResultProblem } from '../../domain/void-box/result-rule.ts';
import { agentTotals } from '../json/agent-totals.ts';
import type { FoundRun, RunPlace } from './find-run.ts';
import type { StageFiles } from './results.ts';

export type RunStatus = 'pending' | 'starting' | 'running' | 'succeeded' | 'failed' | 'cancelled';

/** The status of a run that the store has, by its state. */
export const STATUS_OF_STATE: Readonly<Record<RunView['state'], RunStatus>> = {
  running: 'running',
  succeeded: 'succeeded',
  failed: 'failed',
  cancelled: 'cancelled',
  terminated: 'failed',
  damaged: 'failed',
};

/** The status of a run that the store does not have yet. A lost run fails, and its id can be started again. */
export const STATUS_OF_PLACE: Readonly<Record<Exclude<RunPlace['kind'], 'stored'>, RunStatus>> = {
  pending: 'pending',
  starting: 'starting',
  lost: 'failed',
};

export type StageStatus = 'queued' | 'running' | 'succeeded' | 'failed' | 'skipped';

export const STATUS_OF_STAGE: Readonly<Record<ViewState, StageStatus>> = {
  waiting: 'queued',
  retrying: 'queued',
  running: 'running',
  asking: 'running',
  sleeping: 'running',
  succeeded: 'succeeded',
  failed: 'failed',
  cancelled: 'failed',
  skipped: 'skipped',
  passed: 'skipped',
};

export interface RunReport {
  readonly name: string;
  readonly kind: string;
  readonly success: boolean;
  readonly output: string;
  readonly stages: number;
  readonly total_cost_usd: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
}

export interface ManifestEntry {
  readonly name: string;
  readonly stage: string;
  readonly media_type: string;
  readonly size_bytes: number;
  readonly retrieval_path: string;
}

export interface RunState {
  readonly id: string;
  readonly status: RunStatus;
  readonly file: string;
  readonly report: RunReport | null;
  readonly error: string | null;
  readonly events: readonly VoidBoxEvent[];
  readonly attempt_id: 1;
  /** ISO 8601, as the other times. */
  readonly started_at: string | null;
  readonly updated_at: string | null;
  readonly terminal_reason: string | null;
  readonly exit_code: number | null;
  readonly active_stage_count: number;
  readonly active_microvm_count: number;
  readonly policy: RunPolicy | null;
  readonly terminal_event_id: string | null;
  readonly finished_at: string | null;
  readonly stage_states: Readonly<Record<string, StageTimes>>;
  readonly artifact_publication: {
    readonly status: 'not_started' | 'publishing' | 'published' | 'failed';
    readonly published_at: string | null;
    readonly manifest: readonly ManifestEntry[];
  };
  readonly output_ready: boolean;
}

interface StageTimes {
  readonly status: StageStatus;
  readonly started_at: string | null;
  readonly completed_at: string | null;
}

/** The facts that the store has besides the view. */
export interface StateFacts {
  /** The results of its stages; null: they were not read. */
  readonly files: readonly StageFiles[] | null;
  readonly resultProblem: ResultProblem | null;
  readonly cancelReason: string | null;
  /** The text of the run's output; null: not read, too long, or not text. */
  readonly outputText: string | null;
  readonly terminalEventId: string | null;
  readonly updatedAtMs: number | null;
  readonly events: readonly VoidBoxEvent[];
}

export const NO_FACTS: StateFacts = {
  files: null,
  resultProblem: null,
  cancelReason: null,
  outputText: null,
  terminalEventId: null,
  updatedAtMs: null,
  events: [],
};

export function findStatus({ place }: Pick<FoundRun, 'place'>, problem: ResultProblem | null): RunStatus {
  if (place.kind !== 'stored') return STATUS_OF_PLACE[place.kind];
  const status = STATUS_OF_STATE[place.view.state];
  return status === 'succeeded' && problem !== null ? 'failed' : status;
}

/** The rule for results, which holds for runs that this API started. */
export function findProblem(
  { started, place }: FoundRun,
  files: readonly StageFiles[],
  stages: readonly string[],
): ResultProblem | null {
  if (started === null || place.kind !== 'stored') return null;
  const { view } = place;
  if (view.state !== 'succeeded' || !mustLeaveResult(view.kind, view.stages.length)) return null;
  const ended = new Map(view.stages.map(({ id, state }) => [id, state]));
  for (const stage of stages) {
    if (ended.get(stage) !== 'succeeded') continue;
    const found = files.find((each) => each.stage === stage);
    if (found === undefined) return { kind: 'missing', message: `stage '${stage}' completed without ${RESULT_NAME}` };
    if (found.problem !== null) return found.problem;
  }
  return null;
}

export function toRunState(found: FoundRun, facts: StateFacts): RunState {
  const { runId, started, place } = found;
  const status = findStatus(found, facts.resultProblem);
  const view = place.kind === 'stored' ? place.view : null;
  const startedAtMs = started?.atMs ?? (view === null ? null : startOfRun(view));
  return {
    id: runId,
    status,
    file: started?.file ?? '',
    report: view === null ? null : toReport(view, status, facts),
    error: findError(found, facts),
    events: facts.events,
    attempt_id: 1,
    started_at: toTime(startedAtMs),
    updated_at: toTime(facts.updatedAtMs ?? view?.finishedAtMs ?? startedAtMs),
    terminal_reason: findReason(found, facts),
    exit_code: view === null ? null : findExitCode(view, status),
    active_stage_count: view?.stages.filter(({ state }) => STATUS_OF_STAGE[state] === 'running').length ?? 0,
    active_microvm_count: view?.vms.filter(({ state }) => state === 'starting' || state === 'ready').length ?? 0,
    policy: started === null || started.policy === null ? null : { ...POLICY_DEFAULTS, ...started.policy },
    terminal_event_id: facts.terminalEventId,
    finished_at: toTime(view?.finishedAtMs ?? null),
    stage_states: createMapping((view?.stages ?? []).map((stage) => [stage.id, toStageTimes(stage)])),
    artifact_publication: toPublication(runId, view, facts),
    output_ready: view?.stages.some(({ published }) => published !== undefined) ?? false,
  };
}

function toReport(view: RunView, status: RunStatus, { outputText }: StateFacts): RunReport | null {
  if (view.outcome === null || view.outcome.state === 'cancelled' || view.name === '') return null;
  const { inputTokens = 0, outputTokens = 0, costUsd = null } = agentTotals(view) ?? {};
  return {
    name: view.name,
    kind: view.kind,
    success: status === 'succeeded',
    output: outputText ?? '',
    stages: view.stages.length,
    total_cost_usd: costUsd ?? 0,
    input_tokens: inputTokens,
    output_tokens: outputTokens,
  };
}

const LOST = 'the service ended before it started the run; start it again with the same `run_id`';

function findError({ place }: FoundRun, { resultProblem }: StateFacts): string | null {
  if (place.kind === 'lost') return LOST;
  if (place.kind !== 'stored') return null;
  const { outcome, damage } = place.view;
  if (damage !== null) return damage;
  return resultProblem?.message ?? outcome?.failure?.message ?? null;
}

function findReason({ place }: FoundRun, { resultProblem, cancelReason }: StateFacts): string | null {
  if (place.kind === 'lost') return 'not_started';
  if (place.kind !== 'stored') return null;
  const { state, outcome } = place.view;
  if (state === 'cancelled') return cancelReason ?? 'run cancelled';
  if (state === 'terminated' || state === 'damaged') return state;
  return resultProblem === null ? (outcome?.failure?.code ?? null) : `structured output ${resultProblem.kind}`;
}

function findExitCode({ outcome, stages, outputStage }: RunView, status: RunStatus): number | null {
  if (outcome === null) return null;
  const stage = stages.find(({ id }) => id === (outcome.failedStage ?? outputStage));
  return stage?.exitCode ?? (status === 'succeeded' ? 0 : null);
}

function toPublication(
  runId: string,
  view: RunView | null,
  { files, resultProblem }: StateFacts,
): RunState['artifact_publication'] {
  const manifest = resultProblem === null ? (files ?? []).flatMap((each) => listEntries(runId, each)) : [];
  const isOpen = view !== null && view.outcome === null;
  const status =
    resultProblem !== null ? 'failed' : manifest.length === 0 ? 'not_started' : isOpen ? 'publishing' : 'published';
  return { status, published_at: status === 'published' ? toTime(view?.finishedAtMs ?? null) : null, manifest };
}

function listEntries(runId: string, { stage, result, problem, artifacts }: StageFiles): readonly ManifestEntry[] {
  const path = `/v1/runs/${encodeURIComponent(runId)}/stages/${encodeURIComponent(stage)}`;
  return [
    ...(result === null || problem !== null
      ? []
      : [
          {
            name: RESULT_NAME,
            stage,
            media_type: 'application/json',
            size_bytes: result.sizeBytes,
            retrieval_path: `${path}/output-file`,
          },
        ]),
    ...artifacts.map(({ name, mediaType, place }) => ({
      name,
      stage,
      media_type: mediaType,
      size_bytes: place.sizeBytes,
      retrieval_path: `${path}/artifacts/${encodeURIComponent(name)}`,
    })),
  ];
}

function toStageTimes(stage: StageView): StageTimes {
  const { startedAtMs } = stage;
  return {
    status: STATUS_OF_STAGE[stage.state],
    started_at: toTime(startedAtMs),
    completed_at: toTime(findEnd(stage)),
  };
}

function findEnd({ startedAtMs, durationMs }: StageView): number | null {
  return startedAtMs === null || durationMs === null ? null : startedAtMs + durationMs;
}

function toTime(atMs: number | null): string | null {
  return atMs === null ? null : new Date(atMs).toISOString();
}

export interface StageJson {
  readonly stage_name: string;
  readonly box_name: string | null;
  readonly group_id: string;
  readonly depends_on: readonly string[];
  readonly status: StageStatus;
  readonly stage_attempt: number;
  readonly started_at: string | null;
  readonly completed_at: string | null;
  readonly duration_ms: number | null;
  readonly exit_code: number | null;
}

export function toStages({ stages, kind }: RunView): readonly StageJson[] {
  const groups = computeGroups(stages);
  const hasBox = kind === 'agent' || kind === 'pipeline';
  return stages.map((stage) => ({
    stage_name: stage.id,
    box_name: hasBox ? stage.id : null,
    group_id: `g${groups.get(stage.id) ?? 0}`,
    depends_on: stage.dependsOn,
    stage_attempt: Math.max(1, stage.attempt),
    ...toStageTimes(stage),
    duration_ms: stage.durationMs,
    exit_code: stage.exitCode,
  }));
}
