import type { InlineOrRef } from '../../activities/contract.ts';
import type { ArtifactStore } from '../../activities/ports/artifacts.ts';
import { type DataRef, PLAN_LIMITS } from '../../domain/plan/plan.ts';
import { AppError } from '../app-error.ts';

/** The input of a run in its request: small text inline, everything else by its hash in the store. */
export async function storeRunInput(bytes: Uint8Array, artifacts: ArtifactStore): Promise<InlineOrRef> {
  const text = decodeText(bytes);
  if (text !== null && bytes.byteLength <= PLAN_LIMITS.inlineBytes) return { kind: 'inline', text };
  return {
    kind: 'ref',
    ref: await artifacts.put(toStream(bytes), text === null ? 'application/octet-stream' : 'text/plain; charset=utf-8'),
  };
}

/**
 * The input of a run that is stored already.
 * @throws AppError `trigger/payload-deleted` if it is not
 */
export async function claimRunInput(ref: DataRef, artifacts: ArtifactStore): Promise<InlineOrRef> {
  if (await artifacts.claim(ref)) return { kind: 'ref', ref };
  throw new AppError('usage', 'trigger/payload-deleted', `the file with the SHA-256 ${ref.sha256} is deleted`);
}

export async function* toStream(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

/** Null if the bytes are not UTF-8: decoded text would differ from the input. */
export function decodeText(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}
