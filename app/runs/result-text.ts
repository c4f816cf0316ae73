/** The result of a run as text, for JSON. */
import type { ArtifactStore } from '../../activities/ports/artifacts.ts';
import type { DataRef } from '../../domain/plan/plan.ts';

/** The largest text result that `--json` contains as text. */
export const JSON_TEXT_BYTES = 1024 * 1024;

/** The result as text, for `--json`; null when it is larger than 1 MiB or is not UTF-8. */
export async function resultText(ref: DataRef, artifacts: ArtifactStore): Promise<string | null> {
  if (ref.sizeBytes > JSON_TEXT_BYTES) return null;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(
      await readUpTo(artifacts.open(ref), JSON_TEXT_BYTES),
    );
  } catch (error) {
    if (error instanceof TypeError) return null;
    throw error;
  }
}

export async function readUpTo(bytes: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of bytes) {
    chunks.push(chunk.subarray(0, maxBytes - size));
    size += chunk.byteLength;
    if (size >= maxBytes) break;
  }
  return Buffer.concat(chunks);
}
