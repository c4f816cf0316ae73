/** The payload of a delivery for a file in a folder: JSON with facts about the file. */
import type { DataRef } from '../plan/plan.ts';
import { isSha256 } from '../units/sha256.ts';

export interface FileFacts {
  /** The path in the folder, with `/`. */
  readonly path: string;
  readonly sizeBytes: number;
  readonly modifiedAtMs: number;
}

/** @param ref  the artifact with the bytes of the file */
export function writeFilePayload(facts: FileFacts, ref: DataRef): string {
  return JSON.stringify({ ...describeFile(facts), sha256: ref.sha256, artifact: ref });
}

/** The payload of a refused file has no artifact. */
export function writeRefusedPayload(facts: FileFacts, problem: string): string {
  return JSON.stringify({ ...describeFile(facts), problem });
}

function describeFile({ path, sizeBytes, modifiedAtMs }: FileFacts): object {
  const name = path.slice(path.lastIndexOf('/') + 1);
  return { name, path, sizeBytes, modifiedAt: new Date(modifiedAtMs).toISOString() };
}

/** Returns the artifact of a payload; null: the text is no such payload. */
export function readFileRef(text: string): DataRef | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const { artifact } = (value ?? {}) as Readonly<Record<string, unknown>>;
  return readRef(artifact);
}

/** Returns the artifact that a value of a payload names; null: it names none. */
export function readRef(value: unknown): DataRef | null {
  const { sha256, sizeBytes, mediaType } = (value ?? {}) as Readonly<Record<string, unknown>>;
  const isWhole = typeof sha256 === 'string' && isSha256(sha256) && typeof sizeBytes === 'number';
  return isWhole && typeof mediaType === 'string' ? { sha256, sizeBytes, mediaType } : null;
}
