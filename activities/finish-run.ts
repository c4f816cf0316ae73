/**
 * The last activity of a run: writes its terminal event and the manifest of its artifacts, and drops the variables and
 * mounts of the run.
 */
import { isCodedError } from '../domain/errors/coded-error.ts';
import { retryOf } from '../domain/errors/error-code.ts';
import type { NamedOutput } from '../domain/pipeline/state.ts';
import type { DataRef } from '../domain/plan/plan.ts';
import { EVENT_ID } from '../domain/run/event-id.ts';
import type { RunOutcome } from '../domain/run/event.ts';
import type { FinishRequest, InlineOrRef } from './contract.ts';
import type { ActivityDeps } from './deps.ts';
import { mergeOutputs } from './items/merge-outputs.ts';

/** Record `manifest`: garbage collection keeps the artifacts that a manifest names. */
export interface RunManifest {
  readonly version: 1;
  readonly refs: readonly DataRef[];
}

/** @returns the outcome as it is written, with its output */
export async function finishRun(deps: ActivityDeps, request: FinishRequest): Promise<RunOutcome> {
  const { runId } = request;
  const outcome = request.merge === null ? request.outcome : await withMerge(deps, request.outcome, request.merge);
  await deps.records.put(runId, 'manifest', await manifestOf(deps, runId, outcome));
  // Drop the variables before the terminal event: a reader that sees the event must find no variables.
  await deps.hostVariables.drop(runId);
  await deps.events.append(runId, [
    ...request.events,
    { id: EVENT_ID.runFinished, atMs: deps.now(), body: { type: 'run-finished', outcome } },
  ]);
  await deps.mounts.dropRun(runId);
  await deps.checkpoints?.endRun(runId);
  return outcome;
}

/**
 * Returns the recorded outcome, after an attempt whose answer was lost, or after a reset of an ended run. Repeats the
 * steps that follow the terminal event.
 */
export async function finishAgain(
  deps: Pick<ActivityDeps, 'hostVariables' | 'mounts' | 'checkpoints'>,
  runId: string,
  outcome: RunOutcome,
): Promise<RunOutcome> {
  await deps.hostVariables.drop(runId);
  await deps.mounts.dropRun(runId);
  await deps.checkpoints?.endRun(runId);
  return outcome;
}

/** If a merge fails, a run that would have succeeded fails instead. The run ends in any case. */
async function withMerge(deps: ActivityDeps, outcome: RunOutcome, merge: readonly NamedOutput[]): Promise<RunOutcome> {
  try {
    return { ...outcome, output: await mergeOutputs(deps.artifacts, merge) };
  } catch (error) {
    if (!isCodedError(error) || retryOf(error.code) !== 'never') throw error;
    if (outcome.state !== 'succeeded') return outcome;
    return {
      ...outcome,
      state: 'failed',
      failure: { code: error.code, message: `the result can't be merged: ${error.message}`, stderrTail: '' },
    };
  }
}

async function manifestOf(deps: ActivityDeps, runId: string, { output: result }: RunOutcome): Promise<RunManifest> {
  const refs = new Map<string, DataRef>(result === null ? [] : [[result.sha256, result]]);
  const admission = (await deps.records.get(runId, 'admission')) as
    | { readonly input?: InlineOrRef | null }
    | null
    | undefined;
  if (admission?.input?.kind === 'ref') refs.set(admission.input.ref.sha256, admission.input.ref);
  for await (const { body } of deps.reader.read(runId, 0, { output: false })) {
    if ((body.type === 'stage-answered' || body.type === 'stage-passed') && body.output !== undefined)
      refs.set(body.output.sha256, body.output);
    if (body.type !== 'stage-finished' && body.type !== 'stage-given') continue;
    const { output, outputs } = body.type === 'stage-given' ? body : body.result;
    for (const ref of [...(output === null ? [] : [output]), ...Object.values(outputs)]) refs.set(ref.sha256, ref);
  }
  return { version: 1, refs: [...refs.values()] };
}
