/** The port of artifacts that deliveries name: no run names them yet, and prune must keep them. */
export interface HeldArtifacts {
  /** Keeps an artifact until it is released, and begins its time again. Durable when the promise resolves. */
  hold(sha256: string): Promise<void>;
  /** Lists the artifacts that were last held before a time. */
  listOlder(beforeMs: number): Promise<readonly string[]>;
  release(sha256: string): Promise<void>;
}
