/** What the stages of a run have left, folded from its events: refs of artifacts. */
import type { RunReader } from '../activities/ports/run-reader.ts';
import type { DataRef } from '../domain/plan/plan.ts';
import { parseExecKey } from '../domain/run/attempt.ts';
import type { RunEvent } from '../domain/run/event.ts';

export interface StageOutput {
  readonly stage: string;
  /** Of a named output, whose artifact is a tar unless `isFile` is there. Null: what the stage put out itself, its standard output or its output file. */
  readonly name: string | null;
  /** It is no tar but the bytes of a file: the stream of the stage's agent, or what it left in its workspace. */
  readonly isFile?: true;
  /** Its attempt failed or was interrupted: no stage reads it. Absent: it is a result. */
  readonly isPartial?: true;
  readonly ref: DataRef;
}

/**
 * Of each stage what its latest attempt left, in the order in which stages ended; named outputs stand after the stage's own.
 * @throws CodedError `store/damaged`, `store/io`
 */
export async function readOutputs(reader: RunReader, runId: string): Promise<readonly StageOutput[]> {
  const byStage = new Map<string, readonly StageOutput[]>();
  for await (const { body } of reader.read(runId, 0, { output: false })) noteOutputs(byStage, body);
  return [...byStage.values()].flat();
}

/** Also of a stage that failed. */
function transcriptOf(
  body: Extract<RunEvent['body'], { type: 'stage-finished' | 'stage-given' }>,
): readonly StageOutput[] {
  if (body.type !== 'stage-finished' || !('agent' in body.result) || body.result.agent === undefined) return [];
  const { transcript } = body.result.agent;
  return [{ stage: body.stage, name: TRANSCRIPT, isFile: true, ref: transcript }];
}

/** As the list of artifacts calls it. */
export const TRANSCRIPT = 'transcript.jsonl';

/** What an attempt that did not succeed left. */
function partialOf(
  body: Extract<RunEvent['body'], { type: 'stage-finished' | 'stage-given' }>,
): readonly StageOutput[] {
  if (body.type !== 'stage-finished' || !('partial' in body.result)) return [];
  const { stage } = body;
  return Object.entries(body.result.partial ?? {}).map(([name, ref]) => ({
    stage,
    name,
    ...(isTar(ref) ? {} : { isFile: true as const }),
    isPartial: true,
    ref,
  }));
}

/** As named outputs are; what else there is says what it is. */
function isTar({ mediaType }: DataRef): boolean {
  return mediaType === 'application/x-tar';
}

function noteOutputs(byStage: Map<string, readonly StageOutput[]>, body: RunEvent['body']): void {
  // What items left stands in the output of their stage.
  if ('execKey' in body && (parseExecKey(body.execKey)?.instance.length ?? 0) > 0) return;
  if (body.type === 'stage-finished' || body.type === 'stage-given') {
    const { stage } = body;
    const { output, outputs } = body.type === 'stage-given' ? body : body.result;
    byStage.delete(stage);
    byStage.set(stage, [
      ...(output === null ? [] : [{ stage, name: null, ref: output }]),
      ...Object.entries(outputs).map(([name, ref]): StageOutput => ({
        stage,
        name,
        ...(isTar(ref) ? {} : { isFile: true as const }),
        ref,
      })),
      ...partialOf(body),
      ...transcriptOf(body),
    ]);
  } else if (body.type === 'stage-published') {
    // It serves on: until the next one, or its end, this is what it has put out.
    const { stage, output } = body;
    byStage.set(stage, [{ stage, name: null, ref: output }]);
  } else if (body.type === 'stage-answered') {
    const { stage, output } = body;
    byStage.delete(stage);
    if (output !== undefined) byStage.set(stage, [{ stage, name: null, ref: output }]);
  } else if (body.type === 'stage-failed') byStage.delete(body.stage);
  // What ended in the VM that was lost, or in the visit before, runs again.
  else if (body.type === 'scope-restarted' || body.type === 'loop-visited')
    for (const stage of body.stages) byStage.delete(stage);
}
