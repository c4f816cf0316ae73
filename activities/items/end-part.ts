/** Ends a part after its stages have succeeded, and passes on their results under one name. */
import { isCodedError } from '../../domain/errors/coded-error.ts';
import type { DataRef, PartWork, StagePlan } from '../../domain/plan/plan.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import type { InstancePath } from '../../domain/run/instance.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import type { UpstreamOutputs } from '../contract.ts';
import type { ActivityDeps } from '../deps.ts';
import { withHeartbeat } from '../heartbeat.ts';
import { mergeOutputs } from './merge-outputs.ts';
import { findOutputMismatch } from '../attempt/output-check.ts';
import { readResult, writeResult } from '../attempt/record.ts';
import { valueAt } from '../../domain/units/mapping.ts';

export interface EndPartRequest {
  readonly runId: string;
  readonly stage: string;
  /** The item that the part belongs to; empty: the run itself. */
  readonly instance: InstancePath;
  readonly attempt: number;
  readonly execKey: string;
  readonly part: PartWork;
  readonly outputSchema: StagePlan['outputSchema'];
  readonly upstream: Readonly<Record<string, UpstreamOutputs>>;
  readonly events: readonly NewRunEvent[];
}

export function endPart(deps: ActivityDeps, request: EndPartRequest): Promise<StageResult> {
  return withHeartbeat(async (life) => {
    const { runId, stage, execKey, attempt, part } = request;
    if (request.events.length > 0) await deps.events.append(runId, request.events);
    const earlier = await readResult(deps.events, runId, execKey);
    if (earlier !== null) return earlier;
    const startedAtMs = deps.now();
    await deps.events.append(runId, [
      {
        id: EVENT_ID.attempt(execKey, 'started'),
        atMs: startedAtMs,
        body: { type: 'stage-started', stage, execKey, attempt },
      },
    ]);
    const conclude = (end: Partial<StageResult>): Promise<StageResult> => {
      const durationMs = Math.max(0, deps.now() - startedAtMs);
      return writeResult(deps.events, runId, { ...emptyResult(request), durationMs, ...end }, null, deps.now());
    };
    life.phase('handing on the output');
    try {
      const output = await outputOf(deps, part, request.upstream);
      const mismatch = output === null ? null : await findOutputMismatch(deps, { ...request, id: stage }, output);
      return await conclude(
        mismatch === null ? { outcome: 'succeeded', output } : { failure: { ...mismatch, stderrTail: '' } },
      );
    } catch (error) {
      if (!isCodedError(error) || error.code !== 'run/too-large') throw error;
      return await conclude({ failure: { code: error.code, message: error.message, stderrTail: '' } });
    }
  });
}

/** Returns null if the stage that provides the output was passed. */
async function outputOf(
  { artifacts }: ActivityDeps,
  { output }: PartWork,
  upstream: EndPartRequest['upstream'],
): Promise<DataRef | null> {
  if (output.kind === 'stage') return valueAt(upstream, output.stage)?.output ?? null;
  const parts = output.of.flatMap(({ name, stage }) => {
    const ref = valueAt(upstream, stage)?.output ?? null;
    return ref === null ? [] : [{ name, output: ref }];
  });
  return mergeOutputs(artifacts, parts);
}

function emptyResult({ stage, instance, attempt, execKey }: EndPartRequest): StageResult {
  return {
    stage,
    instance,
    attempt,
    execKey,
    outcome: 'failed',
    failure: null,
    durationMs: 0,
    output: null,
    outputs: {},
    vm: null,
    usage: {},
    command: null,
  };
}
