/** Bytes that are named by their hash. */
import type { DataRef } from '../../domain/plan/plan.ts';

export interface ArtifactStore {
  /** Hashes and stores; the same bytes are stored once. Durable when it settles. */
  put(bytes: AsyncIterable<Uint8Array>, mediaType: string): Promise<DataRef>;
  /** Says that somebody relies on the artifact from now on, as `put` does: no prune takes it until that is recorded. False when it is not there. */
  claim(ref: DataRef): Promise<boolean>;
  /** @throws CodedError `store/damaged` when the bytes are absent or do not hash to the ref */
  open(ref: DataRef, offset?: number): AsyncIterable<Uint8Array>;
}
