/** Stores bytes by their hash. */
import type { DataRef } from '../../domain/plan/plan.ts';

export interface ArtifactStore {
  /** Hashes and stores the bytes; the same bytes are stored once. The artifact is durable when the promise resolves. */
  put(bytes: AsyncIterable<Uint8Array>, mediaType: string): Promise<DataRef>;
  /**
   * Protects an existing artifact from every prune until a record names it, as `put` does. Returns false if the
   * artifact does not exist.
   */
  claim(ref: DataRef): Promise<boolean>;
  /** @throws CodedError `store/damaged` if the bytes are absent or do not hash to the ref */
  open(ref: DataRef, offset?: number): AsyncIterable<Uint8Array>;
}
