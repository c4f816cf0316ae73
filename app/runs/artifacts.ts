/** The outputs of a run as artifacts: their list, and the bytes of one. */
import type { ArtifactStore } from '../../activities/ports/artifacts.ts';
import { CodedError, isCodedError } from '../../domain/errors/coded-error.ts';
import type { DataRef, Plan } from '../../domain/plan/plan.ts';
import { fromWire, type PlanWire } from '../../domain/plan/wire.ts';
import { shorten } from '../../domain/units/quote.ts';
import { listNamedArtifacts } from '../../store/named-artifacts.ts';
import { readOutputs, type StageOutput } from '../../store/run-outputs.ts';
import type { RunView } from '../../store/run-view.ts';
import { streamTar } from '../../tar/stream.ts';
import { AppError, createUsageError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { readRepairedViews } from './repair-runs.ts';
import { formatRunId } from './run-id.ts';
import { fileNameOf } from './unpack.ts';

/** The outputs of a run, and those that its plan declares. */
export interface RunOutputs {
  readonly view: RunView;
  readonly outputs: readonly StageOutput[];
  /** Null if the plan cannot be read. */
  readonly plan: Plan | null;
  readonly artifacts: ArtifactStore;
}

/** `damaged`: its bytes are missing or are no tar. Bytes with a wrong hash are detected when they are fetched. */
export type OutputKind = 'file' | 'folder' | 'damaged';

/** The `--json` form of an output. Stable. */
export interface OutputJson {
  readonly stage: string;
  readonly name: string | null;
  readonly kind: OutputKind;
  readonly partial: boolean;
  readonly sizeBytes: number;
  readonly sha256: string;
  readonly mediaType: string;
}

/** The `--json` form of the list. Stable. */
export interface OutputsJson {
  readonly runId: string;
  readonly state: string;
  readonly artifacts: readonly OutputJson[];
}

/** The bytes of an output, for a reader who may want a part of them. */
export interface OutputBytes {
  readonly sha256: string;
  readonly sizeBytes: number;
  /** A name for a file that gets the bytes. From a guest: not safe for a terminal. */
  readonly fileName: string;
  /** The bytes are a file within the artifact, which is a tar. */
  readonly isMember: boolean;
  /** Yields the bytes from an offset. More bytes than `sizeBytes` may follow. */
  open(offset: number): AsyncIterable<Uint8Array>;
}

/** @throws CodedError `store/damaged`, AppError for an unknown run */
export async function readRunOutputs(runId: string, context: Machine): Promise<RunOutputs> {
  const { reader, records, artifacts } = await context.stores();
  const [view] = await readRepairedViews([runId], context);
  if (view === undefined) throw createUsageError(`there is no run \`${formatRunId(runId)}\``);
  if (view.damage !== null) throw new CodedError('store/damaged', view.damage);
  const wire = await records.get(runId, 'plan').catch(() => null);
  return {
    view,
    outputs: await readOutputs(reader, runId),
    plan: wire === null ? null : fromWire(wire as PlanWire),
    artifacts,
  };
}

/** Lists the outputs without results of items, which the output of their list contains. */
export function listShownOutputs({ outputs }: RunOutputs): readonly StageOutput[] {
  return outputs.filter(({ stage, name, instance }) => name !== null || instance.at(-1)?.part !== stage);
}

export async function listArtifacts(runId: string, context: Machine): Promise<OutputsJson> {
  const found = await readRunOutputs(runId, context);
  const artifacts: OutputJson[] = [];
  for (const output of listShownOutputs(found)) artifacts.push(toOutputJson(output, await readKind(output, found)));
  return { runId: found.view.runId, state: found.view.state, artifacts };
}

function toOutputJson(output: StageOutput, kind: OutputKind): OutputJson {
  const { label, name, ref, isPartial = false } = output;
  const { sizeBytes, sha256, mediaType } = ref;
  return { stage: label, name, kind, partial: isPartial, sizeBytes, sha256, mediaType };
}

/**
 * Finds the bytes of an output: those of a file, or the tar of a folder.
 * @param stage  the whole name of the stage, with its item
 * @param name  null: the stage's own output
 * @throws AppError `api/no-artifact`, CodedError `store/damaged`
 */
export async function findArtifact(
  runId: string,
  { stage, name }: { readonly stage: string; readonly name: string | null },
  context: Machine,
): Promise<OutputBytes> {
  const { outputs, plan, artifacts } = await readRunOutputs(runId, context);
  const output = outputs.find((one) => one.label === stage && one.name === name);
  if (output === undefined)
    throw createNoArtifactError(runId, `the output \`${shorten(name === null ? stage : `${stage}.${name}`)}\``);
  const { ref, isFile } = output;
  const { sha256, sizeBytes } = ref;
  const open = (offset: number): AsyncIterable<Uint8Array> => artifacts.open(ref, offset);
  if (name === null || isFile === true) return { sha256, sizeBytes, fileName: name ?? stage, isMember: false, open };
  const member = await findOnlyFile(output, plan, artifacts);
  // The bytes of a sparse file are a map, which only a reader of the tar understands.
  if (member === null || member.isSparse) return { sha256, sizeBytes, fileName: `${name}.tar`, isMember: false, open };
  const { fileName, fromBytes } = member;
  return { sha256, sizeBytes: member.sizeBytes, fileName, isMember: true, open: (offset) => open(fromBytes + offset) };
}

/**
 * Finds an artifact by its hash, only if an event of the run names it.
 * @throws AppError `api/no-artifact`
 */
export async function findNamedArtifact(runId: string, sha256: string, context: Machine): Promise<OutputBytes> {
  const { reader, artifacts } = await context.stores();
  let ref: DataRef | undefined;
  for await (const { body } of reader.read(runId, 0, { output: false })) {
    ref = listNamedArtifacts(body).find((named) => named.sha256 === sha256);
    if (ref !== undefined) break;
  }
  if (ref === undefined) throw createNoArtifactError(runId, `an artifact with the hash ${shorten(sha256)}`);
  const found = ref;
  const { sizeBytes } = found;
  return { sha256, sizeBytes, fileName: sha256, isMember: false, open: (offset) => artifacts.open(found, offset) };
}

function createNoArtifactError(runId: string, what: string): AppError {
  return new AppError('usage', 'api/no-artifact', `run ${formatRunId(runId)} does not have ${what}`);
}

export async function readKind(
  output: StageOutput,
  { plan, artifacts }: Pick<RunOutputs, 'plan' | 'artifacts'>,
): Promise<OutputKind> {
  try {
    if (output.name === null || output.isFile === true) {
      for await (const _ of artifacts.open(output.ref)) break;
      return 'file';
    }
    return (await findOnlyFile(output, plan, artifacts)) === null ? 'folder' : 'file';
  } catch (error) {
    if (isDamage(error)) return 'damaged';
    throw error;
  }
}

/** Checks whether bytes of an artifact are absent, are wrong, or are not a tar. */
export function isDamage(error: unknown): error is Error {
  return isCodedError(error)
    ? error.code === 'store/damaged'
    : error instanceof Error && error.message.startsWith('tar: ');
}

interface Member {
  readonly fileName: string;
  readonly sizeBytes: number;
  /** The offset of its bytes in the tar. */
  readonly fromBytes: number;
  readonly isSparse: boolean;
}

/**
 * Finds the file that is all of an output. A tar does not say what it is of, so one file with the name of the plan is a
 * file, and anything else is a folder: null.
 */
async function findOnlyFile(
  { stage, name, ref }: StageOutput,
  plan: Plan | null,
  artifacts: ArtifactStore,
): Promise<Member | null> {
  const declared = plan?.stages.find(({ id }) => id === stage)?.outputs.find((output) => output.name === name);
  for await (const entry of streamTar(artifacts.open(ref), 'latin1')) {
    const path = Buffer.from(entry.path, 'latin1');
    const isNamed = declared === undefined || path.equals(Buffer.from(fileNameOf(declared.guestPath)));
    const isOnly = entry.kind === 'file' && isNamed && ref.sizeBytes - entry.nextOffset <= END_MARKER_BYTES;
    if (!isOnly) return null;
    const fromBytes = entry.nextOffset - Math.ceil(entry.sizeBytes / BLOCK_BYTES) * BLOCK_BYTES;
    const { sizeBytes, isSparse } = entry;
    return { fileName: fileNameOf(path.toString()), sizeBytes, fromBytes, isSparse };
  }
  return null;
}

const BLOCK_BYTES = 512;
const END_MARKER_BYTES = 1_024;
