/**
 * Writes the end of a run as the payload of deliveries: facts, and outputs by reference. A reference is the hash of an
 * artifact with the run, the stage and the name under which `voidbox artifacts` and the HTTP API return its bytes.
 */
import type { ArtifactStore } from '../../activities/ports/artifacts.ts';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import type { DataRef } from '../../domain/plan/plan.ts';
import type { RunOutcome } from '../../domain/run/event.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import { readOutputs, type StageOutput } from '../../store/run-outputs.ts';
import type { RunView } from '../../store/run-view.ts';
import type { DeliveryRow, RunEndEvent } from '../../store/triggers.ts';
import type { Machine } from '../machine.ts';
import { readRepairedViews } from '../runs/repair-runs.ts';
import { isDamage } from '../runs/artifacts.ts';
import { resultText } from '../runs/result-text.ts';

export const RUN_END_LIMITS = {
  /** Outputs of stages; later ones are counted. */
  outputs: 256,
  /** Bytes of an output that is in the payload as text, as JSON writes it. */
  textBytes: 8 * 1024,
  /** Bytes of all these texts. */
  allTextBytes: 256 * 1024,
  /** UTF-16 code units of the message of a failure. */
  messageCharacters: 2_048,
} as const;

type Ended = Pick<DeliveryRow, 'id' | 'deployment' | 'version' | 'runId'>;

/** An output by reference. */
interface OutputFact {
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly mediaType: string;
  /** Null: it is larger, is not UTF-8, or is a tar. */
  readonly text: string | null;
}

interface StageFact {
  /** Its standard output or its output file. Null: none. */
  readonly output: OutputFact | null;
  /** Named outputs, by name. */
  readonly outputs: Readonly<Record<string, OutputFact>>;
}

/** The payload. Its names are stable. */
export interface RunEndPayload {
  readonly run: string;
  readonly deployment: string;
  readonly version: number;
  /** The delivery that started the run. */
  readonly delivery: string;
  readonly state: RunOutcome['state'];
  /** ISO 8601. Null: the run was not admitted, or its times are lost. */
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
  readonly durationMs: number | null;
  readonly failure: { readonly stage: string | null; readonly code: string; readonly message: string } | null;
  /** The output of the run. */
  readonly output: OutputFact | null;
  /** The outputs of stages, by name of the stage. Items of lists are left out: the output of the list has them. */
  readonly stages: Readonly<Record<string, StageFact>>;
  /** The number of outputs that `stages` leaves out. */
  readonly outputsLeftOut: number;
}

/**
 * @returns null if the run has not ended
 * @throws CodedError `store/io`
 */
export async function readRunEndEvent(ended: Ended, machine: Machine): Promise<RunEndEvent | null> {
  const { runId } = ended;
  if (runId === null) return null;
  const { index, reader, artifacts } = await machine.stores();
  if (!(await index.has(runId))) return toEvent(describeLostRun({ ...ended, runId }));
  const [view] = await readRepairedViews([runId], machine);
  if (view === undefined || (view.outcome === null && view.damage === null)) return null;
  let outputs: readonly StageOutput[] = [];
  try {
    outputs = view.damage === null ? await readOutputs(reader, runId) : [];
  } catch (error) {
    // Without its outputs the end is an event all the same.
    if (!isCodedError(error) || error.code !== 'store/damaged') throw error;
  }
  return toEvent(await describeRun({ ...ended, runId }, view, outputs, artifacts));
}

function toEvent(payload: RunEndPayload): RunEndEvent {
  return { state: payload.state, body: Buffer.from(JSON.stringify(payload)) };
}

type EndedRun = Ended & { readonly runId: string };

/** A run that no admission has recorded, or that was pruned before its end was noticed. */
function describeLostRun(ended: EndedRun): RunEndPayload {
  return {
    ...describePlace(ended),
    state: 'terminated',
    startedAt: null,
    finishedAt: null,
    durationMs: null,
    failure: { stage: null, code: 'trigger/run-lost', message: 'the store does not contain the run' },
    output: null,
    stages: {},
    outputsLeftOut: 0,
  };
}

function describePlace({ runId, deployment, version, id }: EndedRun) {
  return { run: runId, deployment, version, delivery: id };
}

/** @param outputs  of all stages of the run */
export async function describeRun(
  ended: EndedRun,
  { outcome, damage, startedAtMs, finishedAtMs }: Pick<RunView, 'outcome' | 'damage' | 'startedAtMs' | 'finishedAtMs'>,
  outputs: readonly StageOutput[],
  artifacts: Pick<ArtifactStore, 'open'>,
): Promise<RunEndPayload> {
  const describeOutput = createDescriber(artifacts);
  const hasTimes = startedAtMs !== null && finishedAtMs !== null;
  const shown = outputs.filter(({ instance, isPartial }) => instance.length === 0 && isPartial !== true);
  // The output of the run is the first one that may be text.
  const output = outcome === null || outcome.output === null ? null : await describeOutput(outcome.output, false);
  const stages = new Map<string, { output: OutputFact | null; outputs: [string, OutputFact][] }>();
  for (const { stage, name, ref, isFile } of shown.slice(0, RUN_END_LIMITS.outputs)) {
    const fact = stages.get(stage) ?? { output: null, outputs: [] };
    const described = await describeOutput(ref, name !== null && isFile !== true);
    if (name === null) fact.output = described;
    else fact.outputs.push([name, described]);
    stages.set(stage, fact);
  }
  return {
    ...describePlace(ended),
    state: outcome?.state ?? 'failed',
    startedAt: writeTime(startedAtMs),
    finishedAt: writeTime(finishedAtMs),
    durationMs: hasTimes ? Math.max(0, finishedAtMs - startedAtMs) : null,
    failure: describeFailure(outcome, damage),
    output,
    stages: createMapping(
      [...stages].map(([stage, fact]) => [stage, { output: fact.output, outputs: createMapping(fact.outputs) }]),
    ),
    outputsLeftOut: Math.max(0, shown.length - RUN_END_LIMITS.outputs),
  };
}

function describeFailure(outcome: RunOutcome | null, damage: string | null): RunEndPayload['failure'] {
  const cut = (text: string): string => text.slice(0, RUN_END_LIMITS.messageCharacters);
  if (outcome === null) return { stage: null, code: 'store/damaged', message: cut(damage ?? '') };
  if (outcome.failure === null) return null;
  const { code, message } = outcome.failure;
  return { stage: outcome.failedStage, code, message: cut(message) };
}

function writeTime(timeMs: number | null): string | null {
  return timeMs === null ? null : new Date(timeMs).toISOString();
}

function createDescriber(
  artifacts: Pick<ArtifactStore, 'open'>,
): (ref: DataRef, isTar: boolean) => Promise<OutputFact> {
  let left: number = RUN_END_LIMITS.allTextBytes;
  return async (ref, isTar) => {
    const { sha256, sizeBytes, mediaType } = ref;
    const most = Math.min(left, RUN_END_LIMITS.textBytes);
    const text = isTar || sizeBytes > most ? null : await readText(ref, artifacts);
    // Control characters take six bytes each.
    const bytes = text === null ? 0 : Buffer.byteLength(JSON.stringify(text));
    const fits = bytes <= most;
    if (fits) left -= bytes;
    return { sha256, sizeBytes, mediaType, text: fits ? text : null };
  };
}

async function readText(ref: DataRef, artifacts: Pick<ArtifactStore, 'open'>): Promise<string | null> {
  try {
    return await resultText(ref, artifacts as ArtifactStore);
  } catch (error) {
    if (isDamage(error)) return null;
    throw error;
  }
}
