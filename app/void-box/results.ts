/** The results that stages leave for clients of Void-Box's API, and the artifacts that results name. */
import type { ArtifactStore } from '../../activities/ports/artifacts.ts';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import type { DataRef } from '../../domain/plan/plan.ts';
import { FILES_OUTPUT } from '../../domain/void-box/collect-result.ts';
import {
  findResultProblem,
  listNamedFiles,
  type NamedFile,
  RESULT_BYTES,
  RESULT_NAME,
  type ResultProblem,
} from '../../domain/void-box/result-rule.ts';
import { readOutputs, type StageOutput } from '../../store/run-outputs.ts';
import { cleanPath } from '../../tar/inside.ts';
import { streamTar } from '../../tar/stream.ts';
import type { RunView } from '../../store/run-view.ts';
import type { Machine } from '../machine.ts';
import { readUpTo } from '../runs/result-text.ts';

const BLOCK_BYTES = 512;
const FOLDER = '/workspace/';

/** The bytes of a file: an artifact, or a part of one that is a tar. */
export interface FilePlace {
  readonly ref: DataRef;
  readonly fromBytes: number;
  readonly sizeBytes: number;
}

export interface NamedArtifact {
  readonly name: string;
  readonly mediaType: string;
  readonly place: FilePlace;
}

export interface StageFiles {
  readonly stage: string;
  /** Null: the stage left no result. */
  readonly result: FilePlace | null;
  /** Null: the result is an object with a status. */
  readonly problem: ResultProblem | null;
  readonly artifacts: readonly NamedArtifact[];
}

/** The record of a run that has ended: its tars are read once. */
const RESULTS_RECORD = 'void-box-results';

/**
 * Reads the results of the stages that have an output, in the order in which they ended.
 * @throws CodedError `store/damaged`, `store/io`
 */
export async function readStageFiles(view: RunView, context: Machine): Promise<readonly StageFiles[]> {
  const { reader, artifacts, records } = await context.stores();
  const { runId, outcome } = view;
  const known = outcome === null ? null : await records.get(runId, RESULTS_RECORD);
  if (known !== null && known !== undefined) return known as readonly StageFiles[];
  const byStage = new Map<string, StageOutput[]>();
  for (const output of await readOutputs(reader, runId))
    if (output.isPartial !== true) byStage.set(output.label, [...(byStage.get(output.label) ?? []), output]);
  const found: StageFiles[] = [];
  for (const [stage, outputs] of byStage)
    found.push(await readFiles(stage, outputs, view.agents.includes(stage), artifacts));
  if (outcome !== null) await records.create(runId, RESULTS_RECORD, found);
  return found;
}

async function readFiles(
  stage: string,
  outputs: readonly StageOutput[],
  isAgent: boolean,
  artifacts: ArtifactStore,
): Promise<StageFiles> {
  const files = outputs.find(({ name }) => name === FILES_OUTPUT)?.ref;
  const members = files === undefined ? new Map<string, FilePlace>() : await listMembers(files, artifacts);
  const result = members.get(RESULT_NAME) ?? (await findOwnResult(outputs, isAgent, artifacts));
  const text = result === null ? null : await readText(result, artifacts);
  const named = typeof text === 'string' ? listNamedFiles(text) : [];
  const ofSpec: NamedArtifact[] = [];
  for (const { name, ref } of outputs) {
    if (name === null || name === FILES_OUTPUT) continue;
    const only = await findOnlyMember(ref, artifacts);
    ofSpec.push({ name, mediaType: only === null ? ref.mediaType : OCTETS, place: only ?? toPlace(ref) });
  }
  return {
    stage,
    result,
    problem: findResultProblem(stage, text),
    artifacts: [...named.flatMap((file) => findMember(file, members)), ...ofSpec],
  };
}

const OCTETS = 'application/octet-stream';

function findMember(
  { name, guestPath, mediaType }: NamedFile,
  members: ReadonlyMap<string, FilePlace>,
): NamedArtifact[] {
  const path = guestPath.startsWith(FOLDER) ? cleanPath(guestPath.slice(FOLDER.length)) : null;
  const place = path === null ? undefined : members.get(path);
  return place === undefined ? [] : [{ name, mediaType, place }];
}

/** The own output of an agent is its result. Another stage names a file of JSON, or has an output of this name. */
async function findOwnResult(
  outputs: readonly StageOutput[],
  isAgent: boolean,
  artifacts: ArtifactStore,
): Promise<FilePlace | null> {
  const named = outputs.find(({ name }) => name === RESULT_NAME)?.ref;
  if (named !== undefined) return (await findOnlyMember(named, artifacts)) ?? toPlace(named);
  const own = outputs.find(({ name }) => name === null)?.ref;
  return own !== undefined && (isAgent || own.mediaType === 'application/json') ? toPlace(own) : null;
}

function toPlace(ref: DataRef): FilePlace {
  return { ref, fromBytes: 0, sizeBytes: ref.sizeBytes };
}

/** Files of a tar, by their path. Links are left out, so a result leads to no other file. */
async function listMembers(ref: DataRef, artifacts: ArtifactStore): Promise<ReadonlyMap<string, FilePlace>> {
  const members = new Map<string, FilePlace>();
  for await (const { kind, path, sizeBytes, nextOffset, isSparse } of streamTar(artifacts.open(ref), 'utf8')) {
    const clean = cleanPath(path);
    if (kind !== 'file' || isSparse || clean === null) continue;
    const fromBytes = nextOffset - Math.ceil(sizeBytes / BLOCK_BYTES) * BLOCK_BYTES;
    members.set(clean, { ref, fromBytes, sizeBytes });
  }
  return members;
}

/** @returns null for an artifact that is no tar of one file */
async function findOnlyMember(ref: DataRef, artifacts: ArtifactStore): Promise<FilePlace | null> {
  if (ref.mediaType !== 'application/x-tar') return null;
  try {
    const members = [...(await listMembers(ref, artifacts)).values()];
    return members.length === 1 ? members[0]! : null;
  } catch (error) {
    if (isCodedError(error)) throw error;
    return null;
  }
}

async function readText(place: FilePlace, artifacts: ArtifactStore): Promise<string | undefined> {
  if (place.sizeBytes > RESULT_BYTES) return undefined;
  return decodeText(await readUpTo(openPlace(place, 0, artifacts), place.sizeBytes));
}

export function decodeText(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** Yields bytes of the artifact from an offset in the file. Bytes after the file may follow. */
export function openPlace(
  { ref, fromBytes }: FilePlace,
  offset: number,
  artifacts: ArtifactStore,
): AsyncIterable<Uint8Array> {
  return artifacts.open(ref, fromBytes + offset);
}
