import { expect, test } from 'vitest';
import type { ArtifactStore } from '../../activities/ports/artifacts.ts';
import { PLAN_LIMITS } from '../../domain/plan/plan.ts';
import { storeRunInput } from './run-input.ts';

/** Stores nothing, and remembers its arguments. */
function rememberPuts(): { readonly puts: [number, string][]; readonly artifacts: ArtifactStore } {
  const puts: [number, string][] = [];
  const put: ArtifactStore['put'] = async (chunks, mediaType) => {
    let sizeBytes = 0;
    for await (const chunk of chunks) sizeBytes += chunk.byteLength;
    puts.push([sizeBytes, mediaType]);
    return { sha256: '0'.repeat(64), size: sizeBytes, mediaType } as unknown as Awaited<
      ReturnType<ArtifactStore['put']>
    >;
  };
  return { puts, artifacts: { put } as ArtifactStore };
}

test('text up to the limit travels with the request, and longer text is stored as text', async () => {
  const { puts, artifacts } = rememberPuts();
  const longest = 'a'.repeat(PLAN_LIMITS.inlineBytes);
  expect(await storeRunInput(Buffer.from(longest), artifacts)).toEqual({ kind: 'inline', text: longest });
  expect(puts).toEqual([]);
  expect(await storeRunInput(Buffer.from(`${longest}a`), artifacts)).toMatchObject({ kind: 'ref' });
  expect(puts).toEqual([[PLAN_LIMITS.inlineBytes + 1, 'text/plain; charset=utf-8']]);
});

test('bytes that are no UTF-8 are stored, however few they are', async () => {
  const { puts, artifacts } = rememberPuts();
  expect(await storeRunInput(Uint8Array.of(0xff), artifacts)).toMatchObject({ kind: 'ref' });
  expect(puts).toEqual([[1, 'application/octet-stream']]);
});
