/** The bytes of results and artifacts for Void-Box's API. */
import type { Machine } from '../machine.ts';
import type { FoundRun } from './find-run.ts';
import { decodeText, type FilePlace, openPlace, readStageFiles, type StageFiles } from './results.ts';
import { readUpTo } from '../runs/result-text.ts';

/** A larger file is no text to its readers. */
const SNIFFED_BYTES = 1024 * 1024;
/** Void-Box calls the result of a run by this name, too. */
const MAIN = 'main';

export interface FoundFile extends FilePlace {
  /** `application/json`, `text/plain` or `application/octet-stream`, by its bytes. */
  readonly mediaType: string;
  /** Yields the bytes from an offset. More bytes than `sizeBytes` may follow. */
  open(offset: number): AsyncIterable<Uint8Array>;
}

/** @returns null: the stage left no result */
export async function findOutputFile(found: FoundRun, stage: string, context: Machine): Promise<FoundFile | null> {
  const place = (await findFiles(found, stage, context))?.result ?? null;
  return place === null ? null : await openFile(place, context);
}

/** @returns null: the stage left no artifact with the name */
export async function findStageArtifact(
  found: FoundRun,
  { stage, name }: { readonly stage: string; readonly name: string },
  context: Machine,
): Promise<FoundFile | null> {
  const artifact = (await findFiles(found, stage, context))?.artifacts.find((each) => each.name === name);
  return artifact === undefined ? null : await openFile(artifact.place, context);
}

/** `main` names the stage whose output is the result, if no stage has this name. */
async function findFiles({ place }: FoundRun, stage: string, context: Machine): Promise<StageFiles | undefined> {
  if (place.kind !== 'stored') return undefined;
  const { view } = place;
  const isMain = stage === MAIN && view.stages.every(({ id }) => id !== MAIN);
  const wanted = isMain ? view.outputStage : stage;
  return (await readStageFiles(view, context)).find((each) => each.stage === wanted);
}

async function openFile(place: FilePlace, context: Machine): Promise<FoundFile> {
  const { artifacts } = await context.stores();
  const open = (offset: number): AsyncIterable<Uint8Array> => openPlace(place, offset, artifacts);
  return { ...place, open, mediaType: await findMediaType(place, open(0)) };
}

async function findMediaType({ sizeBytes }: FilePlace, bytes: AsyncIterable<Uint8Array>): Promise<string> {
  const text = sizeBytes > SNIFFED_BYTES ? undefined : decodeText(await readUpTo(bytes, sizeBytes));
  if (text === undefined) return 'application/octet-stream';
  try {
    JSON.parse(text);
    return 'application/json';
  } catch {
    return 'text/plain';
  }
}
