/** A stage that returns its `mock` instead of running. */
import { Buffer } from 'node:buffer';
import type { DataRef, MockWork, StagePlan } from '../../domain/plan/plan.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import type { InstancePath } from '../../domain/run/instance.ts';
import type { StageFailure, StageResult } from '../../domain/run/stage-result.ts';
import type { ActivityDeps } from '../deps.ts';
import { withHeartbeat } from '../heartbeat.ts';
import { findOutputMismatch } from './output-check.ts';
import { readResult, writeResult } from './record.ts';

export interface MockedRequest {
  readonly runId: string;
  readonly stage: string;
  /** The item that the stage belongs to; empty: the run itself. */
  readonly instance: InstancePath;
  readonly mock: MockWork;
  readonly outputSchema: StagePlan['outputSchema'];
  readonly attempt: number;
  readonly execKey: string;
  /** Events of the workflow that no activity has written yet. */
  readonly events: readonly NewRunEvent[];
}

type Deps = Pick<ActivityDeps, 'artifacts' | 'checkOutput' | 'events' | 'now'>;

export function mockStage(deps: Deps, request: MockedRequest): Promise<StageResult> {
  return withHeartbeat(() => concludeMocked(deps, request));
}

/** Does the same as `mockStage`, in an activity that has begun. */
export async function concludeMocked(deps: Deps, request: MockedRequest): Promise<StageResult> {
  const { runId, stage, instance, execKey, attempt, mock, events } = request;
  const started: NewRunEvent = {
    id: EVENT_ID.attempt(execKey, 'started'),
    atMs: deps.now(),
    body: { type: 'stage-started', stage, execKey, attempt },
  };
  const earlier = await readResult(deps.events, runId, execKey);
  if (earlier !== null) {
    if (events.length > 0) await deps.events.append(runId, events);
    return earlier;
  }
  await deps.events.append(runId, [...events, started]);
  const bytes = Buffer.from(mock.output);
  const output = mock.exitCode === 0 ? await deps.artifacts.put(toStream(bytes), 'application/octet-stream') : null;
  const failure = await failureOf(deps, request, output);
  const result: StageResult = {
    stage,
    instance,
    attempt,
    execKey,
    outcome: failure === null ? 'succeeded' : 'failed',
    failure,
    durationMs: 0,
    output: failure === null ? output : null,
    outputs: {},
    vm: null,
    usage: {},
    command: { exitCode: mock.exitCode, stdoutBytes: bytes.byteLength, stderrBytes: 0 },
  };
  return await writeResult(deps.events, runId, result, null, deps.now());
}

/** @param output null if the exit code of the mock is a failure */
async function failureOf(
  deps: Deps,
  { stage, mock, outputSchema }: MockedRequest,
  output: DataRef | null,
): Promise<StageFailure | null> {
  if (output === null) {
    const message = `stage ${stage} ended with exit code ${mock.exitCode}, as its mock sets`;
    return { code: 'stage/exit-nonzero', message, stderrTail: '' };
  }
  const mismatch = await findOutputMismatch(deps, { id: stage, outputSchema }, output);
  return mismatch === null ? null : { ...mismatch, stderrTail: '' };
}

async function* toStream(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}
