/**
 * The answer to the query `view` of a run: its state, and refs of the outputs of its stages. It is for programs; people
 * have the board.
 */
import type { RunOutcome } from '../../domain/run/event.ts';
import type { RunOrigin } from '../../domain/run/origin.ts';
import type { StageFailure } from '../../domain/run/stage-result.ts';
import type { MachinePlan } from '../../domain/pipeline/machine-plan.ts';
import { listTolerated } from '../../domain/pipeline/outcome.ts';
import { rowAt } from '../../domain/pipeline/rows.ts';
import { isEnd, type RunState, type StagePhase } from '../../domain/pipeline/state.ts';
import type { DataRef } from '../../domain/plan/plan.ts';
import { countUtf8Bytes } from '../../domain/units/utf8.ts';
import { createMapping } from '../../domain/units/mapping.ts';

/** Fields are added, never renamed or removed. `version` changes if the meaning of a field changes. */
export interface RunStatus {
  readonly version: 1;
  readonly runId: string;
  /** `admitting`: the run's first activity has not answered yet; only the id is known. */
  readonly state: 'admitting' | 'running' | RunOutcome['state'];
  /** Only stages with `finally` may still start, because the run is being cancelled or has given up. */
  readonly ending: boolean;
  /** The name in the spec; null before the admission. */
  readonly name: string | null;
  readonly host: string | null;
  /** The earlier run that this run is a retry or a fork of; null: it is neither, or is not admitted yet. */
  readonly origin: RunOrigin | null;
  /** Stages that return their `mock`, in the order of the spec. */
  readonly mocked: readonly string[];
  /** In the order of the spec: the stages that the query names, or all. */
  readonly stages: readonly StageStatus[];
  readonly failedStage: string | null;
  readonly failure: StageFailure | null;
  /** Stages that have failed with `continue_on_error`. */
  readonly tolerated: readonly string[];
  /** The run's result, once it has ended. */
  readonly output: DataRef | null;
  /** The number of outputs that did not fit into the answer. A query that names fewer stages returns them. */
  readonly leftOut: { readonly outputs: number };
}

/** The names of states in `voidbox status --json`. */
export type StageStanding = Exclude<StagePhase, 'ready' | 'backoff'> | 'retrying';

export interface StageStatus {
  readonly id: string;
  readonly state: StageStanding;
  /** From 1; 0 before the first attempt. */
  readonly attempt: number;
  /** Output of a stage that succeeded, if there is one: its standard output, or its output file. */
  readonly output?: DataRef;
  /** Named outputs, as tar streams. */
  readonly outputs?: Readonly<Record<string, DataRef>>;
}

/** The argument of the query. Absent: all stages. */
export interface ViewRequest {
  readonly stages?: readonly string[];
}

export interface RunSnapshot {
  readonly host: string;
  readonly origin: RunOrigin | null;
  readonly plan: MachinePlan;
  readonly state: RunState;
  /** The outcome as the log contains it; null while the run is open. */
  readonly outcome: RunOutcome | null;
}

/**
 * Bytes of refs in one answer, as JSON. With the names and states of 2,000 stages the answer stays below 1 MiB; the
 * server accepts 2 MiB.
 */
const MOST_REF_BYTES = 640 * 1024;

const NOTHING_YET = {
  ending: false,
  name: null,
  host: null,
  origin: null,
  mocked: [],
  stages: [],
  failedStage: null,
  failure: null,
  tolerated: [],
  output: null,
  leftOut: { outputs: 0 },
} as const;

/** @param refused  why the run was not admitted; null while it may be */
export function statusBeforeAdmission(runId: string, refused: StageFailure | null): RunStatus {
  return { version: 1, runId, ...NOTHING_YET, state: refused === null ? 'admitting' : 'failed', failure: refused };
}

/** @param stages  indexes of stages in the plan */
export function statusOf(
  runId: string,
  { host, origin, plan, state, outcome }: RunSnapshot,
  stages: readonly number[],
  mostRefBytes: number = MOST_REF_BYTES,
): RunStatus {
  const refs = new RefRoom(mostRefBytes);
  return {
    version: 1,
    runId,
    state: outcome?.state ?? 'running',
    ending: outcome === null && state.cancelRequested,
    name: plan.name,
    host,
    origin,
    mocked: plan.stages.flatMap(({ id, mocked }) => (mocked === true ? [id] : [])),
    stages: stages.map((index) => stageStatus(plan, state, index, refs)),
    failedStage: outcome === null ? (state.firstFailure?.stage ?? null) : outcome.failedStage,
    failure: outcome === null ? (state.firstFailure?.failure ?? null) : outcome.failure,
    tolerated: outcome?.tolerated ?? listTolerated(plan, state),
    output: outcome?.output ?? null,
    leftOut: { outputs: refs.leftOut },
  };
}

function stageStatus(plan: MachinePlan, state: RunState, index: number, refs: RefRoom): StageStatus {
  const { phase, attempt, result } = rowAt(state.stages, index);
  const base = { id: plan.stages[index]!.id, state: standingOf(phase), attempt };
  // A loop that continues contains the output of its last visit, which is not its own output yet.
  if (result === null || !isEnd(phase)) return base;
  const output = result.output !== null && refs.has(result.output) ? result.output : null;
  const outputs = Object.entries(result.outputs).filter(([name, ref]) => refs.has([name, ref]));
  return {
    ...base,
    ...(output === null ? {} : { output }),
    ...(outputs.length === 0 ? {} : { outputs: createMapping(outputs) }),
  };
}

function standingOf(phase: StagePhase): StageStanding {
  if (phase === 'backoff') return 'retrying';
  return phase === 'ready' ? 'waiting' : phase;
}

/** Room for refs, by their sizes as JSON. */
class RefRoom {
  leftOut = 0;
  #bytes: number;

  constructor(bytes: number) {
    this.#bytes = bytes;
  }

  /** Takes the room for `value` if there is enough. */
  has(value: unknown): boolean {
    const bytes = countUtf8Bytes(JSON.stringify(value));
    if (bytes > this.#bytes) {
      this.leftOut += 1;
      return false;
    }
    this.#bytes -= bytes;
    return true;
  }
}

/** @returns the indexes of the stages that the query names, or the problem of the query */
export function stagesAsked(plan: MachinePlan, request: unknown): readonly number[] | string {
  const { stages } = (request ?? {}) as { readonly stages?: unknown };
  if (stages === undefined) return plan.stages.map((_, index) => index);
  if (!Array.isArray(stages)) return 'the query `view` takes {"stages": ["name", …]}, or nothing for all stages';
  const asked = new Set<unknown>(stages);
  const found = plan.stages.flatMap(({ id }, index) => (asked.delete(id) ? [index] : []));
  if (asked.size === 0) return found;
  return `this run has no stage ${(JSON.stringify([...asked][0]) ?? 'without a name').slice(0, 80)}`;
}
