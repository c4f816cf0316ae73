/** The outputs of a run's stages and items, folded from its events: refs of artifacts. */
import type { RunReader } from '../activities/ports/run-reader.ts';
import type { DataRef } from '../domain/plan/plan.ts';
import { TRANSCRIPT } from '../domain/plan/work.ts';
import { parseExecKey } from '../domain/run/attempt.ts';
import type { RunEvent } from '../domain/run/event.ts';
import { type InstancePath, formatStageName } from '../domain/run/instance.ts';
import type { StageResult } from '../domain/run/stage-result.ts';

export interface StageOutput {
  /** Under its name in the plan. */
  readonly stage: string;
  /** As people write it: `fix`, or `fixes[1].work` for a stage of an item. */
  readonly label: string;
  /** The item; empty: the run itself. */
  readonly instance: InstancePath;
  /**
   * The name of a named output, whose artifact is a tar unless `isFile` is set. Null: the stage's own output, which is
   * its standard output or its output file.
   */
  readonly name: string | null;
  /**
   * The artifact is not a tar but the bytes of a file: the stream of the stage's agent, or a file of its workspace
   * changes.
   */
  readonly isFile?: true;
  /** Its attempt failed or was interrupted: no stage reads it. Absent: it is a result. */
  readonly isPartial?: true;
  readonly ref: DataRef;
}

/**
 * Returns the outputs of each stage's latest attempt, in the order in which stages ended; named outputs follow the stage's own.
 * Outputs of items follow those of the run itself, in the order of their items. An attempt that failed without changes of its own does
 * not replace the partial outputs of the one before it.
 * @throws CodedError `store/damaged`, `store/io`
 */
export async function readOutputs(reader: RunReader, runId: string): Promise<readonly StageOutput[]> {
  const byStage = new Map<string, readonly StageOutput[]>();
  for await (const { body } of reader.read(runId, 0, { output: false })) noteOutputs(byStage, body);
  return [...byStage.values()].toSorted(compareItems).flat();
}

/** Named outputs are tars; any other artifact has the media type of its content. */
function isTar({ mediaType }: DataRef): boolean {
  return mediaType === 'application/x-tar';
}

const NOT_DONE: ReadonlySet<string> = new Set<StageResult['outcome']>(['failed', 'cancelled']);

type EndBody = Extract<RunEvent['body'], { type: 'stage-finished' | 'stage-given' }>;
type Owner = Pick<StageOutput, 'stage' | 'label' | 'instance'>;

function noteOutputs(byStage: Map<string, readonly StageOutput[]>, body: RunEvent['body']): void {
  const replace = (label: string, outputs: readonly StageOutput[]): void => {
    byStage.delete(label);
    if (outputs.length > 0) byStage.set(label, outputs);
  };
  const keepPartial = (label: string): void => replace(label, (byStage.get(label) ?? []).filter(isPartial));
  // Stages that ended in the lost VM, or in the visit before, run again.
  if (body.type === 'scope-restarted' || body.type === 'loop-visited') return body.stages.forEach(keepPartial);
  if (!('stage' in body)) return;
  const owner = ownerOf(body);
  const { label } = owner;
  if (body.type === 'stage-finished' || body.type === 'stage-given') {
    const left = outputsOf(owner, body);
    const isKept = body.type === 'stage-finished' && NOT_DONE.has(body.result.outcome) && !left.some(isPartial);
    replace(label, isKept ? [...left, ...(byStage.get(label) ?? []).filter(isPartial)] : left);
  } else if (body.type === 'stage-published') {
    // The service is still running: this is its output until its next publication or its end.
    byStage.set(label, [{ ...owner, name: null, ref: body.output }]);
  } else if (body.type === 'stage-answered')
    replace(label, body.output === undefined ? [] : [{ ...owner, name: null, ref: body.output }]);
  else if (body.type === 'stage-failed') keepPartial(label);
}

function ownerOf(body: { readonly stage: string; readonly execKey?: string }): Owner {
  const { stage, execKey } = body;
  const instance = (execKey === undefined ? null : parseExecKey(execKey)?.instance) ?? [];
  return { stage, label: formatStageName(stage, instance), instance };
}

function isPartial(output: StageOutput): boolean {
  return output.isPartial === true;
}

function outputsOf(owner: Owner, body: EndBody): readonly StageOutput[] {
  const { output, outputs } = body.type === 'stage-given' ? body : body.result;
  return [
    ...(output === null ? [] : [{ ...owner, name: null, ref: output }]),
    ...namedOf(owner, outputs),
    ...partialOf(owner, body),
    ...transcriptOf(owner, body),
  ];
}

function namedOf(owner: Owner, outputs: Readonly<Record<string, DataRef>>): readonly StageOutput[] {
  return Object.entries(outputs).map(([name, ref]) => ({
    ...owner,
    name,
    ...(isTar(ref) ? {} : { isFile: true as const }),
    ref,
  }));
}

/** Returns the outputs of an unsuccessful attempt. */
function partialOf(owner: Owner, body: EndBody): readonly StageOutput[] {
  if (body.type !== 'stage-finished' || !('partial' in body.result)) return [];
  return namedOf(owner, body.result.partial ?? {}).map((output) => ({ ...output, isPartial: true }));
}

/** Returns the transcript of the agent, also for a stage that failed. */
function transcriptOf(owner: Owner, body: EndBody): readonly StageOutput[] {
  if (body.type !== 'stage-finished' || !('agent' in body.result) || body.result.agent === undefined) return [];
  return [{ ...owner, name: TRANSCRIPT, isFile: true, ref: body.result.agent.transcript }];
}

/** Sorts items of one list by number, after the run's own stages. Equal items keep their order. */
function compareItems([one]: readonly StageOutput[], [other]: readonly StageOutput[]): number {
  const [path, otherPath] = [one?.instance ?? [], other?.instance ?? []];
  if (path.length === 0 || otherPath.length === 0) return Math.sign(path.length) - Math.sign(otherPath.length);
  for (const [at, step] of path.entries()) {
    const otherStep = otherPath[at];
    if (otherStep === undefined) break;
    if (step.part !== otherStep.part) return step.part < otherStep.part ? -1 : 1;
    const difference = (step.attempt ?? 1) - (otherStep.attempt ?? 1) || step.item - otherStep.item;
    if (difference !== 0) return difference;
  }
  return 0;
}
